"""Batches of examples in a template: the mask is where they say, whatever is inserted, exchanged or cut."""

import numpy as np
import pytest
import torch

from fairseq_idpg.errors import InputError
from fairseq_idpg.tasks.template import encode_template
from preprocess.encoders import load_encoder
from tests.helpers import EOS, PAD
from tests.phrases import PAIRS, SINGLES, write_texts
from tests.tasks.test_dataset import make_task

TEMPLATES = {"singles": "<mask> : {0}", "pairs": "{1} ? <mask> , so {0} ."}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("phrasing")
    write_texts(folder, "singles", SINGLES)
    write_texts(folder, "pairs", PAIRS)
    return folder


def phrased(place, data, prompt_length=0, **options):
    task = make_task(place / f"{data}-bin", prompt_length, **options)
    encoder = load_encoder("gpt2", place / "vocab")
    mask = task.source_dictionary.index("<mask>")
    task.template = encode_template(TEMPLATES[data], data == "pairs", encoder, mask, 0, EOS)
    return task, encoder


def expected(task, encoder, row, swapped=False):
    sentences = [torch.from_numpy(encoder.encode([text])[0][:-1].astype(np.int64)) for text in row[:-1]]
    in_order = sentences[::-1] if swapped else sentences
    return task.template.join([task.template.place(*numbered) for numbered in enumerate(in_order)]).tolist()


@pytest.mark.parametrize("position", [0, 1, 4])
@pytest.mark.parametrize("length", [0, 3])
@pytest.mark.parametrize("data", ["singles", "pairs"])
def test_batches(place, data, length, position):
    task, encoder = phrased(place, data, length, prompt_position=position)
    dataset = task.load_dataset("valid")
    batch = dataset.collater([dataset[i] for i in range(len(dataset))])["net_input"]
    mask = task.source_dictionary.index("<mask>")
    read = batch["prompted_tokens"] if length else batch["src_tokens"]
    assert read.ne(PAD).sum(1).tolist() == dataset.sizes.tolist()
    prompts = torch.zeros_like(read, dtype=torch.bool)
    for i in range(len(read)) if length else ():
        prompts[i, batch["prompt_offset"][i] : batch["prompt_offset"][i] + length] = True
    masks = (read.eq(mask) & ~prompts).nonzero()
    assert masks.tolist() == [[i, at] for i, at in enumerate(batch["mask_index"].tolist())]
    begins = {0: lambda row: 1, 1: lambda row: len(row) - 1, 4: lambda row: len(row) + 1}[position]
    for tokens, (i, row) in zip(batch["src_tokens"], enumerate(SINGLES if data == "singles" else PAIRS)):
        tokens = tokens[tokens.ne(PAD)].tolist()
        assert tokens == expected(task, encoder, row)
        assert not length or batch["prompt_offset"][i] == begins(tokens)
    assert batch["src_lengths"].tolist() == batch["src_tokens"].ne(PAD).sum(1).tolist()


def test_exchanged_pairs(place):
    task, encoder = phrased(place, "pairs", swap_pairs="append")
    dataset = task.load_dataset("train")
    mask = task.source_dictionary.index("<mask>")
    for i, row in enumerate(PAIRS * 2):
        item = dataset[i]["net_input.src_tokens"]
        assert item.tolist() == expected(task, encoder, row, swapped=i >= len(PAIRS))
        assert item[dataset.places.mask_index[i]] == mask and len(item) == dataset.sizes[i]


@pytest.mark.parametrize("separator", [2, None])
@pytest.mark.parametrize("method", ["truncate", "random_crop"])
@pytest.mark.parametrize(("data", "room"), [("singles", 9), ("pairs", 19)])
def test_the_template_stays_whole(place, data, room, method, separator):
    usual, _ = phrased(place, data, separator_token=separator)
    whole = usual.load_dataset("valid")
    task, _ = phrased(place, data, 2, max_positions=room, shorten_method=method, separator_token=separator)
    dataset = task.load_dataset("valid")
    words = [id for part in task.template.parts if not isinstance(part, int) for id in part]
    assert dataset.sizes.max() == room and (dataset.sizes - 2 < whole.sizes).any()
    for i in range(len(dataset)):
        tokens = dataset[i]["net_input.src_tokens"].tolist()
        assert len(tokens) == dataset.sizes[i] - 2 and (tokens[0], tokens[-1]) == (0, EOS)
        at = dataset.places.mask_index[i] - 2  # the prompt is in front
        assert tokens[at] == task.source_dictionary.index("<mask>")
        rest = iter(tokens)
        assert all(word in rest for word in words)  # in their order
    refused, _ = phrased(place, data, 2, max_positions=room)
    with pytest.raises(InputError, match="--shorten-method truncate .*--template"):
        refused.load_dataset("valid")
    refused, _ = phrased(place, data, 2, max_positions=len(words) + 4, shorten_method=method)
    with pytest.raises(InputError, match="fills --max-positions .*--template"):
        refused.load_dataset("valid")


def test_a_sentence_behind_a_space_has_other_tokens(place):
    digests, encoder = [], load_encoder("gpt2", place / "vocab")
    for text in ("<mask> {0}{1}", "<mask>{0} {1}"):
        task = make_task(place / "pairs-bin", 0, max_positions=5, shorten_method="truncate")  # all cut alike
        task.template = encode_template(text, True, encoder, task.source_dictionary.index("<mask>"), 0, EOS)
        task.stored = lambda text: digests.append(text.digest())
        task.load_dataset("train")
    first, second = digests[: len(digests) // 2], digests[len(digests) // 2 :]
    assert first and first != second
