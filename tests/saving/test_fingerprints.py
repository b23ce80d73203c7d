"""What is known of a file is believed of this very file alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from fairseq_idpg.backbone.weights import LM_HEAD, STACK
from fairseq_idpg.errors import InputError
from fairseq_idpg.saving import backbone_file, fingerprints, reading, torch_files
from fairseq_idpg.saving.backbone_file import read_backbone
from fairseq_idpg.saving.fingerprints import load_note, notes_folder, stat_file
from tests.folders import write_backbone
from tests.helpers import ends_soon, put_no_file

ALL = {"tensors_digest", "is_finite", "testzip"}


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """The folder of notes, in which files are old enough at once."""
    monkeypatch.setenv("FAIRSEQ_IDPG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fingerprints, "SETTLED", 0)
    return tmp_path / "cache" / "backbones"


@pytest.fixture
def backbone(tmp_path):
    return write_backbone(tmp_path / "model.pt")


@pytest.fixture
def work(monkeypatch):
    """Names of what was looked through, as it happens."""
    done = []

    def counted(name, theirs):
        def count(*args):
            done.append(name)
            return theirs(*args)

        return count

    for module, name in (
        (backbone_file, "tensors_digest"),
        (reading, "is_finite"),
        (torch_files.zipfile.ZipFile, "testzip"),
    ):
        monkeypatch.setattr(module, name, counted(name, getattr(module, name)))
    return done


def fingerprint(path, *parts) -> str:
    return read_backbone(str(path)).fingerprint(*parts)


def change_value(path) -> None:
    state = torch.load(path, weights_only=True)
    state["model"]["encoder.sentence_encoder.layers.0.fc1.bias"][0] += 1
    torch.save(state, path)


def test_a_file_is_looked_through_once(notes, backbone, work, tmp_path):
    first = fingerprint(backbone)
    assert {*work} == ALL
    work.clear()
    assert fingerprint(backbone) == first
    (tmp_path / "link.pt").symlink_to(backbone)
    assert fingerprint(tmp_path / "link.pt") == first
    assert work == []
    both = fingerprint(backbone, (STACK, LM_HEAD))
    assert work == ["tensors_digest"] and both != first
    work.clear()
    assert fingerprint(backbone, (STACK, LM_HEAD)) == both
    assert fingerprint(backbone) == first
    assert work == []


def by_rename(path) -> None:
    change = Path(f"{path}.new")
    change.write_bytes(path.read_bytes())
    change_value(change)
    os.replace(change, path)


def with_its_times(path) -> None:
    before = os.stat(path)
    change_value(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("how", [change_value, by_rename, with_its_times])
def test_a_changed_file_is_looked_through(notes, backbone, how, work):
    first = fingerprint(backbone)
    how(backbone)
    work.clear()
    second = fingerprint(backbone)
    assert second != first and {*work} == ALL
    assert fingerprint(backbone) == second


def test_a_damaged_file_is_refused_although_it_was_known(notes, backbone):
    fingerprint(backbone)
    content = bytearray(backbone.read_bytes())
    content[len(content) // 2] ^= 1
    backbone.write_bytes(content)
    with pytest.raises(InputError, match=str(backbone)):
        read_backbone(str(backbone))


def test_a_file_that_is_replaced_while_it_is_read_is_looked_through(notes, backbone, monkeypatch):
    first = read_backbone(str(backbone)).fingerprint()
    theirs, replaced = backbone_file.read_checkpoint, []

    def read(path, option, **how):
        if not replaced:
            replaced.append(by_rename(backbone))
        return theirs(path, option, **how)

    monkeypatch.setattr(backbone_file, "read_checkpoint", read)
    second = fingerprint(backbone)
    assert second != first
    monkeypatch.undo()
    assert fingerprint(backbone) == second


def test_nothing_is_noted_of_a_file_that_changes(notes, backbone, monkeypatch):
    """Nor of one that was just written: written to once more, it could have the same times."""
    read = read_backbone(str(backbone))
    by_rename(backbone)
    read.fingerprint()
    monkeypatch.setattr(fingerprints, "SETTLED", 3600)
    fingerprint(backbone)
    assert not notes.exists()


@pytest.mark.parametrize("garbage", [b"", b"\xff", b"[" * 10**5, b'{"version": 1, "path": 3}', "pipe", "a digit"])
def test_a_damaged_note_is_not_used(notes, backbone, garbage, work):
    first = fingerprint(backbone)
    (note,) = notes.iterdir()
    whole = note.read_bytes()
    if garbage == "pipe":
        put_no_file(note, "pipe")
    else:
        note.write_bytes(whole.replace(first[:4].encode(), b"0000") if garbage == "a digit" else garbage)
    work.clear()
    with ends_soon():
        assert fingerprint(backbone) == first
    assert "tensors_digest" in work
    assert garbage == "pipe" or note.read_bytes() == whole


@pytest.mark.parametrize("place", ["off", "file"])
def test_without_a_folder_for_notes(monkeypatch, tmp_path, backbone, work, place):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FAIRSEQ_IDPG_CACHE", place if place == "off" else str(tmp_path / "file"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(fingerprints, "SETTLED", 0)
    for _ in range(2):
        work.clear()
        fingerprint(backbone)
        assert {*work} == ALL
    assert not (tmp_path / "cache").exists()


def test_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("FAIRSEQ_IDPG_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert notes_folder() == tmp_path / "xdg" / "fairseq_idpg" / "backbones"
    for not_absolute in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", not_absolute)
        assert notes_folder() == tmp_path / ".cache" / "fairseq_idpg" / "backbones"


def test_what_is_no_file_has_no_notes(notes, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "nowhere"):
        assert stat_file(str(path)) is load_note(str(path)) is None
