"""Checkpoints are written whole or not at all."""

import contextlib
import os
import resource
import shutil
import signal

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from fairseq_idpg.errors import InputError


@contextlib.contextmanager
def full_disk(limit):
    """Files may not grow beyond ``limit`` bytes, which ends as a full disk does: with an OSError in the middle of a
    write. Only within the block: pytest's own output may be a file, too."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def checkpoint(path, numbers):
    torch.save({"model": torch.zeros(numbers)}, path)
    return path.read_bytes()


def test_a_copy_that_dies_midway_leaves_the_old_file(tmp_path, monkeypatch):
    old = checkpoint(tmp_path / "last.pt", 10)
    checkpoint(tmp_path / "best.pt", 5000)

    def dies(original, file, *_):
        file.write(original.read(1000))
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "copyfileobj", dies)
    with pytest.raises(KeyboardInterrupt):
        PathManager.copy(str(tmp_path / "best.pt"), str(tmp_path / "last.pt"), overwrite=True)
    assert (tmp_path / "last.pt").read_bytes() == old
    assert sorted(os.listdir(tmp_path)) == ["best.pt", "last.pt"]


@pytest.mark.parametrize("through", ["save", "copy"])
def test_a_full_disk_leaves_the_old_file_and_ends_in_one_line(tmp_path, caplog, through):
    path, source = tmp_path / "checkpoint_last.pt", tmp_path / "source"
    old = checkpoint(path, 10)
    source.write_bytes(bytes(49_000))
    message = "checkpoint_last.pt could not be written .File too large., and the earlier file is intact"
    with full_disk(20_000), pytest.raises(InputError, match=message):
        if through == "save":
            checkpoint_utils.torch_persistent_save({"model": torch.zeros(50_000)}, str(path))
        else:
            PathManager.copy(str(source), str(path), overwrite=True)
    assert path.read_bytes() == old and not list(tmp_path.glob(".checkpoint*")) and not caplog.records


def test_bytes_are_on_the_disk_before_the_name(tmp_path, monkeypatch):
    done = []
    sync, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (done.append("fsync"), sync(file)))
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("rename"), rename(*names)))
    checkpoint_utils.torch_persistent_save({"model": torch.zeros(3)}, str(tmp_path / "a.pt"))
    assert done == ["fsync", "rename", "fsync"]
    assert torch.load(tmp_path / "a.pt", weights_only=True)["model"].tolist() == [0, 0, 0]
