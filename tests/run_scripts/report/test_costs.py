"""What methods cost: trainable parameters, seconds and memory, of runs or counted."""

import pytest

from preprocess.errors import InputError
from run_scripts.report.paper import paper

from . import made
from .made import cells, report

LOG = '2026-01-01 10:00:00 | INFO | train_inner | {"epoch": 1, "num_updates": "100", "train_wall": "25"}\n'


def test_table_2_takes_counts_of_runs_and_counts_the_rest(tmp_path):
    """Rows of the ablations are not in it."""
    runs = [made.run("prompt-tuning", "CR", trainable=5119), made.run("head-only", "CR", trainable=0)]
    runs += [made.run("S-16-layer0", "CR")]
    found = report(tmp_path, runs, "--table 2")
    assert ["prompt-tuning", "5,119", "runs", "5K", "-0.0%"] in found.lines
    assert ["adapter", "1,622,784", "counted", "1.55M", "-0.2%"] in found.lines
    assert [line[0] for line in found.lines] == [*paper().counts, "head-only"]


def test_table_2_of_another_architecture_is_not_compared(tmp_path):
    run = made.run("m-idpg-phm", "CR", trainable=22_032, arch=made.MINILM)
    found = report(tmp_path, [run], "--table 2 --rows m-idpg-phm prompt-tuning")
    assert found.lines == [
        ["prompt-tuning", "1,920", "counted", "5K", "-"],
        ["m-idpg-phm", "22,032", "runs", "134K", "-"],
    ]
    with pytest.raises(InputError, match="more than one architecture"):
        report(tmp_path, [run, made.run("m-idpg-phm", "CR")], "--table 2")


def costing(row, seconds, peak, **more):
    return made.run(row, more.pop("task", "MR"), seconds_per_update=seconds, peak_mib=peak, **more)


def test_costs_are_of_runs_on_one_kind_of_hardware(tmp_path):
    """A row of which all are on the GPU has none beside rows of the CPU; scores are of all runs."""
    runs = [costing("prompt-tuning", 0.5, 700, seed=seed, hardware="CPU") for seed in (1, 2, 3)]
    runs += [costing("lora", 0.6, 800, seed=seed, hardware="CPU", test=70) for seed in (1, 3)]
    runs += [costing("lora", 0.06, 300, seed=2, hardware="X", test=73)]
    runs += [costing("bitfit", 0.05, 200, seed=seed, hardware="X") for seed in range(1, 7)]
    runs += [costing("dept", 0.7, 900, hardware="CPU")]
    found = report(tmp_path, runs, "--table methods")
    assert cells(found, "lora")["test"] == "71.0±1.7 (n=3)"
    costs = {line[0]: line[-2:] for line in found.lines}
    cpu = {"prompt-tuning": ["0.500", "700"], "lora": ["0.600", "800"], "dept": ["0.700", "900"]}
    assert costs == {**cpu, "bitfit": ["-", "-"]}  # more runs, of fewer rows
    assert "seconds and memory: of the 6 runs on CPU alone, those on X left out of them" in found.notes[-1]


def test_seconds_beside_a_papers(tmp_path):
    cost = {"best_update": 40, "batch_size": 10, "seconds_per_prediction": 0.002}
    runs = [made.run("lpt", task, seconds_per_update=0.5, **cost) for task in ("WiC", "RTE")]
    each = report(tmp_path, runs, "--table idspam-14")
    assert cells(each, "lpt", "training", "ours")["WiC"] == "0.050"
    assert [cells(each, "lpt", "prediction", kind)["WiC"] for kind in ("ours", "paper")] == ["0.002", "0.041"]
    whole = report(tmp_path, runs, "--table idspam-15 --tasks RTE")
    assert [cells(whole, "lpt", "convergence", kind)["RTE"] for kind in ("ours", "paper")] == ["20", "168"]
