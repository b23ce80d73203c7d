"""Sentence-prediction batches that also say where the prompt goes; exchanged pairs; orders of examples."""

import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.data import (
    BaseWrapperDataset,
    Dictionary,
    FairseqDataset,
    IdDataset,
    NestedDictionaryDataset,
    NumelDataset,
    RightPadDataset,
    data_utils,
)
from torch import Tensor

from preprocess.dictionary import MASK
from preprocess.questions import Questions

from ..names import TRAIN
from ..representations.states import StateCache
from ..representations.stored import Stored
from .positions import END, Lengths, Shortener, fit, insertion_index, prompt_block, separators
from .template import Phrased, Template

logger = logging.getLogger(__name__)

BUCKET = 1600  # examples that are sorted among themselves: 100 batches of 16


class PromptPlaces(NamedTuple):
    """How N examples are cut, and where the prompt goes in each."""

    shorten: Shortener
    before: np.ndarray  # N, the index in each shortened example in front of which ``block`` is inserted
    block: Tensor  # the inserted token row (placeholders, at position 4 between separators)
    first_row: np.ndarray  # N, the index of the first placeholder in each example with its block
    mask_index: np.ndarray | None = None  # N, the same of the ``<mask>`` of a template


def place_prompts(
    cfg: Any,
    dictionary: Dictionary,
    split: str,
    lengths: Lengths,
    prompt_length: int,
    template: Template | None = None,
    placed: Lengths = (),
) -> PromptPlaces:
    """Return the places in the examples of a split, given the ``lengths`` of their sentences; InputError: see ``fit``.

    ``placed``: the lengths that the sentences have in the ``template``, if there is one.
    """
    position = cfg.prompt_position
    block = prompt_block(position, prompt_length, dictionary.index(MASK), dictionary.eos())
    if template is None:
        shorten = fit(cfg, split, lengths, prompt_length, len(block))
        before = insertion_index(position, shorten.kept, separators(cfg))
        return PromptPlaces(shorten, before, block, before + (position == END))
    phrased = Phrased(template, lengths, fit(cfg, split, placed, prompt_length, len(block), template.words))
    # A template makes one text of both sentences. A prompt in front of ``<mask>`` moves it by its length.
    before = insertion_index(position, [phrased.sizes - 2])
    mask_index = phrased.mask_index + len(block) * (before <= phrased.mask_index)
    return PromptPlaces(phrased, before, block, before + (position == END), mask_index)


def unlabelled(tokens: Any, pad: int) -> NestedDictionaryDataset:
    """Wrap a dataset of ``tokens`` as fairseq's sentence-prediction dataset, without labels."""
    net_input = {"src_tokens": RightPadDataset(tokens, pad), "src_lengths": NumelDataset(tokens)}
    plain = {"id": IdDataset(), "net_input": net_input, "ntokens": NumelDataset(tokens, reduce=True)}
    return NestedDictionaryDataset(plain, sizes=[tokens.sizes])


class SwappedPairsAppended(BaseWrapperDataset):
    """Each pair, and each pair again with its sentences exchanged (IDPG, appendix A.4), without a copy on disk.

    Example i < N is ``<s> A </s> [</s>] B </s>``, and N + i is ``<s> B </s> [</s>] A </s>`` with the same target.
    ``lengths``: N of A and N of B; ``separators``: the ``</s>`` between them; ``shuffle``: draw a random order.
    """

    def __init__(self, dataset: FairseqDataset, lengths: Lengths, separators: int, shuffle: bool, seed: int):
        super().__init__(dataset)
        self.lengths, self.separators = lengths, separators
        self.order = np.arange(2 * len(dataset))
        if shuffle:
            with data_utils.numpy_seed(seed):
                self.order = np.random.permutation(self.order)

    def __len__(self) -> int:
        return 2 * len(self.dataset)

    def __getitem__(self, i: int) -> dict[str, Any]:
        swapped, pair = divmod(i, len(self.dataset))
        item = self.dataset[pair]
        if swapped:
            a, b = (lengths[pair] for lengths in self.lengths)
            start, *parts = item["net_input.src_tokens"].split([1, int(a), self.separators, int(b), 1])
            item["id"], item["net_input.src_tokens"] = i, torch.cat([start, *parts[2::-1], parts[3]])
        return item

    def ordered_indices(self) -> np.ndarray:
        return self.order


@dataclass(eq=False, repr=False)
class PromptedDataset(FairseqDataset):
    """Adds to fairseq's batches where the prompt goes, and facts that would be slow to read back from a GPU.

    The ``net_input`` of a batch has

        src_tokens        B x T, the text alone, from which M(x) is computed
        padded            whether there are pads; a prompt lengthens all examples equally and adds none
        prompted_tokens   B x T', with a prompt in the input: the text with placeholders for its rows
        prompt_offset     B, with a prompt in the input: where the first placeholder is
        mask_index        B, with a template: where ``<mask>`` is in what the encoder reads
        representation    B x w, if ``representations`` has them
        states            T x B x d, if ``states`` has them

    and the batch itself, with ``questions``, ``answers_question`` B and, where answers are texts, ``answer_em`` and
    ``answer_f1`` B.
    """

    dataset: FairseqDataset  # as fairseq loads it; ``dataset[i]["net_input.src_tokens"]`` is ``<s> A </s> ...``
    places: PromptPlaces
    _: KW_ONLY
    pad: int
    arrange: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None  # fairseq's order, sizes -> another order
    representations: Stored | None = None  # gives M(x) of examples where it need not be computed
    states: StateCache | None = None  # gives what enters the first layer that has to be run
    class_of: Callable[[Tensor], Tensor] | None = None  # the folder's classes -> the model's, asked for each example
    questions: Questions | None = None  # which question each example answers

    def __post_init__(self) -> None:
        self.sizes = self.places.shorten.sizes + len(self.places.block)  # of each example with its block

    def __getitem__(self, i: int) -> dict[str, Any]:
        item, places = self.dataset[i], self.places
        # M(x) is made from the text alone, so an example keeps that beside the text with room for the prompt.
        tokens = places.shorten(item["net_input.src_tokens"], i)
        item["net_input.src_tokens"] = tokens
        item["net_input.src_lengths"] = item["ntokens"] = tokens.numel()
        if places.block.numel():
            before = int(places.before[i])
            item["prompted_tokens"] = torch.cat([tokens[:before], places.block, tokens[before:]])
            item["prompt_offset"] = int(places.first_row[i])
        if self.class_of is not None and "target" in item:
            item["target"] = self.class_of(item["target"])
        return item

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        batch = self.dataset.collater(samples)
        if not samples:
            return batch
        # fairseq has padded the text alone and stacked the labels; the rest of a batch is added to that.
        net_input, index = batch["net_input"], np.asarray([sample["id"] for sample in samples])
        net_input["padded"] = bool(net_input["src_tokens"].eq(self.pad).any())
        if self.places.block.numel():
            net_input["prompted_tokens"] = data_utils.collate_tokens([s["prompted_tokens"] for s in samples], self.pad)
            net_input["prompt_offset"] = torch.tensor([s["prompt_offset"] for s in samples])
        if self.places.mask_index is not None:
            net_input["mask_index"] = torch.from_numpy(self.places.mask_index[index])
        # Caches bring M(x), or the states that enter the first layer to be run, so that no pass has to compute them.
        rows = None if self.representations is None else self.representations.rows(index)
        states = None if self.states is None else self.states.batch(index, net_input["src_tokens"].size(1))
        if rows is not None:
            net_input["representation"] = torch.from_numpy(rows)
        if states is not None:
            net_input["states"] = states
        if self.questions is not None:
            number, em, f1 = self.questions.number, self.questions.em, self.questions.f1
            for name, column in {"answers_question": number, "answer_em": em, "answer_f1": f1}.items():
                if column is not None:
                    batch[name] = torch.from_numpy(column[index])
        return batch

    def raw_tokens(self, index: np.ndarray) -> Tensor:
        """Return what the backbone reads of some examples to compute M(x): n x T, padded."""
        return data_utils.collate_tokens([self[i]["net_input.src_tokens"] for i in index], self.pad)

    def __len__(self) -> int:
        return len(self.dataset)

    def num_tokens_vec(self, indices: Any) -> Any:
        """Count for --max-tokens the text alone, as the released code does, so that all methods get equal batches."""
        return self.sizes[indices] - self.places.block.numel()

    num_tokens = num_tokens_vec

    def size(self, index: int) -> int:
        return self.sizes[index]

    def filter_indices_by_size(self, indices: np.ndarray, max_sizes: Any) -> tuple[np.ndarray, list[int]]:
        """Keep all. fairseq counts the prompt here, so a longer prompt would leave out more of the examples."""
        return indices, []

    def batch_by_size(self, indices: np.ndarray, **limits: Any) -> list[np.ndarray]:
        batches = list(super().batch_by_size(indices, **limits))
        # fairseq drops the last batch, in training and validation alike, where its size is not a multiple of
        # --required-batch-size-multiple (8 by default). Here it is kept.
        rest = indices[sum(map(len, batches)) :]
        batches += [rest] if len(rest) else []
        padded = sum(len(batch) * int(self.sizes[batch].max()) for batch in batches)
        waste = 1 - sum(int(self.sizes[batch].sum()) for batch in batches) / padded if padded else 0.0
        logger.info(f"{len(batches):,} batches, {waste:.1%} of their tokens are padding")
        return batches

    def ordered_indices(self) -> np.ndarray:
        order = self.dataset.ordered_indices()
        return order if self.arrange is None else self.arrange(order, self.sizes)

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self.places.shorten.epoch = epoch
        self.dataset.set_epoch(epoch)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        return True  # a random crop changes which tokens are kept, not how many


def by_length(order: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Put the longest first: batches need little padding, and memory does not run out late."""
    return order[np.argsort(-sizes[order], kind="stable")]


def grouped_by_length(order: np.ndarray, sizes: np.ndarray, bucket: int = BUCKET) -> np.ndarray:
    """Sort a shuffled order by length within buckets: batches of similar examples, still drawn at random."""
    buckets = [order[start : start + bucket] for start in range(0, len(order), bucket)]
    return np.concatenate([by_length(part, sizes) for part in buckets]) if buckets else order


def arrangement(cfg: Any, split: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
    """Return what changes fairseq's order of a split's examples, (order, sizes) -> order; None where it stays."""
    if cfg.no_shuffle:
        return None
    if not split.startswith(TRAIN):
        return by_length  # the order of a validation changes no result
    return grouped_by_length if cfg.group_by_length else None
