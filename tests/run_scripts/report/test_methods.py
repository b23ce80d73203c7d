"""Methods side by side: each score with what its runs cost, in the registry's order."""

from __future__ import annotations

import pytest

from fairseq_idpg.methods.registry import PRESETS
from preprocess.errors import InputError
from run_scripts.report.methods import COST_HEADER, methods_table
from run_scripts.report.render import NOTHING
from run_scripts.report.runs import Results
from run_scripts.report.scope import Choice

from . import made

ANY = Choice()
HEADER = ["method", "test", "lr", *COST_HEADER]

LOG = '2026-01-01 10:00:00 | INFO | train_inner | {"epoch": 1, "num_updates": "100", "train_wall": "25"}\n'


def table(tmp_path, runs, choice=ANY):
    return methods_table(Results(tmp_path, tuple(runs)), choice)


def costing(row, seconds, peak, **more):
    return made.run(row, more.pop("task", "MR"), seconds_per_update=seconds, peak_mib=peak, **more)


def by_row(found):
    assert found.header == HEADER and found.names == 1 and all(len(group) == 1 for group in found.groups)
    return {line[0]: line[1:] for line in found.lines}


def test_costs_are_of_the_runs_whose_score_is_shown(tmp_path):
    """Of the learning rate that dev chose: their largest memory and median seconds, which a busy machine moves less."""
    chosen = {"lr": 5e-3, "dev": 80, "trainable": 22_032}
    runs = [costing("m-idpg-phm", 0.25, 700.4, seed=1, test=70, **chosen)]
    runs += [costing("m-idpg-phm", 0.35, 1712.6, seed=2, test=72, **chosen)]
    runs += [costing("m-idpg-phm", 5.0, 900.0, seed=3, test=71, **chosen)]
    runs += [costing("m-idpg-phm", 9, 9000, seed=seed, dev=79, test=90) for seed in (1, 2, 3)]
    found = table(tmp_path, runs)
    assert found.title == "Methods on MR"
    assert by_row(found) == {"m-idpg-phm": ["71.0±1.0", "0.005", "22,032", "0.350", "1,713"]}
    notes = "\n".join(found.notes)
    assert notes.startswith("test: mean (±sample standard deviation) of test scores, x100, over seeds 1, 2, 3")
    for said in (
        "trainable: ",
        "s/update: ",
        "of the machine as it was",
        "peak MiB: ",
        "selection clean",
        "roberta.large",
    ):
        assert said in notes


def test_costs_are_of_runs_on_one_kind_of_hardware(tmp_path):
    """A row of which all are on the GPU has none beside rows of the CPU; scores are of all runs."""
    cpu = {"hardware": "CPU", "test": 70}
    runs = [costing("prompt-tuning", 0.5, 700, seed=seed, **cpu) for seed in (1, 2, 3)]
    runs += [costing("lora", 0.6, 800, seed=seed, **cpu) for seed in (1, 3)]
    runs += [costing("lora", 0.06, 300, seed=2, hardware="X", test=73)]
    runs += [costing("bitfit", 0.05, 200, seed=seed, hardware="X", test=60) for seed in (1, 2, 3)]
    found = table(tmp_path, runs)
    assert [cells[0] for cells in by_row(found).values()] == ["60.0±0.0", "71.0±1.7", "70.0±0.0"]
    assert {name: cells[-2:] for name, cells in by_row(found).items()} == {
        "prompt-tuning": ["0.500", "700"],
        "lora": ["0.600", "800"],
        "bitfit": [NOTHING, NOTHING],
    }
    assert "seconds and memory: of the 5 runs on CPU alone, those on X left out of them" in found.notes
    alone = table(tmp_path, [run for run in runs if run["hardware"] == "X"])
    assert by_row(alone)["bitfit"][-2:] == ["0.050", "200"] and not any("left out of" in note for note in alone.notes)


def test_rows_are_sorted_as_the_registry(tmp_path):
    """By their method where they have another name; methods that are joined come last."""
    runs = [made.run(name, "MR", method=name) for name in reversed(PRESETS)]
    runs[3:3] = [made.run("mine", "MR", method="lora"), made.run("both", "MR", method="lora+prompt-tuning")]
    presets = list(PRESETS)
    place = presets.index("lora")  # of "mine" too, which was run before it
    assert list(by_row(table(tmp_path, runs))) == [*presets[:place], "mine", *presets[place:], "both"]


def test_what_a_record_does_not_say(tmp_path):
    """Seconds stand in the log of the run, where that is still there; nowhere else."""
    logged, unknown, outside = (made.run(row, "MR") for row in ("lora", "bitfit", "dept"))
    (tmp_path / "results" / "runs" / logged["run"]).mkdir(parents=True)
    (tmp_path / "results" / "runs" / logged["run"] / "train.log").write_text(LOG)
    (tmp_path / "train.log").write_text(LOG)
    outside["run"] = "../.."
    found = by_row(table(tmp_path / "results", [logged, unknown, outside]))
    assert {row: cells[3:] for row, cells in found.items()} == {
        "lora": ["0.250", "-"],
        "bitfit": ["-", "-"],
        "dept": ["-", "-"],
    }


def test_seeds_that_are_missing_and_rates_that_are_out(tmp_path):
    runs = [
        made.run("lora", "MR", 1),
        made.run("lora", "MR", 2),
        made.run("bitfit", "MR", 1),
        made.run("dept", "MR", 1),
    ]
    runs += [made.failed("dept", "MR", 2, reason="diverged"), made.failed("bitfit", "MR", 2)]
    found = table(tmp_path, runs)
    assert by_row(found)["dept"] == ["missing"] * (len(HEADER) - 1)
    assert by_row(found)["bitfit"][0] == "80.0 (n=1)"
    assert "(n=...): fewer seeds; bitfit on MR without 2" in found.notes
    assert "failed runs, left out: 1 (bitfit on MR 1)" in found.notes
    assert any("dept on MR, lr 0.001, seed 2: diverged" in note for note in found.notes)


def test_a_column_for_each_of_several_tasks(tmp_path):
    """Costs are of all of them; a row may lack one."""
    runs = [costing("lora", 0.2, 700, test=60), costing("lora", 0.4, 900, task="CR", lr=5e-3, test=70)]
    runs += [costing("bitfit", 0.1, 600, test=65)]
    found = table(tmp_path, runs, Choice(tasks=("MR", "CR")))
    assert found.title == "Methods on MR, CR" and found.header == ["method", "MR", "CR", *COST_HEADER]
    bitfit, lora = sorted(found.lines)
    assert lora[:3] == ["lora", "60.0", "70.0"] and lora[4:] == ["0.300", "900"]
    assert bitfit[:3] == ["bitfit", "65.0", "missing"] and bitfit[4:] == ["0.100", "600"]
    assert table(tmp_path, runs).header[1:3] == ["CR", "MR"]  # all that have runs, as tasks are listed
    assert by_row(table(tmp_path, runs, Choice(tasks=("CR",))))["lora"][0] == "70.0"
    with pytest.raises(InputError, match="holds no finished full run for this"):
        table(tmp_path, [made.failed("lora", "MR")])


def test_few_shot_runs_have_a_table_of_their_own(tmp_path):
    runs = [made.run("lora", "MR", test=60), made.run("lora", "CR", test=70, setting="few-shot", k=100)]
    found = table(tmp_path, runs, Choice(k=100))
    assert found.title == "Methods on CR with K = 100" and by_row(found)["lora"][0] == "70.0"
    assert by_row(table(tmp_path, runs))["lora"][0] == "60.0"


def test_runs_of_several_kinds_are_not_mixed(tmp_path):
    other = {"backbone": {"path": "/models/other/model.pt", "sha256": "cd34" * 16}}
    with pytest.raises(InputError, match="more than one backbone"):
        table(tmp_path, [made.run("lora", "MR"), made.run("bitfit", "MR", **other)])
    with pytest.raises(InputError, match="more than one selection"):
        table(tmp_path, [made.run("lora", "MR"), made.run("bitfit", "MR", selection="paper")])
    with pytest.raises(InputError, match="more than one prompt length: .*give --prompt-length"):
        table(tmp_path, [made.run("smop", "MR", lr=lr, prompt_length=t) for lr, t in ((1e-3, 5), (5e-3, 10))])
    runs = [made.run("lora", "MR", 1, trainable=10), made.run("lora", "MR", 2, trainable=20)]
    with pytest.raises(InputError, match="runs of lora train 10 and 20 parameters"):
        table(tmp_path, runs)


def test_rows_that_are_asked_for(tmp_path):
    runs = [made.run(row, "MR") for row in ("lora", "bitfit")]
    assert list(by_row(table(tmp_path, runs, Choice(rows=("lora",))))) == ["lora"]
    with pytest.raises(InputError, match="--rows prompt: choose from the rows lora"):
        table(tmp_path, runs, Choice(rows=("prompt", "lora")))
