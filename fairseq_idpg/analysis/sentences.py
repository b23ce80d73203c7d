"""Sentences of pairs, each encoded alone: ``<s> A </s>`` with the prompt in it -> the last layer's ``<s>`` state."""

import numpy as np
import torch
from fairseq import utils
from fairseq.data import PrependTokenDataset
from torch import Tensor
from tqdm import tqdm

from preprocess.dictionary import MASK

from ..errors import InputError
from ..inference.trained import LoadedModel
from ..tasks.dataset import PromptedDataset, PromptPlaces, by_length, unlabelled
from ..tasks.folder import check_files, read_sentences, sentence_lengths
from ..tasks.positions import Shortener, check_position, first_row, insertion_index, kept_lengths, prompt_block

SPECIAL = 2  # <s> and </s>

# Where a prompt of pairs stands in a single sentence. What follows it stays the same: position 2 is in front of a
# sentence, as 0 is, and 3 in front of the closing </s>, as 1 is.
SINGLE_POSITION = {0: 0, 1: 1, 2: 0, 3: 1, 4: 4}


def single_position(loaded: LoadedModel, chosen: int | None) -> int:
    """The prompt's position in a single sentence: the chosen one, or what the model's own corresponds to.

    Raises:
        InputError: the model's own is none.
    """
    if not loaded.prompt_length:
        return 0
    if chosen is not None:
        return chosen
    check_position(loaded.task.cfg.prompt_position, pairs=True)
    return SINGLE_POSITION[loaded.task.cfg.prompt_position]


def sentence_dataset(loaded: LoadedModel, data: str, part: str, split: str, position: int) -> PromptedDataset:
    """The sentences of ``part`` (input0 or input1), each alone, batched by length.

    A sentence without room beside the prompt is cut at its end (``cut_sentences`` counts them).

    Raises:
        InputError: missing or damaged files; no room for text.
    """
    cfg, dictionary, length = loaded.task.cfg, loaded.task.source_dictionary, loaded.prompt_length
    block = prompt_block(position, length, dictionary.index(MASK), dictionary.eos())
    room = cfg.max_positions - SPECIAL - len(block)
    if room < 1:
        raise InputError(
            f"the {len(block)} prompt rows of {loaded.path} leave no room for text: give another checkpoint"
        )
    check_files(data, split, None)
    sentences = read_sentences(data, part, split, dictionary, combine=False)
    lengths = [sentence_lengths(sentences)]
    kept = kept_lengths(lengths, room)
    before = insertion_index(position, kept)
    shorten = Shortener(lengths, kept, separators=1, random=False, seed=0)
    tokens = PrependTokenDataset(sentences, cfg.init_token)
    places = PromptPlaces(shorten, before, block, first_row(position, before))
    pad = dictionary.pad()
    return PromptedDataset(unlabelled(tokens, pad), places, pad=pad, arrange=by_length)


def cut_sentences(dataset: PromptedDataset) -> int:
    """How many sentences were too long."""
    return int(dataset.places.shorten.cut.sum())


@torch.no_grad()
def sentence_states(loaded: LoadedModel, dataset: PromptedDataset, batch_size: int) -> Tensor:
    """N x d, the last layer's ``<s>`` state of each sentence, on the CPU in the data's order."""
    batches = dataset.batch_by_size(dataset.ordered_indices(), max_sentences=batch_size)
    on_gpu = next(loaded.model.parameters()).is_cuda
    found = []
    for index in tqdm(batches, desc=loaded.name, unit=" batches", disable=None, leave=False):
        net_input = dataset.collater([dataset[i] for i in index])["net_input"]
        features, _ = loaded.model(**(utils.move_to_cuda(net_input) if on_gpu else net_input), features_only=True)
        found.append(features[:, 0].float().cpu())
    sorted_states = torch.cat(found)
    states = torch.empty_like(sorted_states)
    states[torch.from_numpy(np.concatenate(batches))] = sorted_states
    return states
