"""Folders and files that are there completely or not at all, and what killed calls leave behind."""

import errno
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from preprocess import writing
from preprocess.errors import InputError
from preprocess.writing import check_replaces_nothing, new_file, new_folder, scratch_folder

FORK = multiprocessing.get_context("fork")
MAKERS = {"folder": new_folder, "file": new_file, "scratch": scratch_folder}


def hold(kind: str, path: Path, ready) -> None:
    """Fills a folder or file until it is killed."""
    with MAKERS[kind](path) as work:
        (work if kind == "file" else work / "half").write_text("half")
        ready.set()
        time.sleep(60)


def make(kind: str, path: Path) -> None:
    with new_file(path) if kind == "file" else new_folder(path, overwrite=True) as work:
        (work if kind == "file" else work / "new").write_text("new")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("kind", list(MAKERS))
def test_what_a_living_process_fills_stays_and_a_killed_ones_is_swept_up(kind, tmp_path):
    ready = FORK.Event()
    process = FORK.Process(target=hold, args=(kind, tmp_path / "x-bin", ready))
    process.start()
    try:
        assert ready.wait(60)
        (half,) = names(tmp_path)
        assert half.startswith(".x-bin.")
        make(kind, tmp_path / "x-bin")
        assert names(tmp_path) == [half, "x-bin"]
    finally:
        process.kill()
        process.join()
    make(kind, tmp_path / "x-bin")
    assert names(tmp_path) == ["x-bin"]


@pytest.mark.parametrize("fails", [0, 1, 2])
def test_a_folder_stays_until_the_new_one_is_whole(fails, tmp_path, monkeypatch):
    """Ctrl-C while it is filled, and errors at either of the two renames."""
    make("folder", tmp_path / "x-bin")
    calls, rename = [], os.rename

    def failing(*places):
        calls.append(places)
        if len(calls) == fails:
            raise OSError(errno.EIO, "Input/output error")
        rename(*places)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises((KeyboardInterrupt, OSError)), new_folder(tmp_path / "x-bin", overwrite=True) as work:
        (work / "newer").write_text("")
        if not fails:
            raise KeyboardInterrupt
    assert names(tmp_path) == ["x-bin"] and names(tmp_path / "x-bin") == ["new"]


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (link := tmp_path / "link").symlink_to("elsewhere/f")
    for _ in range(2):
        make("folder", link)
        assert link.is_symlink() and names(tmp_path / "elsewhere") == ["f"] and names(link) == ["new"]
    with pytest.raises(InputError, match=f"^{link} "), new_folder(link):
        pass


def test_a_strangers_folder_stays(tmp_path):
    for name in (".x-bin.notes", ".x-bin.0123abcd"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine").write_text("mine")
    before = names(tmp_path)
    make("folder", tmp_path / "x-bin")
    assert names(tmp_path) == [*before, "x-bin"]


def test_a_folder_that_was_being_replaced_comes_back(tmp_path):
    """Killed between the two renames."""
    left = tmp_path / ".x-bin.0123abcd"
    for part in ("old", "new"):
        (left / part).mkdir(parents=True)
        (left / part / part).write_text(part)
    (left / "lock").write_text("")
    with pytest.raises(InputError, match="x-bin"), new_folder(tmp_path / "x-bin"):
        pass
    assert names(tmp_path) == ["x-bin"] and names(tmp_path / "x-bin") == ["old"]


@pytest.mark.parametrize("use", [writing.check_output, lambda path, option: writing.write_output(path, "x", option)])
def test_output_that_cannot_be_written(tmp_path, use):
    (tmp_path / "file").write_text("old")
    with pytest.raises(InputError, match="--out .*below "):
        use(tmp_path / "file" / "below", "--out")
    assert (tmp_path / "file").read_text() == "old" and os.listdir(tmp_path) == ["file"]


def test_output_in_the_place_of_what_is_read(tmp_path):
    """By whatever name; a new file, or one in a folder that is no data, is not in the way."""
    (tmp_path / "data-bin" / "input0").mkdir(parents=True)
    (tmp_path / "model.pt").write_text("x")
    (tmp_path / "linked.pt").symlink_to("model.pt")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "config.json").write_text("{}")
    read = {"DATA": [tmp_path / "data-bin"], "--path": [None, f"{tmp_path}/model.pt", tmp_path / "shared", tmp_path]}
    check_replaces_nothing(tmp_path / "new.tsv", "--out", read)
    for name in ("linked.pt", "data-bin/new.tsv", "shared/new.tsv"):
        with pytest.raises(InputError, match=f"^--out {tmp_path}/{name} "):
            check_replaces_nothing(tmp_path / name, "--out", read)


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    writing.write_output(Path("/dev/null"), "text", "--out")
    (link := tmp_path / "null").symlink_to("/dev/null")
    with pytest.raises(InputError, match=str(link)):
        make("file", link)
    assert link.is_symlink() and Path("/dev/null").is_char_device()
