"""Orders of examples: everyone once, similar lengths together, less padding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_idpg.tasks.dataset import by_length, grouped_by_length
from fairseq_idpg.tasks.task import share_of_batch
from preprocess.errors import InputError
from tests.folders import write_folder
from tests.tasks.test_dataset import make_task

SIZES = st.lists(st.integers(1, 50), max_size=60).map(np.asarray)


@given(SIZES, st.integers(1, 70), st.integers(0, 5))
def test_every_example_once_and_sorted_within_buckets(sizes, bucket, seed):
    order = np.random.RandomState(seed).permutation(len(sizes))
    found = grouped_by_length(order, sizes, bucket)
    assert sorted(found.tolist()) == list(range(len(sizes)))
    for start in range(0, len(order), bucket):
        part = found[start : start + bucket]
        assert set(part.tolist()) == set(order[start : start + bucket].tolist())
        assert (np.diff(sizes[part]) <= 0).all()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("data"), splits={"train": 40, "valid": 30})


def order_of(folder, split, **options):
    dataset = make_task(folder, **options).load_dataset(split)
    return dataset.ordered_indices(), dataset.sizes


def test_orders_of_the_splits(folder):
    plain, _ = order_of(folder, "train")
    grouped, sizes = order_of(folder, "train", group_by_length=True)
    assert grouped.tolist() == by_length(plain, sizes).tolist() != plain.tolist()  # one bucket
    valid, sizes = order_of(folder, "valid")
    assert (np.diff(sizes[valid]) <= 0).all()
    for split, examples in (("train", 40), ("valid", 30)):
        order, _ = order_of(folder, split, no_shuffle=True, group_by_length=True)
        assert order.tolist() == list(range(examples))


@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 5))
def test_shares_of_a_batch(processes, update_freq, share):
    total = processes * update_freq * share
    assert share_of_batch(total, processes, [update_freq]) == share
    if processes * update_freq > 1:
        for other, frequencies in ((total + 1, [update_freq]), (0, [update_freq]), (total, [update_freq, 5])):
            with pytest.raises(InputError, match=f"--total-batch-size {other}"):
                share_of_batch(other, processes, frequencies)


@pytest.mark.parametrize(("judges", "size"), [(False, 2), (True, 14)])
def test_the_batches_of_a_validation_are_its_own(folder, judges, size):
    """Of the training set, too: --total-batch-size is of the training that the checkpoint comes from."""
    task = make_task(folder, total_batch_size=4, update_freq=[2])
    task.judges = judges
    batches = task.get_batch_iterator(task.load_dataset("train"), max_sentences=14).next_epoch_itr(shuffle=False)
    assert max(len(batch["id"]) for batch in batches) == size


@pytest.mark.parametrize(("updates", "share"), [(1, 1), (2, 1), (4, 2)])
def test_shares_of_tokens(folder, updates, share):
    """An even share, but no less than the longest example; all are numbers of the longest example."""
    task = make_task(folder, total_batch_size=80, update_freq=[2])
    dataset = task.load_dataset("train")
    longest = int(dataset.num_tokens_vec(slice(None)).max())
    batches = task.get_batch_iterator(dataset, max_tokens=updates * longest).frozen_batches
    tokens = [len(batch) * dataset.num_tokens_vec(batch).max() for batch in batches]
    assert (share - 1) * longest < max(tokens) <= share * longest
