"""Representation caches whose files are damaged or foreign, or whose rows are no numbers: refused or made again."""

from __future__ import annotations

import errno
import itertools
import pickle

import numpy as np
import pytest

from fairseq_idpg.errors import InputError
from fairseq_idpg.representations import cache as cache_module
from fairseq_idpg.representations.cache import RepresentationCache
from preprocess.checksums import sha256
from tests.helpers import NO_FILES, ends_soon, put_no_file

from .test_cache import EVERYTHING, TRUE, batches, counting, encode, key


def filled(folder):
    RepresentationCache(str(folder), key()).fill(encode, batches())
    return folder / f"{key().name}.npy", folder / f"{key().name}.json"


def reopened(folder):
    return RepresentationCache(str(folder), key()).rows(EVERYTHING)


@pytest.mark.parametrize(
    ("ending", "kind"), [*itertools.product(("npy", "json"), NO_FILES), ("lock", "pipe"), ("lock", "folder")]
)
def test_what_is_no_file_is_refused(tmp_path, ending, kind):
    if ending != "lock":
        filled(tmp_path)
    put_no_file(tmp_path / f"{key().name}.{ending}", kind)
    with ends_soon(), pytest.raises(InputError, match=f"^--representation-cache.* {tmp_path}"):
        filled(tmp_path)
        reopened(tmp_path)


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("ending", ["partial.npy", "done.npy"])
def test_rows_in_what_is_no_file_are_made_again(tmp_path, ending, kind):
    with pytest.raises(KeyboardInterrupt):
        RepresentationCache(str(tmp_path), key()).fill(counting([], fail_after=3), batches())
    put_no_file(tmp_path / f"{key().name}.{ending}", kind)
    with ends_soon():
        filled(tmp_path)
    np.testing.assert_array_equal(reopened(tmp_path), TRUE.numpy())


def replace_by_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "damage",
    [
        replace_by_folder,
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
        lambda path: path.write_text("[1, 2]"),
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.write_bytes(b"PK\x03\x04"),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_files_that_are_no_cache(tmp_path, damage, which):
    files = filled(tmp_path)
    damage(files[which])
    if not files[0].exists():
        return  # not complete: made again
    with pytest.raises(InputError, match="remove it, it is made again") as error:
        reopened(tmp_path)
    assert "\n" not in str(error.value)


def test_files_that_may_not_be_read(tmp_path, monkeypatch):
    path, _ = filled(tmp_path)

    def denied(*_):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(cache_module, "sha256", denied)
    with pytest.raises(InputError, match=f"Permission denied.*{path.name}"):
        reopened(tmp_path)


@pytest.mark.parametrize(
    ("dtype", "precision", "value"),
    [
        ("float32", "float32", np.nan),
        ("float32", "float32", np.inf),
        ("float16", "float32", 1e6),
        ("float16", "float16", 1e6),
    ],
)
def test_rows_that_are_not_finite_are_refused(tmp_path, dtype, precision, value):
    """A wider file is no remedy where the backbone's own numbers are as narrow."""

    def encode_badly(index):
        rows = TRUE[index].clone()
        rows[index == 7] = value
        return rows

    cache = RepresentationCache(str(tmp_path), key(dtype=dtype, precision=precision))
    with pytest.raises(InputError, match="M.x. of example 8 is not finite") as error:
        cache.fill(encode_badly, batches())
    assert ("dtype float32" in str(error.value)) == (dtype != precision)
    assert not cache.complete


def test_the_checksum_is_compared_once(tmp_path, monkeypatch):
    filled(tmp_path)
    calls = []
    monkeypatch.setattr(cache_module, "sha256", lambda path: calls.append(path) or sha256(path))
    cache = RepresentationCache(str(tmp_path), key())
    cache.open()
    cache.rows(EVERYTHING)
    pickle.loads(pickle.dumps(cache)).rows(EVERYTHING)
    assert len(calls) == 1
