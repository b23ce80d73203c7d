"""The file format of the representation cache: filling, resuming, sharing, refusing."""

from __future__ import annotations

import errno
import json
import multiprocessing
import pickle
import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_idpg.errors import InputError
from fairseq_idpg.representations import cache as cache_module
from fairseq_idpg.representations.cache import RepresentationCache
from fairseq_idpg.representations.fill import exact_products, length_sorted_batches
from fairseq_idpg.representations.key import CacheKey, digest_of_parts

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


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 0), ("float16", 2e-3)])
def test_rows_come_back(tmp_path, dtype, tolerance):
    cache = RepresentationCache(str(tmp_path / "new" / "folder"), key(dtype=dtype))
    assert cache.rows(EVERYTHING) is None and not cache.complete
    cache.fill(encode, batches())
    rows = RepresentationCache(str(tmp_path / "new" / "folder"), key(dtype=dtype)).rows(np.array([7, 0, 7]))
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, TRUE[[7, 0, 7]].numpy(), atol=tolerance)


def test_a_complete_cache_is_not_computed_again(tmp_path):
    RepresentationCache(str(tmp_path), key()).fill(encode, batches())
    calls = []
    RepresentationCache(str(tmp_path), key()).fill(counting(calls), batches())
    assert calls == []


def test_a_kill_loses_one_batch_at_most(tmp_path):
    first, second = [], []
    with pytest.raises(KeyboardInterrupt):
        RepresentationCache(str(tmp_path), key()).fill(counting(first, fail_after=2), batches())
    cache = RepresentationCache(str(tmp_path), key())
    assert not cache.complete and cache.rows(EVERYTHING) is None
    cache.fill(counting(second), batches(4))  # other batches than before
    assert sorted(sum(first + second, [])) == EVERYTHING.tolist()
    np.testing.assert_array_equal(cache.rows(EVERYTHING), TRUE.numpy())


@pytest.mark.parametrize("call", ["remove", "replace"])
def test_a_kill_at_the_end_leaves_no_other_files(tmp_path, monkeypatch, call):
    def killed(*paths):
        raise KeyboardInterrupt

    def last_written(path, text):
        path.write_text(text, encoding="utf-8")
        patched.setattr(cache_module.os, call, killed)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(cache_module, "write_text", last_written)
        RepresentationCache(str(tmp_path / "a"), key()).fill(encode, batches())
    RepresentationCache(str(tmp_path / "a"), key()).fill(encode, batches())
    RepresentationCache(str(tmp_path / "b"), key()).fill(encode, batches())
    left = [{path.name: path.read_bytes() for path in (tmp_path / run).iterdir()} for run in "ab"]
    assert left[0] == left[1]


@pytest.mark.parametrize("ending", ["partial.npy", "done.npy"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_part_is_made_again(tmp_path, ending, damage):
    cache = RepresentationCache(str(tmp_path), key())
    with pytest.raises(KeyboardInterrupt):
        cache.fill(counting([], fail_after=2), batches())
    path = tmp_path / f"{key().name}.{ending}"
    path.write_bytes(path.read_bytes()[:-3]) if damage == "cut" else path.unlink()
    cache.fill(encode, batches())
    np.testing.assert_array_equal(cache.rows(EVERYTHING), TRUE.numpy())


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
    np.testing.assert_array_equal(RepresentationCache(str(tmp_path), key()).rows(EVERYTHING), TRUE.numpy())


@pytest.mark.parametrize(
    "change",
    [
        *({"backbone": "c"}, {"tokens": "u"}, {"kind": "token-mean"}, {"rows": 24}, {"width": 7}, {"dtype": "float16"}),
        {"precision": "bfloat16"},
    ],
)
def test_anything_else_has_another_name(tmp_path, change):
    RepresentationCache(str(tmp_path), key()).fill(encode, batches())
    assert not RepresentationCache(str(tmp_path), key(**change)).complete


def test_rows_follow_the_precision_of_the_moment(tmp_path):
    precision = ["float32"]
    cache = RepresentationCache(str(tmp_path), key(), precision=lambda: precision[0])
    cache.fill(encode, batches())
    np.testing.assert_array_equal(cache.rows(EVERYTHING), TRUE.numpy())
    precision[0] = "float16"
    assert cache.rows(EVERYTHING) is None
    cache.fill(lambda index: TRUE[index].half(), batches())
    carried = pickle.loads(pickle.dumps(cache))
    for found in (cache, carried):
        np.testing.assert_array_equal(found.rows(EVERYTHING), TRUE.half().float().numpy())
    precision[0] = "float32"
    np.testing.assert_array_equal(cache.rows(EVERYTHING), TRUE.numpy())


def test_a_truncated_or_renamed_file_is_refused(tmp_path):
    cache = RepresentationCache(str(tmp_path), key())
    cache.fill(encode, batches())
    path, about = tmp_path / f"{key().name}.npy", tmp_path / f"{key().name}.json"
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with pytest.raises(InputError, match=f"{path.name} is damaged .*: remove it"):
        RepresentationCache(str(tmp_path), key()).rows(EVERYTHING)
    path.write_bytes(whole)
    about.write_text(json.dumps({**json.loads(about.read_text()), "backbone": "another"}))
    with pytest.raises(InputError, match="was made from something else"):
        RepresentationCache(str(tmp_path), key()).rows(EVERYTHING)


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="--representation-cache .*file.* cannot be written"):
        RepresentationCache(str(tmp_path / "file"), key()).fill(encode, batches())

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache_module, "write_zeros", full)
    with pytest.raises(InputError, match="No space left on device"):
        RepresentationCache(str(tmp_path / "full"), key()).fill(encode, batches())


def test_batches_that_leave_an_example_out(tmp_path):
    with pytest.raises(ValueError, match="do not cover"):
        RepresentationCache(str(tmp_path), key()).fill(encode, iter([EVERYTHING[1:]]))


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(1, 200))
def test_batches_hold_every_example_once_and_fit(sizes, max_tokens):
    sizes = np.asarray(sizes)
    found = list(length_sorted_batches(sizes, max_tokens))
    assert sorted(np.concatenate(found).tolist()) == list(range(len(sizes)))
    assert all(len(batch) == 1 or sizes[batch].max() * len(batch) <= max_tokens for batch in found)


def test_products_are_exact_while_rows_are_computed():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with exact_products():
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_digest_tells_parts_apart():
    assert (
        digest_of_parts(iter([b"ab", b"c"])) != digest_of_parts(iter([b"a", b"bc"])) != digest_of_parts(iter([b"abc"]))
    )
