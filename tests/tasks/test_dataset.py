"""Batches of the task: every example once, prompts where they belong, raw tokens untouched; shards are checked."""

import multiprocessing

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_idpg.errors import InputError
from fairseq_idpg.tasks.config import SentencePredictionIDPGConfig
from fairseq_idpg.tasks.task import SentencePredictionIDPGTask
from tests.folders import write_folder
from tests.helpers import EOS, PAD, prompted


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    return {pairs: write_folder(place / str(pairs), pairs=pairs) for pairs in (True, False)}


def make_task(folder, prompt_length=5, **options):
    usual = {"num_classes": 2, "regression_target": False, "init_token": 0, "separator_token": 2, "max_positions": 64}
    cfg = SentencePredictionIDPGConfig(**{"data": str(folder), "seed": 1, **usual, **options})
    task = SentencePredictionIDPGTask.setup_task(cfg)
    task.prompt_length = prompt_length
    task.cfg.persistent_workers = False  # processes that outlive their batches are killed, and leave folders behind
    return task


def assert_prompts_in_place(task, dataset, position):
    """Prompts stand where a row-by-row search puts them; gives the batch of all examples."""
    net_input = dataset.collater([dataset[i] for i in range(len(dataset))])["net_input"]
    mask = task.source_dictionary.index("<mask>")
    expected = prompted(net_input["src_tokens"], position, 5, placeholder=mask)
    assert torch.equal(net_input["prompted_tokens"], expected.prompted_tokens)
    assert torch.equal(net_input["prompt_offset"], expected.prompt_offset)
    return net_input


@pytest.mark.parametrize("split", ["train", "valid"])
def test_no_example_is_longer_than_a_batch_may_be(folders, split):
    """fairseq would leave it out of training; what counts is the text, without the prompt."""
    task = make_task(folders[True])
    dataset = task.load_dataset(split)
    longest = int(dataset.sizes.max()) - 5
    limits = {"max_tokens": longest, "max_positions": longest}  # as fairseq's trainer has it, the least of all
    batches = task.get_batch_iterator(dataset, **limits).next_epoch_itr(shuffle=False)
    assert sum(len(batch["id"]) for batch in batches) == len(dataset)
    with pytest.raises(InputError, match=f"--max-tokens-valid. {longest - 1} .*give {longest}$"):
        task.get_batch_iterator(dataset, max_tokens=longest - 1)


@pytest.mark.parametrize(("pairs", "position"), [(True, p) for p in range(5)] + [(False, p) for p in (0, 1, 4)])
def test_batches(folders, pairs, position):
    task = make_task(folders[pairs], prompt_position=position)
    dataset = task.load_dataset("valid")
    net_input = assert_prompts_in_place(task, dataset, position)
    assert dataset.sizes.tolist() == net_input["prompted_tokens"].ne(PAD).sum(1).tolist()
    assert torch.equal(net_input["src_lengths"], net_input["src_tokens"].ne(PAD).sum(1))


@pytest.mark.parametrize(("pairs", "position"), [(False, 2), (True, -1), (True, 5)])
def test_positions_that_there_are_not(folders, pairs, position):
    with pytest.raises(InputError, match=f"--prompt-position {position}"):
        make_task(folders[pairs], prompt_position=position)


@pytest.mark.parametrize("options", [{}, {"max_positions": 18, "shorten_method": "truncate"}], ids=["whole", "cut"])
@pytest.mark.parametrize("position", range(5))
def test_pairs_with_one_separator(folders, position, options):
    """<s> A </s> B </s>, without --separator-token: the prompt stands in its place, and the separator is not cut."""
    task = make_task(folders[True], prompt_position=position, separator_token=None, **options)
    dataset, mask = task.load_dataset("valid"), task.source_dictionary.index("<mask>")
    assert dataset.places.shorten.cut.any() == bool(options)
    for item, size in zip((dataset[i] for i in range(len(dataset))), dataset.sizes):
        text, prompted = (item[name].tolist() for name in ("net_input.src_tokens", "prompted_tokens"))
        middle, end = (place for place, token in enumerate(text) if token == EOS)
        first = {0: 1, 1: middle, 2: middle + 1, 3: end, 4: end + 2}[position]
        assert [place for place, token in enumerate(prompted) if token == mask] == list(range(first, first + 5))
        assert item["prompt_offset"] == first and len(prompted) == size <= task.cfg.max_positions
        assert end == len(text) - 1


@pytest.mark.parametrize("prompt_length", [0, 5])
def test_batches_say_whether_they_have_pads(folders, prompt_length):
    dataset = make_task(folders[True], prompt_length).load_dataset("valid")
    examples = [dataset[i] for i in range(len(dataset))]
    of = {int(item["net_input.src_lengths"]): item for item in examples}
    assert len(of) > 1
    for batch, padded in ((examples, True), ([*of.values()][:1] * 2, False)):
        net_input = dataset.collater(batch)["net_input"]
        assert net_input["padded"] is padded
        for name in ("src_tokens", "prompted_tokens") if prompt_length else ("src_tokens",):
            assert net_input[name].eq(PAD).any().item() is padded


@settings(max_examples=25)
@given(sentences=st.integers(1, 20), multiple=st.integers(1, 9), tokens=st.sampled_from([None, 60, 200]))
def test_no_example_is_dropped_by_batching(folders, sentences, multiple, tokens):
    """fairseq drops the last batch when its size is no multiple of --required-batch-size-multiple.

    --max-tokens counts the text with its padding, whatever the method inserts: as in the released code.
    """
    dataset = make_task(folders[True]).load_dataset("valid")
    indices = dataset.ordered_indices()
    limits = {"max_sentences": sentences, "max_tokens": tokens, "required_batch_size_multiple": multiple}
    batches = dataset.batch_by_size(indices, **limits)
    assert sorted(i for batch in batches for i in batch) == sorted(indices) == list(range(13))
    assert all(0 < len(batch) <= sentences for batch in batches)
    assert tokens is None or all((max(dataset.sizes[batch]) - 5) * len(batch) <= tokens for batch in batches)
    assert [dataset.num_tokens(i) for i in range(13)] == dataset.num_tokens_vec(np.arange(13)).tolist()


def test_room_is_reserved_to_the_last_token(folders):
    task = make_task(folders[True])
    longest = int((task.load_dataset("train").sizes).max())
    assert make_task(folders[True], max_positions=longest).load_dataset("train").sizes.max() == longest
    too_long = np.flatnonzero(task.load_dataset("train").sizes == longest)
    # 4 special tokens and the prompt's 5
    lengths = f"number {too_long[0] + 1}, has {longest - 9} tokens, .* leaves room for {longest - 10}: "
    with pytest.raises(InputError, match=f"^{len(too_long)} examples of split train are too long: .*{lengths}"):
        make_task(folders[True], max_positions=longest - 1).load_dataset("train")


@pytest.mark.parametrize("workers", [0, 1])
def test_random_crops_change_with_the_epoch_whichever_process_reads(folders, workers):
    task = make_task(folders[True], max_positions=16, shorten_method="random_crop")
    dataset = task.load_dataset("train")
    batches = task.get_batch_iterator(dataset, max_sentences=24, num_workers=workers, data_buffer_size=0)
    for epoch in (1, 2):
        counted = batches.next_epoch_itr(shuffle=False)
        (batch,) = *counted, *counted._itr  # torch's own iterator, whose process ends once it is empty
        dataset.set_epoch(epoch)
        assert torch.equal(batch["net_input"]["src_tokens"], dataset.raw_tokens(batch["id"].numpy()))
        dataset.set_epoch(3 - epoch)
        assert not torch.equal(batch["net_input"]["src_tokens"], dataset.raw_tokens(batch["id"].numpy()))
        dataset.set_epoch(epoch)


def test_nothing_is_loaded_before_caches_are_filled(folders):
    """fairseq fills them once it has the iterator of an epoch, whose processes would begin at once without a buffer."""
    task = make_task(folders[True])
    task.stored = lambda text: None
    dataset = task.load_dataset("train")
    options = {"max_sentences": 4, "num_workers": 1, "data_buffer_size": 0}
    before = set(multiprocessing.active_children())
    batches = task.get_batch_iterator(dataset, **options).next_epoch_itr(shuffle=False)
    assert set(multiprocessing.active_children()) == before
    assert len(list(batches._itr)) == 6


def test_shortening_can_be_limited_to_some_splits(folders):
    options = {"max_positions": 20, "shorten_method": "truncate", "shorten_data_split_list": "train,valid1"}
    task = make_task(folders[True], **options)
    task.load_dataset("train")
    with pytest.raises(InputError, match="split valid are too long: .* --shorten-data-split-list train,valid1,valid"):
        task.load_dataset("valid")


def test_shards_are_checked_too(tmp_path):
    """fairseq reads train, train1, ... as one training set."""
    folder = write_folder(tmp_path, pairs=False, splits={"train": 24, "train1": 13, "valid": 13})
    assert len(make_task(folder).load_dataset("train", combine=True)) == 24 + 13
    path = folder / "input0" / "train1.bin"
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    assert len(make_task(folder).load_dataset("train")) == 24
    with pytest.raises(InputError, match="input0/train1.bin example 1 has the id"):
        make_task(folder).load_dataset("train", combine=True)


def test_shards_have_no_scores(tmp_path):
    """fairseq reads the file of train alone, so that to make the same folder again would not help."""
    splits = {"train": 6, "train1": 2, "valid": 6}
    folder = write_folder(tmp_path / "d", splits=splits, regression=True)
    task = make_task(folder, regression_target=True, num_classes=1)
    with pytest.raises(InputError, match="train.label has 6 labels for 8 "):
        task.load_dataset("train", combine=True)
