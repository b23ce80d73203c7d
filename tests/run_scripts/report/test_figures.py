"""The figures: what is on their axes, and their numbers as tables."""

from __future__ import annotations

import itertools

import pytest

from preprocess.errors import InputError
from run_scripts.report.paper import paper
from run_scripts.report.render import UNLABELLED, Chart, Panel, Series, Table, draw

from . import made
from .made import FEW, report

TASKS = ("CR", "RTE")


def axes_of(found):
    figure = draw(found)
    assert figure.get_suptitle() == found.table.title
    for axes in figure.axes:
        assert axes.get_xlabel() and "(x100)" in axes.get_ylabel()
    assert found.table.notes[0].split()[0] in figure.get_supxlabel()
    return figure.axes


def legend(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def lines(axes, label: str) -> list[tuple[float, float]]:
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return [tuple(map(float, point)) for point in line.get_xydata()]


def scored(row, scores, **more):
    return [made.run(row, task, test=score, **more) for task, score in zip(TASKS, scores)]


@pytest.mark.parametrize("panels, shape", [(1, (1, 1)), (5, (2, 3))])
def test_panels_stand_in_rows_and_a_legend_covers_nothing(panels, shape):
    series = [Series(f"adapter-multihead-parallel-{row}", [(1.0, row), (2.0, row)], row) for row in range(40)]
    made_of = [Panel(f"task {number}", "x", "y", series) for number in range(panels)]
    figure = draw(Chart(made_of, Table("Title", 1, ["a"], [[["b"]]], ["note"] * 3)))
    assert [axes.get_title() for axes in figure.axes] == [panel.title for panel in made_of]
    assert figure.axes[0].get_gridspec().get_geometry() == shape
    assert len({(line.get_color(), line.get_marker()) for line in figure.axes[0].lines}) == len(series)
    if panels == 1:
        figure.draw_without_rendering()
        (axes,) = figure.axes
        places = (axes.get_legend(), axes.xaxis.label, axes, figure.texts[-1])
        box, xlabel, panel, caption = (place.get_window_extent() for place in places)
        assert caption.y1 <= box.y0 and box.y1 <= xlabel.y0 and panel.height > 0.4 * figure.dpi * 7


@pytest.fixture
def counted(monkeypatch):
    """Parameters of rows without runs, without building the modules."""
    monkeypatch.setattr("run_scripts.report.costs._counted", lambda arch: {"adapter": 1_622_784, "efl": 7})


def test_figures_1_and_3_of_few_shot_runs(tmp_path, counted):
    """Beside the paper's values of the same K, where it has some: Table 6 is of full training."""
    runs = [*scored("prompt-tuning", (60, 70), **FEW), *scored("prompt-tuning", (80, 90))]
    runs += scored("S-256-layer0", (61, 71), **FEW)
    of_k = {line[0]: line[1:] for line in report(tmp_path, runs, "--figure 1 --k 100").table.lines}
    assert of_k["prompt-tuning"] == ["1,000", "65.0", "5K", f"{(72.9 + 86.5) / 2:.1f}"]
    assert set(of_k) == set(paper().blocks[3][100])
    assert of_k["efl"][:2] == ["7", "missing"]  # which Table 2 has no line of
    found = report(tmp_path, runs, "--figure 3 --k 100").table
    assert found.lines[0] == ["256", "layer 0", "ours", "66.0", "missing", "missing"]
    assert found.lines[1][3:] == ["-"] * 3


def test_figure_1_score_against_parameters(tmp_path, counted):
    runs = [*scored("m-idpg-phm", (80, 90), trainable=137_232), *scored("head-only", (50, 60), trainable=0)]
    runs += [*scored("efl", (70, 80), trainable=355_000_000), made.run("compacter", "CR", trainable=9)]
    found = report(tmp_path, runs, "--figure 1")
    (axes,) = axes_of(found)
    assert axes.get_xscale() == "log"
    assert lines(axes, "m-idpg-phm") == [(137_232, 85)]
    assert lines(axes, "compacter") == [(152_576, pytest.approx((92.7 + 87.1) / 2))]  # the paper's: ours lacks RTE
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == "none"]
    assert len(hollow) == len(paper().blocks[1][None])
    assert sum(line.get_label().startswith(UNLABELLED) for line in hollow) == 2  # beside ours of the same row
    assert legend(axes) == list(paper().blocks[1][None])
    by_name = {line[0]: line[1:] for line in found.table.lines}
    assert by_name["m-idpg-phm"] == ["137,232", "85.0", "134K", f"{(93.2 + 83.5) / 2:.1f}"]
    assert by_name["adapter"][:2] == ["1,622,784", "missing"]
    assert by_name["head-only"] == ["0", "55.0", "-", "-"]


def test_figure_3_bars_of_ours_and_the_paper(tmp_path):
    runs = [*scored("S-256-layer0", (80, 84)), *scored("L-16-previous", (90, 92)), made.run("M-256-layer0", "CR")]
    found = report(tmp_path, runs, "--figure 3")
    (axes,) = axes_of(found)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["S", "M", "L"]
    bars = {bar.get_label(): [float(patch.get_height()) for patch in bar] for bar in axes.containers}
    assert bars["ours: m = 256, input: layer 0"] == [82]
    assert bars["ours: m = 16, input: previous layer"] == [91]
    assert bars["paper: m = 16, input: previous layer"] == [pytest.approx((93.6 + 83.6) / 2), pytest.approx(88.45)]
    assert legend(axes) == list(bars)
    (ours,) = [bar for bar in axes.containers if bar.get_label() == "ours: m = 16, input: previous layer"]
    assert abs(ours[0].get_x() + ours[0].get_width() / 2 - 2) < 0.5  # in the group of L
    middles = sorted(patch.get_x() + patch.get_width() / 2 for bar in axes.containers for patch in bar)
    assert min(b - a for a, b in itertools.pairwise(middles)) > 0.9 * ours[0].get_width()
    assert [line[2:] for line in found.table.groups[0]] == [
        ["ours", "82.0", "missing", "missing"],
        ["paper", f"{(93.8 + 79.9) / 2:.1f}", f"{(93.6 + 85.5) / 2:.1f}", f"{(93.8 + 86.5) / 2:.1f}"],
        ["difference", "-4.8", "-", "-"],
    ]


def test_figures_1_and_3_of_another_backbone_have_no_values_of_the_paper(tmp_path, counted):
    runs = scored("S-256-layer0", (80, 84), command=made.MINILM)
    assert report(tmp_path, runs, "--figure 3").table.lines == [
        ["256", "layer 0", "ours", "82.0", "missing", "missing"]
    ]
    assert len(report(tmp_path, runs, "--figure 3 --paper").table.lines) > 3
    runs = scored("m-idpg-phm", (80, 90), command=made.MINILM, trainable=22_032)
    assert report(tmp_path, runs, "--figure 1").table.lines == [["m-idpg-phm", "22,032", "85.0"]]
    assert report(tmp_path, runs, "--figure 1 --paper").table.header[-1] == "paper: Avg"


def positions():
    """Scores are known by their place: test is 50 + 10 x supplementary + downstream; dev prefers (1, 4) and (4, 0)."""
    best = {"CR": (1, 4), "RTE": (4, 0)}
    for task, supplementary, position in itertools.product(TASKS, (None, 0, 1, 4), (0, 1, 2, 3, 4)):
        if task == "CR" and position in (2, 3):
            continue
        test = 50 + 10 * (0 if supplementary is None else supplementary) + position
        dev = 90 if (supplementary, position) == best[task] else 10
        more = {"position": position, "supplementary_position": supplementary}
        yield made.run("s-idpg-phm", task, dev=dev, test=test, **more)


SINGLE, PAIRS = "s-idpg-phm, single sentences", "s-idpg-phm, pairs"


def test_figure_7_lines_through_the_best_place(tmp_path):
    table_1 = [made.run("adapter", "MR", prompt_length=None), made.run("prompt-tuning", "MR")]
    downstream, supplementary = axes_of(report(tmp_path, [*positions(), *table_1], "--figure 7"))
    assert legend(downstream) == legend(supplementary) == [SINGLE, PAIRS]
    assert lines(downstream, SINGLE) == [(0, 60), (1, 61), (4, 64)]
    assert lines(downstream, PAIRS) == [(0, 90), (1, 91), (2, 92), (3, 93), (4, 94)]
    assert lines(supplementary, SINGLE) == [(0, 54), (1, 64), (4, 94)]
    assert lines(supplementary, PAIRS) == [(0, 50), (1, 60), (4, 90)]
    assert [line.get_linestyle() for line in downstream.lines] == ["-", "--"]
    assert list(downstream.get_xticks()) == [0, 1, 2, 3, 4] and list(supplementary.get_xticks()) == [0, 1, 4]


def test_equally_good_places_are_chosen_between_by_their_order(tmp_path):
    """Not by that of the records, which is the order in which runs ended."""
    runs = [{**run, "dev": 0.1 + 0.2 if run["position"] else 0.3} for run in positions() if run["task"] == "CR"]
    for given in (runs, runs[::-1]):
        downstream, supplementary = axes_of(report(tmp_path, given, "--figure 7"))
        assert lines(downstream, SINGLE) == [(0, 50), (1, 51), (4, 54)]
        assert lines(supplementary, SINGLE) == [(0, 50), (1, 60), (4, 90)]


def test_figure_7_as_a_grid(tmp_path):
    runs = [run for run in positions() if (run["task"], run["position"]) != ("RTE", 3)]
    others = [made.run("prompt-tuning", "MR"), made.run("m", "RTE", position=3)]
    table = report(tmp_path, [*runs, *others], "--figure 7").table
    assert table.header == ["method", "tasks", "supplementary", *(f"position {p}" for p in (0, 1, 2, 4))]
    singles, pairs = table.groups
    assert [line[2] for line in pairs] == ["none", "0", "1", "4"]
    assert singles[1] == ["s-idpg-phm", "single sentences", "0", "50.0", "51.0", "-", "54.0"]
    assert pairs[3] == ["s-idpg-phm", "pairs", "4", "90.0", "91.0", "92.0", "94.0"]
    assert any("of single sentences over CR, of pairs over RTE" in note for note in table.notes)


def test_figure_7_without_supplementary_training_and_a_place_without_one_of_the_tasks(tmp_path):
    runs = [run for run in positions() if run["supplementary_position"] is None]
    downstream, supplementary = axes_of(report(tmp_path, runs, "--figure 7"))
    assert lines(downstream, SINGLE) == [(0, 50), (1, 51), (4, 54)]
    assert [text.get_text() for text in supplementary.texts] == ["no such runs"]
    runs = [made.run("a", task, position=p, test=p) for task, p in (("CR", 0), ("CR", 1), ("MR", 0), ("MR", 4))]
    assert report(tmp_path, runs, "--figure 7").table.lines[0][3:] == ["0.0", "missing", "missing"]
    assert report(tmp_path, runs, "--figure 7 --tasks CR").table.lines[0][3:] == ["0.0", "1.0"]


def test_figure_9_score_against_length(tmp_path):
    runs = [run for t in (1, 5, 20) for run in scored("m-idpg-phm", (80 + t, 60 + t), prompt_length=t)]
    runs += [run for t in (5, 10) for run in scored("prompt-tuning", (70, 60), prompt_length=t)]
    runs += [made.run("p-tuning-v2", "MR"), made.run("prompt-tuning-134", "CR", prompt_length=134)]
    found = report(tmp_path, runs, "--figure 9")
    (axes,) = axes_of(found)
    assert lines(axes, "m-idpg-phm") == [(1, 71), (5, 75), (20, 90)]
    assert lines(axes, "prompt-tuning") == [(5, 65), (10, 65)]
    assert axes.get_xlabel() == "prompt length (rows)" and list(axes.get_xticks()) == [1, 5, 10, 20]
    assert found.table.lines == [
        ["m-idpg-phm", "71.0", "75.0", "missing", "90.0"],
        ["prompt-tuning", "missing", "65.0", "65.0", "missing"],
    ]
    few = [{**run, **FEW} for run in runs[:4]]
    assert report(tmp_path, few, "--figure 9 --k 100").table.lines == [["m-idpg-phm", "71.0", "75.0"]]


@pytest.mark.parametrize(
    ("number", "row", "more"),
    [
        (1, "prompt-tuning", [{}]),
        (3, "S-256-layer0", [{}]),
        (7, "s-idpg-phm", [{"position": 0}, {"position": 4}]),
        (9, "m-idpg-phm", [{"prompt_length": 1}, {"prompt_length": 5}]),
    ],
)
def test_means_deviate_as_those_of_the_seeds(tmp_path, counted, number, row, more):
    """Means over CR and MR of 70 and 72: less apart than the scores of either."""
    tests = {"CR": (80, 70), "MR": (60, 74)}
    runs = [run for each in more for task, of in tests.items() for run in made.seeds(row, task, of, **each)]
    cells = sum(report(tmp_path, runs, f"--figure {number}").table.lines, [])
    assert cells.count("71.0±1.4") == len(more)
    other_seeds = [run for run in runs if (run["task"], run["seed"]) != ("MR", 2)]
    assert "±" not in str(report(tmp_path, other_seeds, f"--figure {number}").table.lines)


@pytest.mark.parametrize(
    ("number", "runs", "named"),
    [
        (7, scored("m-idpg-phm", (1, 2)), "more than one position or supplementary position"),
        (9, scored("m-idpg-phm", (1, 2)), "more than one prompt length"),
        (1, [made.run("efl", "CR"), made.run("adapter", "RTE")], "CR, RTE: .*--tasks"),
        (3, [made.run("S-256-layer0", "CR"), made.run("M-256-layer0", "RTE")], "CR, RTE: .*--tasks"),
        ("curves", [made.run("lora", "MR")], "dev score"),
    ],
)
def test_runs_that_are_not_there(tmp_path, counted, number, runs, named):
    with pytest.raises(InputError, match=named):
        report(tmp_path, runs, f"--figure {number}")


# --- dev scores over the updates -----------------------------------------------------------------


def curve(*scores):
    return [[10 * number, score] for number, score in enumerate(scores, 1)]


def curves():
    """Two seeds at the chosen rate, of which one has a validation more; another rate; a task without curves."""
    yield made.run("adapter", "CR", 1, dev=80, dev_curve=curve(50.0, 70.0, 80.0, 60.0))
    yield made.run("adapter", "CR", 2, dev=82, dev_curve=curve(60.0, 74.0, 82.0, 70.0, 99.0))
    for seed in (1, 2):
        yield made.run("adapter", "CR", seed, lr=1e-4, dev=10, dev_curve=curve(1.0, 2.0))
    yield made.run("lora", "CR", 1, dev_curve=curve(55.0, 65.0))
    yield made.run("lora", "MR", 1)
    yield made.run("adapter", "MR", 1, dev_curve=curve(90.0), **FEW)


def test_means_over_the_seeds_at_the_chosen_rate(tmp_path):
    found = report(tmp_path, curves(), "--figure curves --tasks CR MR")
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
    assert found.table.notes[-1].startswith(
        "validations that not all seeds have after the same updates are left out: adapter on CR has 4 of 5. "
        "no line, as the records do not say the dev score over the updates: lora on MR. "
    )
    few = report(tmp_path, curves(), "--figure curves --k 100 --rows adapter")
    assert few.table.groups == [[["MR", "adapter", "0.001", "90.0", "90.0", "90.0", "10", "90.0", "10"]]]


@pytest.mark.parametrize(
    ("of_seeds", "cells"),
    [
        ([[[640, 50.0], [800, 60.0], [1563, 70.0]]], ["50.0", "60.0", "70.0", "1,563"]),  # half is the nearest
        ([[[8, 50.0], [12, 60.0], [21, 70.0]]], ["50.0", "60.0", "70.0", "21"]),  # 10.5 is nearer to 12
        ([curve(50.0, 70.0, 70.0, 60.0)], ["50.0", "70.0", "70.0", "20"]),  # the best is the first
        ([curve(72.1, 72.0, 60.0), curve(72.3, 72.4, 60.0)], ["72.2", "72.2", "72.2", "10"]),  # but for rounding
        ([[[10, 50.0], [30, 60.0]], [[11, 50.0], [30, 60.0]]], ["60.0", "60.0", "60.0", "30"]),  # shared validations
    ],
)
def test_the_first_the_half_and_the_best(tmp_path, of_seeds, cells):
    runs = [made.run("adapter", "CR", seed, dev_curve=own) for seed, own in enumerate(of_seeds)]
    assert report(tmp_path, runs, "--figure curves").table.lines[0][3:7] == cells
