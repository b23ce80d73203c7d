"""Dev scores over the updates."""

from __future__ import annotations

import pytest

from preprocess.errors import InputError
from run_scripts.report.__main__ import main
from run_scripts.report.curves import curve_chart
from run_scripts.report.runs import Results
from run_scripts.report.scope import Choice

from . import made

FEW = {"setting": "few-shot", "k": 100}


def curve(*scores, every=10):
    return [[every * (i + 1), score] for i, score in enumerate(scores)]


def runs():
    """Two seeds at the chosen rate, of which one has a validation more; another rate; a task without curves."""
    yield made.run("adapter", "CR", 1, dev=80, dev_curve=curve(50.0, 70.0, 80.0, 60.0))
    yield made.run("adapter", "CR", 2, dev=82, dev_curve=curve(60.0, 74.0, 82.0, 70.0, 99.0))
    for seed in (1, 2):
        yield made.run("adapter", "CR", seed, lr=1e-4, dev=10, dev_curve=curve(1.0, 2.0))
    yield made.run("lora", "CR", 1, dev_curve=curve(55.0, 65.0))
    yield made.run("lora", "MR", 1)
    yield made.run("adapter", "MR", 1, dev_curve=curve(90.0), **FEW)


def chart(place, **choice):
    return curve_chart(Results(place, tuple(runs())), Choice(**choice))


def test_means_over_the_seeds_at_the_chosen_rate(tmp_path):
    found = chart(tmp_path, tasks=("CR", "MR"))
    (cr, mr) = found.panels
    assert [(series.label, series.points) for series in cr.series] == [
        ("adapter", [(10, 55.0), (20, 72.0), (30, 81.0), (40, 65.0)]),
        ("lora", [(10, 55.0), (20, 65.0)]),
    ]
    assert (cr.title, mr.title, mr.series) == ("CR", "MR", [])
    assert found.table.groups == [
        [
            ["CR", "adapter", "0.001", "55.0", "72.0", "81.0", "30", "65.0", "40"],
            ["CR", "lora", "0.001", "55.0", "55.0", "65.0", "20", "65.0", "20"],
        ],
        [["MR", row, *["missing"] * 7] for row in ("adapter", "lora")],
    ]
    assert "over seeds 1, 2 of the score on the development set" in found.table.notes[0]
    assert not any("test scores" in note for note in found.table.notes)
    left_out = "validations that not all seeds have after the same updates are left out: adapter on CR has 4 of 5"
    assert left_out in found.table.notes


def test_epochs_that_end_at_other_updates_are_told(tmp_path):
    """The best of the shared validations is none of a seed then, and the table must not say so without a word."""
    curves = {1: [[10, 50.0], [20, 90.0], [30, 60.0]], 2: [[11, 50.0], [21, 90.0], [30, 60.0]]}
    found = [made.run("adapter", "CR", seed, dev=90.0, dev_curve=curve) for seed, curve in curves.items()]
    table = curve_chart(Results(tmp_path, tuple(found)), Choice()).table
    assert table.lines[0][3:] == ["60.0", "60.0", "60.0", "30", "60.0", "30"]
    assert sum("are left out: adapter on CR has 1 of 3" in note for note in table.notes) == 1
    table = curve_chart(Results(tmp_path, tuple(found[:1])), Choice()).table
    assert not any("are left out" in note for note in table.notes)


def test_half_is_the_nearest_validation(tmp_path):
    """Which is the first one of the second half where an odd number of epochs is validated in steps."""
    run = made.run("adapter", "CR", 1, dev_curve=[[640, 50.0], [800, 60.0], [1563, 70.0]])
    ((cells,),) = curve_chart(Results(tmp_path, (run,)), Choice()).table.groups
    assert cells[3:6] == ["50.0", "60.0", "70.0"]
    run = made.run("adapter", "CR", 1, dev_curve=[[8, 50.0], [12, 60.0], [21, 70.0]])  # 10.5 is nearer to 12
    ((cells,),) = curve_chart(Results(tmp_path, (run,)), Choice()).table.groups
    assert cells[4] == "60.0"


def test_of_equally_good_validations_the_best_is_the_first(tmp_path):
    run = made.run("adapter", "CR", 1, dev_curve=curve(50.0, 70.0, 70.0, 60.0))
    ((cells,),) = curve_chart(Results(tmp_path, (run,)), Choice()).table.groups
    assert cells[5:7] == ["70.0", "20"]


def test_means_that_only_rounding_tells_apart_are_equally_good(tmp_path):
    """72.2 both, of which floats make 72.19999999999999 and 72.2."""
    seeds = {1: curve(72.1, 72.0, 60.0), 2: curve(72.3, 72.4, 60.0)}
    found = tuple(made.run("adapter", "CR", seed, dev_curve=own) for seed, own in seeds.items())
    assert curve_chart(Results(tmp_path, found), Choice()).table.lines[0][5:7] == ["72.2", "10"]


def test_few_shot_runs(tmp_path):
    found = chart(tmp_path, k=100, rows=("adapter",))
    assert [panel.title for panel in found.panels] == ["MR with K = 100"]
    assert found.table.groups == [[["MR", "adapter", "0.001", "90.0", "90.0", "90.0", "10", "90.0", "10"]]]
    assert any(note.startswith("setting few-shot with K = 100; selection clean") for note in found.table.notes)


def test_a_row_whose_records_do_not_say(tmp_path):
    """Which a figure would lack without a word."""
    notes = chart(tmp_path, tasks=("CR", "MR")).table.notes
    assert "no line, as the records do not say the dev score over the updates: lora on MR" in notes
    assert not any(note.startswith("no line") for note in chart(tmp_path, tasks=("CR",)).table.notes)


def test_records_that_do_not_say(tmp_path):
    with pytest.raises(InputError, match="its records do not say the dev score over the updates: sweep again"):
        chart(tmp_path, tasks=("MR",))


def test_a_figure_for_a_task(tmp_path, capsys):
    results = made.write(tmp_path / "results", runs())
    main([str(results), "--figure", "curves", "--tasks", "CR", "--out", str(tmp_path / "curves-CR.svg")])
    assert b"<svg" in (tmp_path / "curves-CR.svg").read_bytes()
    with pytest.raises(SystemExit, match="--significance means nothing to --figure curves"):
        main([str(results), "--figure", "curves", "--significance", "lora"])
