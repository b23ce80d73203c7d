"""The files of cached rows: filling, sharing; damaged or foreign ones are refused."""

import json
import multiprocessing
import os
import pickle
import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_idpg.errors import InputError
from fairseq_idpg.representations.cache import CacheKey, RepresentationCache, length_sorted_batches
from tests.helpers import ends_soon

ROWS, WIDTH = 23, 6
TRUE = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(0))
EVERYTHING = np.arange(ROWS)


def key(**changes):
    usual = dict(
        backbone="b", tokens="t", kind="backbone", rows=ROWS, width=WIDTH, dtype="float32", precision="float32"
    )
    return CacheKey(**{**usual, **changes})


def batches(size=5):
    return iter(np.array_split(EVERYTHING, range(size, ROWS, size)))


def encode(index):
    return TRUE[index]


def counting(calls, fail_after=None):
    def encoded(index):
        if fail_after is not None and len(calls) == fail_after:
            raise KeyboardInterrupt
        calls.append(index.tolist())
        return TRUE[index]

    return encoded


def filled(folder):
    RepresentationCache(str(folder), key()).fill(encode, batches())
    return folder / f"{key().name}.npy", folder / f"{key().name}.json"


def reopened(folder):
    return RepresentationCache(str(folder), key()).rows(EVERYTHING)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 0), ("float16", 2e-3)])
def test_rows_come_back(tmp_path, dtype, tolerance):
    folder = str(tmp_path / "new" / "folder")
    cache = RepresentationCache(folder, key(dtype=dtype))
    assert cache.rows(EVERYTHING) is None and not cache.complete
    cache.fill(encode, batches())
    rows = RepresentationCache(folder, key(dtype=dtype)).rows(np.array([7, 0, 7]))
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, TRUE[[7, 0, 7]].numpy(), atol=tolerance)
    calls = []
    RepresentationCache(folder, key(dtype=dtype)).fill(counting(calls), batches())
    assert calls == []  # a complete cache is not computed again


def test_after_a_kill_all_is_computed_again(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        RepresentationCache(str(tmp_path), key()).fill(counting([], fail_after=2), batches())
    cache, calls = RepresentationCache(str(tmp_path), key()), []
    assert not cache.complete and cache.rows(EVERYTHING) is None
    cache.fill(counting(calls), batches(4))
    assert sorted(sum(calls, [])) == EVERYTHING.tolist()
    np.testing.assert_array_equal(cache.rows(EVERYTHING), TRUE.numpy())


@pytest.mark.parametrize("which", ["npy", "json"])
def test_what_is_no_file_is_refused(tmp_path, which):
    path, about = filled(tmp_path)
    no_file = path if which == "npy" else about
    no_file.unlink()
    os.mkfifo(no_file)
    with ends_soon(), pytest.raises(InputError, match=f"^--representation-cache: {path}"):
        reopened(tmp_path)


def test_a_renamed_file_is_refused(tmp_path):
    path, about = filled(tmp_path)
    about.write_text(json.dumps({**json.loads(about.read_text()), "backbone": "another"}))
    with pytest.raises(InputError, match=f"^--representation-cache: {path}"):
        reopened(tmp_path)


def _fill_slowly(folder, calls):
    def slow(index):
        time.sleep(0.02)
        calls.extend(index.tolist())
        return TRUE[index]

    RepresentationCache(folder, key()).fill(slow, batches())


def test_several_processes_fill_it_once(tmp_path):
    context = multiprocessing.get_context("fork")
    with context.Manager() as manager:
        calls = manager.list()
        processes = [context.Process(target=_fill_slowly, args=(str(tmp_path), calls)) for _ in range(3)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        assert [process.exitcode for process in processes] == [0, 0, 0]
        assert sorted(calls) == EVERYTHING.tolist()
    np.testing.assert_array_equal(reopened(tmp_path), TRUE.numpy())


OTHERS = {"backbone": "c", "tokens": "u", "kind": "token-mean", "rows": 24, "width": 7, "dtype": "float16"}
OTHERS["precision"] = "bfloat16"


@pytest.mark.parametrize("change", [{name: value} for name, value in OTHERS.items()], ids=str)
def test_anything_else_has_another_name(tmp_path, change):
    filled(tmp_path)
    assert not RepresentationCache(str(tmp_path), key(**change)).complete


def test_names_stay():
    """Rows that an earlier version has written are found."""
    earlier = CacheKey("b" * 64, "t" * 64, "backbone", rows=24, width=32, dtype="float32", precision="float32")
    assert earlier.name == "8b016479ba5d803511f4eb93d307d764"


def test_rows_follow_the_precision_of_the_backbone(tmp_path):
    cache = RepresentationCache(str(tmp_path), key())
    cache.fill(encode, batches())
    np.testing.assert_array_equal(cache.rows(EVERYTHING), TRUE.numpy())
    cache.use_precision("float16")
    assert cache.rows(EVERYTHING) is None
    cache.fill(lambda index: TRUE[index].half(), batches())
    for opened in (cache, pickle.loads(pickle.dumps(cache))):
        np.testing.assert_array_equal(opened.rows(EVERYTHING), TRUE.half().float().numpy())
    cache.use_precision("float32")
    np.testing.assert_array_equal(cache.rows(EVERYTHING), TRUE.numpy())


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=f"^--representation-cache {tmp_path / 'file'}"):
        filled(tmp_path / "file")


@pytest.mark.parametrize(
    ("dtype", "value", "remedy"), [("float32", np.nan, False), ("float32", np.inf, False), ("float16", 1e6, True)]
)
def test_rows_that_are_not_finite_are_refused(tmp_path, dtype, value, remedy):
    def encode_badly(index):
        rows = TRUE[index].clone()
        rows[index == 7] = value
        return rows

    cache = RepresentationCache(str(tmp_path), key(dtype=dtype))
    with pytest.raises(InputError, match="^--representation-cache: .* example 8") as error:
        cache.fill(encode_badly, batches())
    assert ("--representation-cache-dtype float32" in str(error.value)) == remedy
    assert not cache.complete


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(1, 200))
def test_batches_hold_every_example_once_and_fit(sizes, max_tokens):
    sizes = np.asarray(sizes)
    found = list(length_sorted_batches(sizes, max_tokens))
    assert sorted(np.concatenate(found).tolist()) == list(range(len(sizes)))
    assert all(len(batch) == 1 or sizes[batch].max() * len(batch) <= max_tokens for batch in found)
