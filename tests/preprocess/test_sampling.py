"""Which examples a seed chooses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preprocess.data_folder import DataFolder
from preprocess.errors import InputError
from preprocess.few_shot import select_rows
from tests.folders import write_folder

TRAIN, CLASSES = 40, 3


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Read-only for the tests."""
    folder = tmp_path_factory.mktemp("source") / "pairs-bin"
    return DataFolder(write_folder(folder, splits={"train": TRAIN, "valid": 7}, classes=CLASSES))


@settings(max_examples=60)
@given(st.integers(1, TRAIN), st.integers(1, TRAIN), st.integers(0, 2**32 - 1))
def test_disjoint_of_the_right_size_and_nested(source, k, dev, seed):
    if k + dev > TRAIN:
        with pytest.raises(InputError, match=f"--k {k} --dev {dev}: .* has {TRAIN} training examples, not {k + dev}"):
            select_rows(source, k, dev, seed, False)
        return
    train, valid = select_rows(source, k, dev, seed, False)
    assert (len(train), len(valid)) == (k, dev)
    assert len({*train.tolist(), *valid.tolist()}) == k + dev
    largest, same_valid = select_rows(source, TRAIN - dev, dev, seed, False)
    assert same_valid.tolist() == valid.tolist()
    assert largest[:k].tolist() == train.tolist()


@settings(max_examples=60)
@given(st.integers(1, TRAIN // CLASSES), st.integers(1, TRAIN - 1), st.integers(0, 1000))
def test_per_class(source, k, dev, seed):
    classes = source.classes("train")
    valid = np.random.RandomState(seed).permutation(TRAIN)[:dev]
    fewest = np.bincount(np.delete(classes, valid), minlength=CLASSES).min()
    if fewest < k:
        with pytest.raises(InputError, match=f"has {fewest} training examples of class .*--k can be {fewest} at most"):
            select_rows(source, k, dev, seed, True)
        return
    train, chosen_valid = select_rows(source, k, dev, seed, True)
    assert chosen_valid.tolist() == valid.tolist()
    assert np.bincount(classes[train]).tolist() == [k] * CLASSES
    assert not set(train.tolist()) & set(valid.tolist())
    assert k == 1 or set(select_rows(source, k - 1, dev, seed, True)[0].tolist()) < set(train.tolist())


def test_rows_are_the_same_on_every_machine(source):
    """Frozen: other rows would silently change every few-shot result."""
    train, valid = select_rows(source, 8, 5, 1, False)
    assert valid.tolist() == FROZEN_VALID
    assert train.tolist() == FROZEN_TRAIN
    assert select_rows(source, 2, 5, 1, True)[0].tolist() == FROZEN_PER_CLASS


FROZEN_VALID = [2, 31, 3, 21, 27]
FROZEN_TRAIN = [29, 22, 39, 19, 26, 32, 17, 30]
FROZEN_PER_CLASS = [29, 22, 39, 19, 26, 30]
