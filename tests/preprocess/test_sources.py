"""Where a task's files are looked for."""

import pytest

CR = "1,fine\n0,awful\n"


def test_the_folder_of_another_task(commands):
    """CR's files have the names, columns and labels of MR's."""
    for split in ("train", "test"):
        commands.write(f"original/cr/{split}.csv", CR)
    folder = commands.raw / "original" / "cr"
    said = commands.fails("MR", "--raw", folder)
    assert f"--raw {folder} is the folder of CR, not of MR: name that, or the one above" in said
    assert commands.texts(commands.ok("CR", "--raw", folder), "train") == ["fine", "awful"]


@pytest.mark.parametrize("name", ["mine", "mr"])
def test_files_beside_each_other(commands, name):
    for split in ("train", "test"):
        commands.write(f"{name}/{split}.csv", CR)
    assert commands.texts(commands.ok("MR", "--raw", commands.raw / name), "train") == ["fine", "awful"]
