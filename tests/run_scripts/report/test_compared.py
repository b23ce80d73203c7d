"""Tables and figures of other papers, ours by their metric beside their values; and transfer between tasks."""

import pytest

from preprocess.errors import InputError

from . import made
from .made import cells, report

BASE = {"arch": "roberta_idpg_base"}


def scores(accuracy, both):
    return {"accuracy": accuracy, "acc_and_macro_f1": both}


def run(row, task, seed=1, lr=1e-3, dev=80.0, test=70.0, both=60.0, **more):
    """Scores by the task's own metric, and by ID-SPAM's."""
    found = {"dev": scores(dev, dev - 1), "test": scores(test, both)}
    return made.run(row, task, seed, lr, dev, test, **{"scores": found, **more})


def test_ours_are_by_the_papers_metric(tmp_path):
    runs = [run("id-spam", task, seed, both=60.0 + seed) for task in ("MRPC", "RTE", "QQP") for seed in (1, 2)]
    found = report(tmp_path, [*runs, made.failed("id-spam", "MRPC", 3)], "--table idspam-3")
    assert found.header == ["method", "values", "MRPC", "RTE", "QQP", "Avg"]
    ours, theirs, gap = (cells(found, "id-spam", name) for name in ("ours", "paper", "difference"))
    assert [ours[task] for task in ("MRPC", "RTE", "QQP")] == ["61.5±0.7 (n=2)", "70.0±0.0 (n=2)", "61.5±0.7 (n=2)"]
    assert (ours["Avg"], theirs["MRPC"], gap["MRPC"]) == (f"{(61.5 + 70 + 61.5) / 3:.1f}", "86.1", "-24.6")
    assert theirs["Avg"] == f"{(86.1 + 81.1 + 88.4) / 3:.1f}"
    # the learning rate, too: by accuracy on dev the first would be chosen, by the mean with macro F1 the second
    high = {"dev": scores(90, 50), "test": scores(99, 99)}
    runs = [run("id-spam", "MRPC", dev=90, scores=high), run("id-spam", "MRPC", lr=1e-4, dev=70, both=65.0)]
    assert cells(report(tmp_path, runs, "--table idspam-3"), "id-spam", "ours")["MRPC"] == "65.0"


def test_scores_against_a_number(tmp_path):
    """A panel for each column."""
    rows = [("id-spam-m0", 50.0), ("id-spam-m12", 60.0), ("lpt-m12", 55.0), ("lpt", 99.0)]
    chart = report(tmp_path, [run(row, "MRPC", both=both) for row, both in rows], "--figure idspam-2")
    assert chart.table.lines[:2] == [["id-spam", "MRPC", "50.0", "60.0"], ["lpt", "MRPC", "missing", "55.0"]]
    assert [[point[:2] for point in series.points] for series in chart.panels[0].series] == [
        [(0, 50.0), (12, 60.0)],
        [(12, 55.0)],
    ]


def test_the_backbone_decides_which_values_stand_beside(tmp_path):
    for more, average in (({}, ["87.3±0.2", "85.1"]), (BASE, ["84.3±0.2", "83.1"])):
        beside = cells(report(tmp_path, [run("lpt", "MRPC", **more)], "--table idspam-2"), "lpt", "paper")
        assert [beside["MRPC"], beside["Avg"]] == average
    found = report(tmp_path, [run("lpt", "MRPC", arch=made.MINILM)], "--table idspam-2")
    assert found.lines == [["lpt", *["missing"] * 3, "60.0", *["missing"] * 3]]


def test_runs_that_do_not_say_the_metric(tmp_path):
    old = run("mean-pooling", "MRPC", scores={"dev": {"accuracy": 80.0}, "test": {"accuracy": 70.0}})
    found = report(tmp_path, [run("id-spam", "MRPC"), old], "--table idspam-3")
    assert "left out: 1 runs whose records do not say the metric" in found.notes[-1]
    with pytest.raises(InputError, match="acc_and_macro_f1"):
        report(tmp_path, [old], "--table idspam-3")


def test_transfer_in_columns(tmp_path):
    """On MRPC's dev the first is best by its own metric, the second by that of the table."""
    found, better = (
        {"QQP": {"metric": "acc_and_f1", "scores": scores(50.0, both), "test": 50.0}} for both in (66.6, 77.7)
    )
    high = {"dev": scores(90.0, 60.0), "test": scores(90.0, 60.0)}
    runs = [run("id-spam", "MRPC", 1, 1e-3, 90.0, 90.0, scores=high, transfer=found), run("id-spam", "QQP")]
    table = report(tmp_path, [*runs, run("id-spam", "MRPC", 1, 1e-4, 80.0, transfer=better)], "--table idspam-6")
    ours = cells(table, "id-spam", "ours")
    assert (ours["MRPC → QQP"], ours["QQP → MRPC"]) == ("77.7", "missing")
    assert cells(table, "id-spam", "paper")["MRPC → QQP"] == "69.2±0.4"
    few = {"source_task": "QQP", "setting": "few-shot"}
    runs = [run("lpt", "MRPC", k=100, **few), run("lpt", "MRPC", k=8, **few), run("lpt", "QQP")]
    assert cells(report(tmp_path, runs, "--table idspam-11"), "lpt", "ours")["QQP → MRPC"] == "60.0"


def answered(row, seed, lr, dev, accuracy, **more):
    """A run on MRPC with what its model scores on QQP."""
    found = {"accuracy": accuracy, "f1": 0.0, "acc_and_f1": accuracy / 2, "macro_f1": 40.0}
    found["acc_and_macro_f1"] = (accuracy + 40) / 2
    of_qqp = {"QQP": {"metric": "acc_and_f1", "scores": found, "test": found["acc_and_f1"]}}
    return made.run(row, "MRPC", seed, lr, dev, 99.0, transfer=of_qqp, source_task=None, **more)


def continued(row, seed, lr, dev, test, **more):
    few = {"source_task": "MRPC", "k": 8, "setting": "few-shot", **more}
    return made.run(row, "QQP", seed, lr, dev, test, **few)


def transfer(tmp_path, runs):
    return {tuple(line[:3]): line[3:] for line in report(tmp_path, runs, "--table transfer").lines}


RUNS = [
    *(answered("id-spam", 1, 1e-3, 70, 60.0), answered("id-spam", 2, 1e-3, 72, 64.0)),
    *(answered("id-spam", seed, 1e-4, 60, 90.0) for seed in (1, 2)),  # better there, but not on its own dev
    *(continued("id-spam", 1, 1e-3, 50, 30.0), continued("id-spam", 1, 1e-4, 55, 33.0)),
    *(answered("lpt-npg", 1, 1e-3, 70, 50.0), made.failed("lpt-npg", "MRPC", 2)),
]


def test_the_learning_rate_is_that_of_the_first_tasks_dev(tmp_path):
    found = transfer(tmp_path, RUNS)
    assert [k for _, k, _ in found] == ["-", "-", "8"] and found == {
        ("MRPC → QQP", "-", "id-spam"): ["31.0±1.4", "62.0", "40.0", "51.0", "0.001"],
        ("MRPC → QQP", "-", "lpt-npg"): ["25.0 (n=1)", "50.0", "40.0", "45.0", "0.001"],
        ("MRPC → QQP", "8", "id-spam"): ["33.0 (n=1)", "missing", "missing", "missing", "0.0001"],
    }
    (fewer,) = [note for note in report(tmp_path, RUNS, "--table transfer").notes if "fewer seeds" in note]
    assert "id-spam on MRPC → QQP with K = 8 without 2" in fewer and "lpt-npg on MRPC → QQP without 2" in fewer
    with pytest.raises(InputError, match="no finished few-shot run"):  # runs that go on are of no other table
        report(tmp_path, RUNS, "--table 3 --tasks QQP")


def test_answers_on_other_data_are_not_mixed(tmp_path):
    found = {"metric": "accuracy", "scores": {}, "test": 70.0}
    runs = [
        made.run("a", "MRPC", seed, transfer={"RTE": {**found, "data": f"{seed}" * 64}}, source_task=None)
        for seed in (1, 2)
    ]
    with pytest.raises(InputError, match="a on MRPC → RTE.* tested data 1{16} and 2{16}"):
        transfer(tmp_path, runs)
