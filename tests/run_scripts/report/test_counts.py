"""Trainable parameters: what runs say, and what is counted where there are none."""

from __future__ import annotations

import logging

import pytest

from preprocess.errors import InputError
from run_scripts.report import counts
from run_scripts.report.counts import count_table, trainable_counts
from run_scripts.report.paper import paper
from run_scripts.report.runs import Results
from run_scripts.report.scope import Choice

from . import made
from .made import cells


def test_table_2_takes_counts_of_runs_and_counts_the_rest(tmp_path):
    """All twelve counts are known, so that a wrong one is seen."""
    runs = [made.run("prompt-tuning", "CR", trainable=5119), made.run("head-only", "CR", trainable=0)]
    level = logging.getLogger().level
    found = count_table(Results(tmp_path, tuple(runs)), Choice())
    assert logging.getLogger().level == level
    assert cells(found, "prompt-tuning")["ours"] == "5,119"
    assert cells(found, "prompt-tuning")["source"] == "runs"
    assert cells(found, "prompt-tuning")["paper"] == "5K"
    assert cells(found, "prompt-tuning")["difference"] == "-0.0%"
    assert list(cells(found, "m-idpg-phm").values()) == ["m-idpg-phm", "137,232", "counted", "134K", "+0.0%"]
    assert list(cells(found, "adapter").values()) == ["adapter", "1,622,784", "counted", "1.55M", "-0.2%"]
    assert list(cells(found, "head-only").values()) == ["head-only", "0", "runs", "-", "-"]
    assert len(found.lines) == len(paper().counts) + 1


def test_table_2_of_another_architecture_is_not_compared(tmp_path):
    run = made.run("m-idpg-phm", "CR", trainable=22_032, command=made.MINILM)
    found = count_table(Results(tmp_path, (run,)), Choice())
    assert cells(found, "m-idpg-phm")["difference"] == "-"
    assert cells(found, "prompt-tuning")["ours"] == "1,920"
    assert "architecture roberta_idpg_minilm" in found.notes[0]
    with pytest.raises(InputError, match="more than one architecture"):
        count_table(Results(tmp_path, (run, made.run("m-idpg-phm", "CR"))), Choice())


def test_rows_whose_runs_train_more_and_less_are_refused(tmp_path):
    runs = [made.run("m-idpg-phm", "CR"), made.run("m-idpg-phm", "MR", trainable=7)]
    with pytest.raises(InputError, match="m-idpg-phm train 7 and 1000 parameters"):
        counts.trainable_counts(Results(tmp_path, tuple(runs)), Choice())
    one = made.run("m-idpg-phm", "CR", prompt_length=10, trainable=7)
    assert counts.trainable_counts(Results(tmp_path, (runs[0], one)), Choice()).of_runs == {"m-idpg-phm": 1000}


def test_rows_of_the_ablations_are_not_in_table_2(tmp_path):
    runs = (made.run("m-idpg-phm", "CR"), made.run("S-16-layer0", "CR", trainable=7))
    assert trainable_counts(Results(tmp_path, runs), Choice()).of_runs == {"m-idpg-phm": 1000}
