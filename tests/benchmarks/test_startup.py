"""benchmarks/startup.py: both ways give the same checkpoint, and the old way is the old one."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from startup import ROOT, WAYS, World, table
from step_settings import SIZES

from preprocess.errors import InputError
from run_scripts.sweep import __main__ as sweep

WHICH = """
import gc
from fairseq_idpg.models import roberta_idpg
gc.freeze()
print(roberta_idpg.SkippedDraws.__name__, gc.get_freeze_count() > 0)
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("startup"), SIZES["tiny"], "m-idpg-phm")


@pytest.mark.parametrize(("way", "found"), [("before", "nullcontext False"), ("now", "SkippedDraws True")])
def test_ways(world, way, found):
    command, environment = [sys.executable, "-c", WHICH], world.environment(way)
    assert subprocess.check_output(command, cwd=ROOT, env=environment, text=True).splitlines()[-1] == found


def test_both_train_the_same(world):
    trained = {}
    for way in ("before", "first"):
        found = world.measure("train", way)
        assert all(value > 0 for value in found.values())
        trained[way] = torch.load(world.run / "checkpoint_last.pt", weights_only=True)["model"]
    assert trained["before"].keys() == trained["first"].keys()
    for name, value in trained["before"].items():
        same = torch.equal(value, trained["first"][name]) if torch.is_tensor(value) else True
        assert same, name
    assert len(list((world.folder / "cache" / "backbones").iterdir())) == 1
    assert world.measure("load", "now")["cpu"] > 0


def test_the_sweep_is_taken(world):
    sweep.main([*world.sweep()[3:], "--dry-run"])


def test_a_failure_is_named(world, monkeypatch):
    monkeypatch.setattr(world, "train", lambda: [sys.executable, "-c", "raise SystemExit('no')"])
    with pytest.raises(InputError, match="train, now, ended with status 1: no"):
        world.measure("train", "now")


def test_ratios_are_of_the_rounds():
    seconds = {"before": (10.0, 40.0), "first": (5.0, 10.0), "now": (2.0, 8.0)}
    rounds = {way: [{"cpu": s, "wall": 1.0, "peak_mib": 100.0 * s} for s in seconds[way]] for way in WAYS}
    lines = table({"train": rounds}, "cpu")
    assert [line.split() for line in lines[1:]] == [
        ["train", "before", "25.00", "1.00", "2,500", "1.00"],
        ["first", "7.50", "0.38", "750", "0.38"],
        ["now", "5.00", "0.20", "500", "0.20"],
    ]
