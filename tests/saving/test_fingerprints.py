"""What is known of a file is believed of this very file alone."""

import os
import shutil

import pytest

from fairseq_idpg.backbone.weights import LM_HEAD, STACK
from fairseq_idpg.saving import backbone_file, reading, torch_files
from fairseq_idpg.saving.backbone_file import notes_folder, read_backbone
from tests.folders import changed
from tests.helpers import ends_soon

PLACES = ((backbone_file, "tensors_digest"), (reading, "is_finite"), (torch_files.zipfile.ZipFile, "testzip"))
ALL = {name for _, name in PLACES}


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """The folder of notes, in which files are old enough at once."""
    monkeypatch.setenv("FAIRSEQ_IDPG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(backbone_file, "SETTLED", 0)
    return tmp_path / "cache" / "backbones"


@pytest.fixture
def looked(monkeypatch):
    """(path, parts) -> the fingerprint, and the names of what was looked through to make it."""
    done = []

    def counted(name, theirs):
        return lambda *args: (done.append(name), theirs(*args))[1]

    for module, name in PLACES:
        monkeypatch.setattr(module, name, counted(name, getattr(module, name)))

    def look(path, *parts):
        done.clear()
        return read_backbone(str(path)).fingerprint(*parts), {*done}

    return look


def change_value(path) -> None:
    changed(path, lambda state: state["model"]["encoder.sentence_encoder.layers.0.fc1.bias"].add_(1))


def test_a_file_is_looked_through_once(notes, own_backbone, looked, tmp_path):
    first, work = looked(own_backbone)
    assert work == ALL
    (tmp_path / "link.pt").symlink_to(own_backbone)
    assert looked(own_backbone) == looked(tmp_path / "link.pt") == (first, set())
    both, work = looked(own_backbone, (STACK, LM_HEAD))
    assert work == {"tensors_digest"} and both != first
    assert looked(own_backbone, (STACK, LM_HEAD)) == (both, set()) and looked(own_backbone) == (first, set())


def by_rename(path) -> None:
    new = shutil.copyfile(path, f"{path}.new")
    change_value(new)
    os.replace(new, path)


def with_its_times(path) -> None:
    before = os.stat(path)
    change_value(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("how", [by_rename, with_its_times])
def test_a_changed_file_is_looked_through(notes, own_backbone, how, looked):
    first, _ = looked(own_backbone)
    how(own_backbone)
    second, work = looked(own_backbone)
    assert second != first and work == ALL
    assert looked(own_backbone) == (second, set())


def test_a_file_that_is_replaced_while_it_is_read_is_looked_through(notes, own_backbone, looked, monkeypatch):
    first, _ = looked(own_backbone)
    theirs, replaced = backbone_file.read_checkpoint, []

    def read(path, option, **how):
        if not replaced:
            replaced.append(by_rename(own_backbone))
        return theirs(path, option, **how)

    monkeypatch.setattr(backbone_file, "read_checkpoint", read)
    second, _ = looked(own_backbone)
    assert second != first
    monkeypatch.setattr(backbone_file, "read_checkpoint", theirs)
    assert looked(own_backbone)[0] == second


def test_nothing_is_noted_of_a_file_that_changes(notes, own_backbone, monkeypatch):
    """Nor of one that was just written: written to once more, it could have the same times."""
    read = read_backbone(str(own_backbone))
    by_rename(own_backbone)
    read.fingerprint()
    monkeypatch.setattr(backbone_file, "SETTLED", 3600)
    read_backbone(str(own_backbone)).fingerprint()
    assert not notes.exists()


def test_a_note_that_is_no_file_is_not_used(notes, own_backbone, looked):
    first, _ = looked(own_backbone)
    (note,) = notes.iterdir()
    note.unlink()
    os.mkfifo(note)
    with ends_soon():
        assert looked(own_backbone)[0] == first


def test_where_notes_are(monkeypatch, tmp_path, own_backbone, looked):
    monkeypatch.setattr(backbone_file, "SETTLED", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    (tmp_path / "file").write_text("")
    for place in ("off", str(tmp_path / "file")):
        monkeypatch.setenv("FAIRSEQ_IDPG_CACHE", place)
        assert looked(own_backbone)[1] == ALL and not (tmp_path / "xdg").exists()
    monkeypatch.delenv("FAIRSEQ_IDPG_CACHE")
    assert notes_folder() == tmp_path / "xdg" / "fairseq_idpg" / "backbones"
