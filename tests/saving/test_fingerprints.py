"""What is known of a file is believed of this very file alone."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import torch

from fairseq_idpg.backbone.weights import LM_HEAD, STACK
from fairseq_idpg.errors import InputError
from fairseq_idpg.saving import backbone_file, fingerprints, reading, torch_files
from fairseq_idpg.saving.backbone_file import read_backbone
from fairseq_idpg.saving.fingerprints import look, note_of, notes_folder, read_note, recall
from tests.folders import write_backbone
from tests.helpers import ends_soon, put_no_file


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


def change_value(path) -> None:
    state = torch.load(path, weights_only=True)
    state["model"]["encoder.sentence_encoder.layers.0.fc1.bias"][0] += 1
    torch.save(state, path)


def test_a_file_is_looked_through_once(notes, backbone, work):
    first = read_backbone(str(backbone)).fingerprint()
    assert {"tensors_digest", "is_finite", "testzip"} == set(work)
    work.clear()
    again = read_backbone(str(backbone))
    assert again.fingerprint() == first
    assert work == []
    both = again.fingerprint((STACK, LM_HEAD))
    assert work == ["tensors_digest"]
    assert both != first
    work.clear()
    assert read_backbone(str(backbone)).fingerprint((STACK, LM_HEAD)) == both
    assert read_backbone(str(backbone)).fingerprint() == first
    assert work == []


def test_a_link_to_it_is_known_too(notes, backbone, work, tmp_path):
    first = read_backbone(str(backbone)).fingerprint()
    (tmp_path / "link.pt").symlink_to(backbone)
    work.clear()
    assert read_backbone(str(tmp_path / "link.pt")).fingerprint() == first
    assert work == []


def in_place(path) -> None:
    whole = Path(path)
    old = whole.read_bytes()
    change_value(path)
    new = whole.read_bytes()
    assert len(old) == len(new)


def by_rename(path) -> None:
    change = Path(f"{path}.new")
    change.write_bytes(path.read_bytes())
    change_value(change)
    os.replace(change, path)


def with_its_times(path) -> None:
    before = os.stat(path)
    in_place(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("how", [in_place, by_rename, with_its_times])
def test_a_changed_file_is_looked_through(notes, backbone, how, work):
    first = read_backbone(str(backbone)).fingerprint()
    how(backbone)
    work.clear()
    second = read_backbone(str(backbone)).fingerprint()
    assert second != first
    assert {"tensors_digest", "is_finite", "testzip"} == set(work)
    assert read_backbone(str(backbone)).fingerprint() == second


def test_the_checksums_of_records_are_the_second_look(notes, backbone, monkeypatch):
    """Also where a file system tells nothing of a change."""
    first = read_backbone(str(backbone)).fingerprint()
    told = os.stat(backbone)
    in_place(backbone)
    theirs = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **more: told if str(path) == str(backbone) else theirs(path, **more))
    assert read_backbone(str(backbone)).fingerprint() != first


def test_a_damaged_file_is_refused_although_it_was_known(notes, backbone):
    read_backbone(str(backbone)).fingerprint()
    content = bytearray(backbone.read_bytes())
    content[len(content) // 2] ^= 1
    backbone.write_bytes(content)
    with pytest.raises(InputError, match="is damaged"):
        read_backbone(str(backbone))


def test_a_file_that_is_replaced_while_it_is_read_is_looked_through(notes, backbone, monkeypatch):
    first = read_backbone(str(backbone)).fingerprint()
    theirs, replaced = backbone_file.read_checkpoint, []

    def read(path, option, **how):
        if not replaced:
            replaced.append(by_rename(backbone))
        return theirs(path, option, **how)

    monkeypatch.setattr(backbone_file, "read_checkpoint", read)
    second = read_backbone(str(backbone)).fingerprint()
    assert second != first
    monkeypatch.undo()
    assert read_backbone(str(backbone)).fingerprint() == second


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_note_that_is_no_file_is_none(notes, backbone, kind):
    first = read_backbone(str(backbone)).fingerprint()
    (note,) = notes.iterdir()
    put_no_file(note, kind)
    with ends_soon():
        assert read_backbone(str(backbone)).fingerprint() == first


def test_nothing_is_noted_of_a_file_that_was_just_written(notes, backbone, monkeypatch):
    """Written to once more, it could have the same times."""
    monkeypatch.setattr(fingerprints, "SETTLED", 3600)
    read_backbone(str(backbone)).fingerprint()
    assert not notes.exists()


def test_nothing_is_noted_of_a_file_that_changed_meanwhile(notes, backbone):
    read = read_backbone(str(backbone))
    by_rename(backbone)
    read.fingerprint()
    assert not notes.exists()


GARBAGE = [b"", b"{", b"null", b"\xff", b"[" * 10**5, b'{"version": 1, "path": 3}']


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_damaged_note_is_none(notes, backbone, garbage, work):
    first = read_backbone(str(backbone)).fingerprint()
    (note,) = notes.iterdir()
    whole = note.read_bytes()
    note.write_bytes(garbage)
    work.clear()
    assert read_backbone(str(backbone)).fingerprint() == first
    assert "tensors_digest" in work
    assert note.read_bytes() == whole


def test_a_folder_that_cannot_be_written_to_is_done_without(monkeypatch, tmp_path, backbone):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FAIRSEQ_IDPG_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(fingerprints, "SETTLED", 0)
    first = read_backbone(str(backbone)).fingerprint()
    assert read_backbone(str(backbone)).fingerprint() == first


def test_the_switch(monkeypatch, tmp_path, backbone, work):
    monkeypatch.setenv("FAIRSEQ_IDPG_CACHE", "off")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(fingerprints, "SETTLED", 0)
    for _ in range(2):
        work.clear()
        read_backbone(str(backbone)).fingerprint()
        assert {"tensors_digest", "is_finite", "testzip"} == set(work)
    assert not (tmp_path / "cache").exists()


def test_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("FAIRSEQ_IDPG_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert notes_folder() == tmp_path / "xdg" / "fairseq_idpg" / "backbones"
    for not_absolute in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", not_absolute)
        assert notes_folder() == tmp_path / ".cache" / "fairseq_idpg" / "backbones"


def test_files_that_are_no_archives_have_no_notes(notes, backbone, tmp_path):
    torch.save(torch.load(backbone, weights_only=True), backbone, _use_new_zipfile_serialization=False)
    assert recall(str(backbone)) is None
    os.mkfifo(tmp_path / "pipe")
    assert look(str(tmp_path / "pipe")) is None
    assert look(str(tmp_path)) is None
    assert look(str(tmp_path / "none")) is None


def test_processes_at_once(notes, backbone):
    """Each writes the note whole, so that whoever reads it finds one or none."""
    pids = []
    for _ in range(4):
        pid = os.fork()
        if not pid:
            deadline = time.monotonic() + 1
            while time.monotonic() < deadline:
                known = look(str(backbone))
                known.keep("all", "ab" * 32)
            os._exit(0)
        pids.append(pid)
    found = []
    while any(pids):
        pids = [pid for pid in pids if os.waitpid(pid, os.WNOHANG) == (0, 0)]
        path = note_of(notes, str(backbone))
        if path.exists():
            found.append(read_note(path))
    assert found
    assert all(note is not None and note.digests == {"all": "ab" * 32} for note in found)
    assert [path.name for path in notes.iterdir()] == [note_of(notes, str(backbone)).name]
