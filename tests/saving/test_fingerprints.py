"""What is known of a file is believed of this very file alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from fairseq_idpg.backbone.weights import LM_HEAD, STACK
from fairseq_idpg.saving import backbone_file, reading, torch_files
from fairseq_idpg.saving.backbone_file import load_note, notes_folder, read_backbone, stat_file
from tests.folders import write_backbone
from tests.helpers import ends_soon, put_no_file

ALL = {"tensors_digest", "is_finite", "testzip"}


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """The folder of notes, in which files are old enough at once."""
    monkeypatch.setenv("FAIRSEQ_IDPG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(backbone_file, "SETTLED", 0)
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
    monkeypatch.setattr(backbone_file, "SETTLED", 3600)
    fingerprint(backbone)
    assert not notes.exists()


def test_a_damaged_note_is_not_used(notes, backbone, work):
    """See tests/test_readers.py for damage of other kinds."""
    first = fingerprint(backbone)
    (note,) = notes.iterdir()
    whole = note.read_bytes()
    for garbage in (b"", whole.replace(first[:4].encode(), b"0000")):
        note.write_bytes(garbage)
        work.clear()
        assert fingerprint(backbone) == first and "tensors_digest" in work
        assert note.read_bytes() == whole
    put_no_file(note, "pipe")
    with ends_soon():
        assert fingerprint(backbone) == first


def test_where_notes_are(monkeypatch, tmp_path, backbone, work):
    monkeypatch.setattr(backbone_file, "SETTLED", 0)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    (tmp_path / "file").write_text("")
    for place in ("off", str(tmp_path / "file")):
        monkeypatch.setenv("FAIRSEQ_IDPG_CACHE", place)
        work.clear()
        fingerprint(backbone)
        assert {*work} == ALL and not (tmp_path / "xdg").exists()
    monkeypatch.delenv("FAIRSEQ_IDPG_CACHE")
    assert notes_folder() == tmp_path / "xdg" / "fairseq_idpg" / "backbones"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert notes_folder() == tmp_path / ".cache" / "fairseq_idpg" / "backbones"


def test_what_is_no_file_has_no_notes(notes, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "nowhere"):
        assert stat_file(str(path)) is load_note(str(path)) is None
