"""Tables and figures of other papers: ours by their metric, beside their values; parameters and seconds."""

from __future__ import annotations

import pytest

from preprocess.errors import InputError
from run_scripts.report.__main__ import main
from run_scripts.report.compared import compared_table, series_chart
from run_scripts.report.costs import costs_table, seconds_text
from run_scripts.report.papers import papers
from run_scripts.report.runs import read_results
from run_scripts.report.scope import Choice

from . import made
from .made import cells

BASE = ["fairseq-train", "--arch", "roberta_idpg_base"]


def scores(accuracy, both):
    return {"accuracy": accuracy, "acc_and_macro_f1": both}


def run(row, task, seed=1, lr=1e-3, dev=80.0, test=70.0, both=60.0, **more):
    """Scores by the task's own metric, and by ID-SPAM's."""
    found = {"dev": scores(dev, dev - 1), "test": scores(test, both)}
    return made.run(row, task, seed, lr, dev, test, **{"scores": found, **more})


def table(tmp_path, name, runs, **choice):
    return compared_table(papers().tables[name], read_results(made.write(tmp_path, runs)), Choice(**choice))


def test_ours_are_by_the_papers_metric(tmp_path):
    runs = [run("id-spam", task, seed, both=60.0 + seed) for task in ("MRPC", "RTE", "QQP") for seed in (1, 2)]
    found = table(tmp_path, "idspam-3", runs)
    assert found.title.startswith("ID-SPAM, Table 3") and found.header == [
        "method",
        "values",
        "MRPC",
        "RTE",
        "QQP",
        "Avg",
    ]
    ours, theirs, gap = (cells(found, "id-spam", name) for name in ("ours", "paper", "difference"))
    assert (ours["MRPC"], ours["RTE"], ours["QQP"]) == ("61.5±0.7", "70.0±0.0", "61.5±0.7")
    assert (ours["Avg"], theirs["MRPC"], gap["MRPC"]) == (f"{(61.5 + 70 + 61.5) / 3:.1f}", "86.1", "-24.6")
    assert theirs["Avg"] == f"{(86.1 + 81.1 + 88.4) / 3:.1f}"
    assert set(cells(found, "mean-pooling", "ours").values()) == {"mean-pooling", "ours", "missing"}
    assert "metric: mean of accuracy and macro F1 for MRPC and QQP, accuracy for RTE (Section 3.2)" in found.notes


def test_the_learning_rate_is_chosen_by_the_same_metric(tmp_path):
    """By accuracy on dev the first would be, by the mean with macro F1 the second."""
    high = {"scores": {"dev": scores(90, 50), "test": scores(99, 99)}}
    runs = [run("id-spam", "MRPC", lr=1e-3, dev=90, **high), run("id-spam", "MRPC", lr=1e-4, dev=70, both=65.0)]
    assert cells(table(tmp_path, "idspam-3", runs), "id-spam", "ours")["MRPC"] == "65.0"


def test_the_backbone_decides_which_values_stand_beside(tmp_path):
    large = table(tmp_path / "large", "idspam-2", [run("lpt", "MRPC")])
    base = table(tmp_path / "base", "idspam-2", [run("lpt", "MRPC", command=BASE)])
    assert [cells(found, "lpt", "paper")["MRPC"] for found in (large, base)] == ["87.3±0.2", "84.3±0.2"]
    assert [cells(found, "lpt", "paper")["Avg"] for found in (large, base)] == ["85.1", "83.1"]
    small = table(tmp_path / "small", "idspam-2", [run("lpt", "MRPC", command=made.MINILM)])
    assert small.lines == [["lpt", *["missing"] * 3, "60.0", *["missing"] * 3]]
    assert "roberta_idpg_base, roberta_idpg_large and not beside these; --paper shows them" in small.notes[-1]
    asked = table(tmp_path / "asked", "idspam-2", [run("lpt", "MRPC", command=made.MINILM)], beside_paper=True)
    assert cells(asked, "lpt", "paper")["MRPC"] == "87.3±0.2"
    assert asked.notes[-1] == "the paper's values are of roberta_idpg_large"
    with pytest.raises(InputError, match="runs with more than one backbone|has runs of roberta"):
        table(tmp_path / "both", "idspam-2", [run("lpt", "MRPC"), run("lora", "RTE", command=BASE)])


def test_a_part_of_the_columns(tmp_path):
    found = table(tmp_path, "idspam-2", [run("lpt", "MRPC"), run("lpt", "RTE")], tasks=("MRPC", "RTE"), rows=("lpt",))
    assert found.header[2:] == ["RTE", "MRPC", "Avg"] or found.header[2:] == ["MRPC", "RTE", "Avg"]
    assert (
        cells(found, "lpt", "paper")["Avg"] == f"{(87.3 + 74.2) / 2:.1f}"
        and cells(found, "lpt", "ours")["Avg"] == "65.0"
    )
    with pytest.raises(InputError, match="--tasks CR: choose from the columns MNLI, QNLI"):
        table(tmp_path, "idspam-2", [], tasks=("CR",))


def test_runs_that_do_not_say_the_metric(tmp_path):
    old = {"scores": {"dev": {"accuracy": 80.0}, "test": {"accuracy": 70.0}}}
    found = table(tmp_path / "some", "idspam-3", [run("id-spam", "MRPC"), run("mean-pooling", "MRPC", **old)])
    assert "left out: 1 runs whose records do not say the metric" in found.notes
    with pytest.raises(InputError, match="its records do not say acc_and_macro_f1, accuracy: they are of an earlier"):
        table(tmp_path / "none", "idspam-3", [run("mean-pooling", "MRPC", **old)])


def test_zero_shot_transfer_in_columns(tmp_path):
    found = {"QQP": {"metric": "acc_and_f1", "scores": scores(50.0, 66.6), "test": 50.0}}
    table_ = table(tmp_path, "idspam-6", [run("id-spam", "MRPC", transfer=found), run("id-spam", "QQP")])
    ours = cells(table_, "id-spam", "ours")
    assert (ours["MRPC → QQP"], ours["QQP → MRPC"]) == ("66.6", "missing")
    assert cells(table_, "id-spam", "paper")["MRPC → QQP"] == "69.2±0.4"


def test_zero_shot_transfer_is_at_the_rate_of_the_same_metric_and_not_of_one_that_diverged(tmp_path):
    """On MRPC's dev the first is best by its own metric, the second by that of the table; the third has diverged."""
    found = {"QQP": {"metric": "acc_and_f1", "scores": scores(50.0, 66.6), "test": 50.0}}
    better = {"QQP": {"metric": "acc_and_f1", "scores": scores(50.0, 77.7), "test": 50.0}}
    high = {"dev": scores(90.0, 60.0), "test": scores(90.0, 60.0)}
    runs = [run("id-spam", "MRPC", 1, 1e-3, 90.0, scores=high, transfer=found)]
    runs += [
        run("id-spam", "MRPC", 1, 1e-4, 80.0, transfer=better),
        run("id-spam", "MRPC", 1, 1e-5, 99.0, transfer=found),
    ]
    gone = as_swept(made.failed("id-spam", "MRPC", 2, lr=1e-5, reason="diverged"))
    made.write(tmp_path, [run("id-spam", "QQP"), *runs, gone])
    ours = cells(compared_table(papers().tables["idspam-6"], read_results(tmp_path), Choice()), "id-spam", "ours")
    assert ours["MRPC → QQP"] == "77.7 (n=1)"


def as_swept(failed):
    """A failed run as a sweep leaves it, which says nothing of what came of it."""
    return {name: value for name, value in failed.items() if name not in ("dev", "test", "metric", "trainable")}


def test_a_run_that_failed_leaves_the_table(tmp_path):
    gone = as_swept(made.failed("id-spam", "MRPC", 2))
    found = table(tmp_path, "idspam-3", [run("id-spam", "MRPC"), gone])
    assert cells(found, "id-spam", "ours")["MRPC"] == "60.0 (n=1)"
    assert "failed runs, left out: 1 (id-spam on MRPC 1)" in found.notes


def test_few_shot_transfer_in_columns(tmp_path):
    few = {"source_task": "QQP", "k": 100, "setting": "few-shot"}
    found = table(
        tmp_path, "idspam-11", [run("lpt", "MRPC", **few), run("lpt", "MRPC", **{**few, "k": 8}), run("lpt", "QQP")]
    )
    assert cells(found, "lpt", "ours")["QQP → MRPC"] == "60.0"
    assert cells(found, "lpt", "paper")["QQP → MRPC"] == "69.4"


def of_parts(row, task, score, parts=(), **more):
    """A run with the accuracy of 60 and the Matthews correlation of 50, of which ``score`` is the task's own."""
    found = {"accuracy": 60.0, "mcc": 50.0, **dict(parts)}
    return made.run(row, task, dev=score, test=score, scores={"dev": found, "test": found}, **more)


def test_rows_of_which_the_paper_says_only_the_name(tmp_path):
    """EPT's cells are not known: its rows stand there, without values of the paper."""
    runs = [
        of_parts("ept", task, score, {"f1a": 40.0}, command=BASE) for task, score in (("CoLA", 50.0), ("RTE", 60.0))
    ]
    found = table(tmp_path, "ept-1", runs, tasks=("CoLA", "RTE", "MultiRC"))
    assert found.header == ["method", "RTE", "CoLA", "MultiRC", "Avg"]
    assert cells(found, "ept") == dict(zip(found.header, ["ept", "60.0", "50.0", "missing", "missing"]))
    assert "fine-tuning" in [line[0] for line in found.lines] and "paper's values" not in found.notes[-1]


def test_scores_of_tasks_that_none_of_ours_is_stand_beside(tmp_path):
    accuracy = {"dev": {"accuracy": 80.0}, "test": {"accuracy": 80.0}}
    found = table(tmp_path, "slides-parallel", [made.run("PA (ffn), r=200", "SST-2", scores=accuracy, command=BASE)])
    assert found.header == ["method", "values", "MNLI", "SST-2", "Avg", "parameters", "XSum", "MT"]
    assert cells(found, "PA (ffn), r=200", "ours")["SST-2"] == "80.0"
    papers_line = cells(found, "PA (ffn), r=200", "paper")
    assert (papers_line["SST-2"], papers_line["XSum"], papers_line["MT"]) == ("-", "43.93/20.66/35.63", "36.4")
    assert not [line for line in found.lines if line[1] == "difference"]


def test_scores_against_the_number_of_spaces(tmp_path):
    runs = [of_parts(f"ept-N{n}", task, score) for n in (2, 8) for task, score in (("CoLA", 50.0), ("RTE", 60.0))]
    results = read_results(made.write(tmp_path, runs))
    chart = series_chart(papers().figures["ept-5"], results, Choice(tasks=("CoLA", "RTE")))
    assert chart.table.header == ["method", "task", "2", "8"]
    assert chart.table.lines == [["ept", "GLUE", "55.0", "55.0"]] and [panel.title for panel in chart.panels] == [
        "GLUE"
    ]
    assert "GLUE: mean of RTE, CoLA" in chart.table.notes


def test_scores_against_the_layer(tmp_path):
    rows = [("id-spam-m0", 50.0), ("id-spam-m12", 60.0), ("lpt-m12", 55.0), ("lpt", 99.0)]
    results = read_results(made.write(tmp_path, [run(row, "MRPC", both=both) for row, both in rows]))
    chart = series_chart(papers().figures["idspam-2"], results, Choice())
    assert chart.table.header == ["method", "task", "0", "12"]
    assert chart.table.lines[:2] == [["id-spam", "MRPC", "50.0", "60.0"], ["lpt", "MRPC", "missing", "55.0"]]
    assert [panel.title for panel in chart.panels] == ["MRPC", "RTE"]
    assert [series.points for series in chart.panels[0].series] == [[(0, 50.0), (12, 60.0)], [(12, 55.0)]]


def test_seconds(tmp_path):
    cost = {"seconds_per_update": 0.5, "best_update": 40, "batch_size": 10, "seconds_per_prediction": 0.002}
    results = read_results(made.write(tmp_path, [run("lpt", task, **cost) for task in ("WiC", "RTE")]))
    each = costs_table(papers().costs["idspam-14"], results, Choice())
    assert cells(each, "lpt", "training", "ours")["WiC"] == "0.050"
    assert cells(each, "lpt", "prediction", "ours")["WiC"] == "0.002"
    assert cells(each, "lpt", "prediction", "paper")["WiC"] == "0.041"
    assert cells(each, "lora", "training", "ours")["WiC"] == "missing"
    whole = costs_table(papers().costs["idspam-15"], results, Choice())
    assert cells(whole, "lpt", "convergence", "ours")["RTE"] == "20"
    assert cells(whole, "lpt", "convergence", "paper")["RTE"] == "168"
    assert [seconds_text(value) for value in (9.5, 10.0, 1234.5)] == ["9.500", "10", "1,234"]


def test_the_command(tmp_path, capsys):
    made.write(tmp_path, [run("lpt-m3", "MRPC"), run("lpt", "MRPC")])
    for arguments, said in (
        (["--table", "idspam-2"], "ID-SPAM, Table 2: GLUE\n"),
        (["--table", "idspam-12"], "2,162,688"),
        (["--figure", "idspam-2"], "lpt       MRPC"),
        (["--figure", "idspam-2", "--out", str(tmp_path / "f.svg"), "--format", "csv"], "method,task,3\n"),
    ):
        main([str(tmp_path), *arguments])
        assert said in capsys.readouterr().out
    for arguments in (["--table", "idspam-2", "--voting"], ["--table", "idspam-12", "--paper"]):
        with pytest.raises(SystemExit, match="means nothing to --table idspam"):
            main([str(tmp_path), *arguments])
    with pytest.raises(SystemExit):
        main([str(tmp_path), "--table", "idspam-13"])
    assert "invalid choice: 'idspam-13'" in capsys.readouterr().err


def test_options_and_selection_are_told(tmp_path):
    runs = [run("id-spam", "MRPC", selection="paper", given_options=["--dropout", "0"])]
    notes = table(tmp_path, "idspam-2", runs).notes
    assert "options besides the paper's: --dropout 0" in notes
    assert any(note.startswith("setting full; selection paper: ") for note in notes)


def test_seconds_are_of_the_runs_that_say_them(tmp_path):
    runs = [run("lpt", "RTE", seed, seconds_per_update=cost, best_update=40) for seed, cost in ((1, 0.5), (2, 1.5))]
    runs.append(run("lpt", "RTE", 3))  # an older record
    whole = costs_table(papers().costs["idspam-15"], read_results(made.write(tmp_path, runs)), Choice(tasks=("RTE",)))
    assert made.cells(whole, "lpt", "convergence", "ours")["RTE"] == "40"


def test_a_panel_is_the_mean_of_all_of_its_own_columns(tmp_path):
    runs = [
        run("id-spam-m0", "MRPC", both=50.0),
        run("id-spam-m0", "RTE", both=60.0),
        run("id-spam-m12", "MRPC", both=70.0),
    ]
    chart = series_chart(papers().figures["idspam-2"], read_results(made.write(tmp_path, runs)), Choice())
    assert chart.table.lines == [["id-spam", "MRPC", "50.0", "70.0"], ["id-spam", "RTE", "70.0", "missing"]]
