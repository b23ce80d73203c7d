"""Running fairseq-train: what its log says of time and memory, and checkpoints that are complete or too large."""

import sys

import pytest
import torch

from fairseq_idpg.saving.tensors import carry_checksum, checksum
from preprocess.errors import InputError
from run_scripts.run.fairseq_train import drop_optimizer, train, training_facts
from tests.folders import same_tensors, write_backbone, write_folder
from tests.folders import train as fairseq_train
from tests.run_scripts.tiny import commands

START = "=== started 2026-01-01 10:00:00 fairseq-train data\n"
DEVICES = "2026-01-01 10:00:01 | INFO | fairseq_cli.train | training on 1 devices (GPUs/TPUs)\n"
KILLED = f"{DEVICES}2026-01-01 10:00:05 | INFO | train | begin\n2026-01-01 10:00:40 | INFO | train | end of epoch 1\n"
PEAK, GPU_PEAK = "=== peak memory 512 MiB (CPU)\n", "=== peak memory 900 MiB (GPU)\n"
ENDED = "=== ended with status 0 after 12.5 s\n"
GPU = (
    "2026-01-01 10:00:01 | INFO | fairseq.utils | rank   0: capabilities =  9.0  ; "
    f"total memory = 80.000 GB ; name = X Y    \n{DEVICES}"
    '2026-01-01 10:00:03 | INFO | train | {"epoch": 1, "train_loss": "0.7"}\n'
)


@pytest.mark.parametrize(
    ("text", "seconds", "mib", "hardware"),
    [
        (START + KILLED + START + KILLED + PEAK + ENDED, 52.5, 512, "CPU"),
        (START + GPU + PEAK + ENDED, 12.5, None, "X Y"),  # several processes: the one that writes has no GPU
        (START + GPU + GPU_PEAK + START + KILLED + PEAK + ENDED, 15.5, 900, "X Y, CPU"),  # it goes on elsewhere
    ],
    ids=["killed before", "GPUs", "elsewhere"],
)
def test_seconds_memory_and_hardware(tmp_path, text, seconds, mib, hardware):
    (tmp_path / "train.log").write_text(text)
    facts = {"seconds": seconds, "seconds_per_update": None, "peak_mib": mib, "hardware": hardware}
    assert training_facts(tmp_path / "train.log") == facts


def logged(updates, seconds, tag="train_inner"):
    """A line of --log-format json."""
    facts = f'"epoch": 1, "num_updates": "{updates}", "train_wall": "{seconds}", "wall": "99"'
    return f"2026-01-01 10:00:02 | INFO | {tag} | {{{facts}}}\n"


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        (logged(100, 25) + logged(150, 99, "train"), 0.25),  # an epoch's end: its sum, which has been counted
        (logged(100, 25) + logged(200, 99) + START + logged(200, 35), 0.3),  # what a kill undid was done again
        (logged(60, 9, "train"), None),  # fewer updates than the interval
    ],
    ids=["epoch", "resumed", "few"],
)
def test_seconds_of_an_update(tmp_path, lines, seconds):
    (tmp_path / "train.log").write_text(START + lines + PEAK + ENDED)
    assert training_facts(tmp_path / "train.log")["seconds_per_update"] == seconds


def test_output_goes_to_the_log_and_to_us_and_a_failure_is_its_last_line(tmp_path, monkeypatch, capsys):
    body = "echo \"$@\"; echo 'fairseq_idpg: no' >&2; echo '=== peak memory 1 MiB (CPU)'; exit 3"
    monkeypatch.setattr(sys, "executable", str(commands(tmp_path, python=body) / "python"))
    log = tmp_path / "train.log"
    log.write_text("before\n")
    with pytest.raises(InputError, match=r"fairseq-train ended with status 3: fairseq_idpg: no \(log: "):
        train(["fairseq-train", "data", "--lr", "1"], log, echo=True)
    before, started, arguments, problem, _, ended = lines = log.read_text().splitlines()
    assert (before, problem) == ("before", "fairseq_idpg: no") and started.endswith("fairseq-train data --lr 1")
    assert arguments == "-m run_scripts.run.fairseq_train data --lr 1"
    assert ended.startswith("=== ended with status 3 after")
    assert capsys.readouterr().out.splitlines() == lines[1:]


def test_the_optimizers_state_goes_and_all_else_stays(tmp_path):
    """Also the float32 weights that a run with --fp16 keeps."""
    data, backbone = write_folder(tmp_path / "data"), write_backbone(tmp_path / "backbone" / "model.pt")
    fairseq_train(data, tmp_path / "run", "--backbone", backbone, "--max-update", 3, "--method", "head-only")
    copy = tmp_path / "run" / "checkpoint_best.pt"
    before = torch.load(copy, weights_only=True)
    before["model"]["_extra_state"] = {"record": {"names": ["a", "b"]}, "fp16": {"weights": [torch.ones(2)]}}
    carry_checksum(before["model"])
    torch.save(before, copy)
    drop_optimizer(copy)
    after = torch.load(copy, weights_only=True)
    assert after["last_optimizer_state"] is None and before["last_optimizer_state"] is not None
    assert after.keys() == before.keys() and after["cfg"] == before["cfg"]
    assert same_tensors(after["model"], before["model"])
    kept = after["model"]["_extra_state"]
    assert kept.pop("checksum") == checksum(after["model"]) and kept == {"record": {"names": ["a", "b"]}}
