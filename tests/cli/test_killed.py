"""fairseq-train, killed while it saves, is started again and ends with the same losses and files.

See tests/saving/test_writing.py for copies and a full disk.
"""

import os
import signal
from functools import partial

import pytest
import torch

from tests import folders
from tests.folders import same_tensors, train

START = folders.command_line  # as it is in the process of the tests


def dies_the_second_time(calls: list[int], number: int = signal.SIGKILL) -> None:
    calls.append(1)
    if len(calls) == 2:
        os.kill(os.getpid(), number)


def killed_while_writing(*command) -> None:
    """Runs the command, which kills itself while it saves for the second time, half of the file written."""
    save, calls = torch.save, []

    def half_saved(state, file):
        save(state, file)
        file.truncate(file.tell() // 2)
        file.flush()
        dies_the_second_time(calls)
        file.seek(0)
        save(state, file)

    torch.save = half_saved
    START(*command)


def killed_between(*command, number: int = signal.SIGKILL) -> None:
    """Runs the command, which kills itself between its best and its last checkpoint."""
    replace, calls = os.replace, []

    def before_last(source, target):
        if str(target).endswith("checkpoint_last.pt"):
            dies_the_second_time(calls, number)
        replace(source, target)

    os.replace = before_last
    START(*command)


def test_ctrl_c_says_how_to_go_on(pairs, backbone, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "command_line", partial(killed_between, number=signal.SIGINT))
    ended = train(pairs, tmp_path, "--backbone", backbone, "--max-epoch", 3, succeed=False, forked=True)
    said = f"fairseq_idpg: interrupted; the same command goes on from the last checkpoint in --save-dir {tmp_path}"
    assert ended.last_line == said and "Traceback" not in ended.output


@pytest.mark.parametrize("kill", [killed_while_writing, killed_between])
def test_the_same_run_as_without_the_kill(pairs, backbone, place, tmp_path, monkeypatch, kill):
    options, folder = ["--backbone", backbone, "--max-epoch", 3, "--patience", 5], place / kill.__name__
    finished = train(pairs, folder, *options)
    with monkeypatch.context() as patched:
        patched.setattr(folders, "command_line", kill)
        killed = train(pairs, tmp_path, *options, succeed=False, forked=True)
    assert killed.status == -signal.SIGKILL and list(tmp_path.glob(".checkpoint*"))
    resumed = train(pairs, tmp_path, *options)
    for key in ("train_loss", "valid_loss", "valid_accuracy"):
        assert resumed.log(key) == finished.log(key)[1:]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in folder.iterdir())
    for name in ("checkpoint_best.pt", "checkpoint_last.pt"):
        ours, theirs = (torch.load(place / name, weights_only=True) for place in (tmp_path, folder))
        assert same_tensors(ours["model"], theirs["model"])
        assert all(ours["extra_state"][name] == theirs["extra_state"][name] for name in ("best", "val_loss"))
        assert ours["model"]["_extra_state"]["patience"] == theirs["model"]["_extra_state"]["patience"]
        for number, values in theirs["last_optimizer_state"]["state"].items():
            assert same_tensors(ours["last_optimizer_state"]["state"][number], values)
