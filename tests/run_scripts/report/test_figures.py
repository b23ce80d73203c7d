"""The figures: what is on their axes, and their numbers as tables."""

from __future__ import annotations

import itertools

import pytest
from matplotlib.colors import to_hex

from preprocess.errors import InputError
from run_scripts.report.drawing import COLOURS, MARKERS, UNLABELLED, Chart, Panel, Series, draw
from run_scripts.report.figures import CHARTS
from run_scripts.report.paper import paper
from run_scripts.report.render import Table
from run_scripts.report.runs import Results
from run_scripts.report.scope import Choice

from . import made

ANY = Choice()

TASKS = ("CR", "RTE")


def chart(tmp_path, number, runs, choice=ANY):
    return CHARTS[number](Results(tmp_path, tuple(runs)), choice)


def axes_of(found):
    figure = draw(found)
    assert figure.get_suptitle() == found.table.title
    for axes in figure.axes:
        assert axes.get_xlabel() and "(x100)" in axes.get_ylabel()
    assert all(note.split()[0] in figure.get_supxlabel() for note in found.table.notes)
    return figure.axes


@pytest.mark.parametrize("panels, shape", [(1, (1, 1)), (3, (1, 3)), (5, (2, 3))])
def test_panels_stand_in_rows(panels, shape):
    made_of = [Panel(f"task {number}", "x", "y", [Series("a", [(1.0, 2.0)], 0)]) for number in range(panels)]
    figure = draw(Chart(made_of, Table("Title", 1, ["a"], [[["b"]]], ["note"])))
    assert [axes.get_title() for axes in figure.axes] == [panel.title for panel in made_of]
    assert figure.axes[0].get_gridspec().get_geometry() == shape


def legend(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


@pytest.mark.parametrize("rows", [3, 40])
def test_a_legend_covers_nothing(rows):
    series = [Series(f"adapter-multihead-parallel-{row}", [(1.0, row), (2.0, row)], row) for row in range(rows)]
    figure = draw(Chart([Panel("CR", "updates", "score", series)], Table("Title", 1, ["a"], [[["b"]]], ["note"] * 20)))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    places = (axes.get_legend(), axes.xaxis.label, axes.yaxis.label, axes, figure.texts[-1])
    box, xlabel, ylabel, panel, caption = (place.get_window_extent() for place in places)
    assert caption.y1 <= box.y0 and box.y1 <= xlabel.y0 and ylabel.height < panel.height
    assert panel.height > 0.4 * figure.dpi * 7


def lines(axes, label: str) -> list[tuple[float, float]]:
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return [tuple(map(float, point)) for point in line.get_xydata()]


def scored(row, scores, **more):
    return [made.run(row, task, test=score, **more) for task, score in zip(TASKS, scores)]


@pytest.fixture
def counted(monkeypatch):
    """Parameters of rows without runs, without building the modules."""
    monkeypatch.setattr("run_scripts.report.counts._counted", lambda arch: {"adapter": 1_622_784})


def test_figures_1_and_3_of_few_shot_runs(tmp_path, counted):
    """Beside the paper's values of the same K, where it has some: Table 6 is of full training."""
    few = {"setting": "few-shot", "k": 100}
    runs = [*scored("prompt-tuning", (60, 70), **few), *scored("prompt-tuning", (80, 90))]
    runs += scored("S-256-layer0", (61, 71), **few)
    of_k = {line[0]: line[1:] for line in chart(tmp_path, 1, runs, Choice(k=100)).table.lines}
    assert of_k["prompt-tuning"] == ["1,000", "65.0", "5K", f"{(72.9 + 86.5) / 2:.1f}"]
    assert set(of_k) == set(paper().blocks[3][100])
    found = chart(tmp_path, 3, runs, Choice(k=100)).table
    assert found.lines[0] == ["256", "layer 0", "ours", "66.0", "missing", "missing"]
    assert found.lines[1][3:] == ["-"] * 3
    assert any("setting few-shot with K = 100;" in note for note in found.notes)


def test_figure_1_score_against_parameters(tmp_path, counted):
    runs = [*scored("m-idpg-phm", (80, 90), trainable=137_232), *scored("head-only", (50, 60), trainable=0)]
    runs += [*scored("efl", (70, 80), trainable=355_000_000), made.run("compacter", "CR", trainable=9)]
    found = chart(tmp_path, 1, runs)
    (axes,) = axes_of(found)
    assert axes.get_xscale() == "log"
    assert lines(axes, "m-idpg-phm") == [(137_232, 85)]
    assert lines(axes, "efl") == [(355_000_000, 75)]
    assert lines(axes, "compacter") == [(152_576, pytest.approx((92.7 + 87.1) / 2))]  # the paper's: ours lacks RTE
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == "none"]
    assert len(hollow) == len(paper().blocks[1][None])
    assert sum(line.get_label().startswith(UNLABELLED) for line in hollow) == 2  # beside ours of the same row
    assert legend(axes) == list(paper().blocks[1][None])
    styles = [(line.get_color(), line.get_marker()) for line in hollow]
    assert len(set(styles)) == len(styles)
    by_name = {line[0]: line[1:] for line in found.table.lines}
    assert by_name["m-idpg-phm"] == ["137,232", "85.0", "134K", f"{(93.2 + 83.5) / 2:.1f}"]
    assert by_name["adapter"][:2] == ["1,622,784", "missing"]
    assert by_name["head-only"] == ["0", "55.0", "-", "-"]


def test_figure_3_bars_of_ours_and_the_paper(tmp_path):
    runs = [*scored("S-256-layer0", (80, 84)), *scored("L-16-previous", (90, 92)), made.run("M-256-layer0", "CR")]
    found = chart(tmp_path, 3, runs)
    (axes,) = axes_of(found)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["S", "M", "L"]
    bars = {bar.get_label(): [float(patch.get_height()) for patch in bar] for bar in axes.containers}
    assert bars["ours: m = 256, input: layer 0"] == [82]
    assert bars["ours: m = 16, input: previous layer"] == [91]
    assert bars["paper: m = 16, input: previous layer"] == [pytest.approx((93.6 + 83.6) / 2), pytest.approx(88.45)]
    assert len(bars["paper: m = 256, input: previous layer"]) == 3
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
    found = chart(tmp_path, 3, runs)
    assert found.table.lines == [["256", "layer 0", "ours", "82.0", "missing", "missing"]]
    assert legend(axes_of(found)[0]) == ["ours: m = 256, input: layer 0"]
    assert len(chart(tmp_path, 3, runs, Choice(beside_paper=True)).table.lines) > 3
    runs = scored("m-idpg-phm", (80, 90), command=made.MINILM, trainable=22_032)
    found = chart(tmp_path, 1, runs)
    assert found.table.header == ["method", "trainable", "Avg"]
    assert found.table.lines == [["m-idpg-phm", "22,032", "85.0"]]
    assert legend(axes_of(found)[0]) == ["m-idpg-phm"]
    assert chart(tmp_path, 1, runs, Choice(beside_paper=True)).table.header[-1] == "paper: Avg"


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


def test_figure_7_lines_through_the_best_place(tmp_path):
    table_1 = [made.run("adapter", "MR", prompt_length=None), made.run("prompt-tuning", "MR")]
    found = chart(tmp_path, 7, [*positions(), *table_1])
    downstream, supplementary = axes_of(found)
    single, pairs = "s-idpg-phm, single sentences", "s-idpg-phm, pairs"
    assert legend(downstream) == legend(supplementary) == [single, pairs]
    assert lines(downstream, single) == [(0, 60), (1, 61), (4, 64)]
    assert lines(downstream, pairs) == [(0, 90), (1, 91), (2, 92), (3, 93), (4, 94)]
    assert lines(supplementary, single) == [(0, 54), (1, 64), (4, 94)]
    assert lines(supplementary, pairs) == [(0, 50), (1, 60), (4, 90)]
    assert [line.get_linestyle() for line in downstream.lines] == ["-", "--"]
    assert list(downstream.get_xticks()) == [0, 1, 2, 3, 4] and list(supplementary.get_xticks()) == [0, 1, 4]
    assert downstream.get_title().startswith("(a) downstream") and supplementary.get_title().startswith("(b) suppl")


def test_equally_good_places_are_chosen_between_by_their_order(tmp_path):
    """Not by that of the records, which is the order in which runs ended."""
    runs = [{**run, "dev": 0.1 + 0.2 if run["position"] else 0.3} for run in positions() if run["task"] == "CR"]
    for number, given in enumerate((runs, runs[::-1])):
        downstream, supplementary = axes_of(chart(tmp_path / str(number), 7, given))
        assert lines(downstream, "s-idpg-phm, single sentences") == [(0, 50), (1, 51), (4, 54)]
        assert lines(supplementary, "s-idpg-phm, single sentences") == [(0, 50), (1, 60), (4, 90)]


def test_figure_7_as_a_grid(tmp_path):
    runs = [run for run in positions() if (run["task"], run["position"]) != ("RTE", 3)]
    table = chart(tmp_path, 7, [*runs, made.run("prompt-tuning", "MR"), made.run("m", "RTE", position=3)]).table
    assert table.header == ["method", "tasks", "supplementary", *(f"position {p}" for p in (0, 1, 2, 4))]
    singles, pairs = table.groups
    assert [line[2] for line in pairs] == ["none", "0", "1", "4"]
    assert singles[1] == ["s-idpg-phm", "single sentences", "0", "50.0", "51.0", "-", "54.0"]
    assert pairs[3] == ["s-idpg-phm", "pairs", "4", "90.0", "91.0", "92.0", "94.0"]


def test_figure_7_without_supplementary_training(tmp_path):
    runs = [run for run in positions() if run["supplementary_position"] is None]
    downstream, supplementary = axes_of(chart(tmp_path, 7, runs))
    assert lines(downstream, "s-idpg-phm, single sentences") == [(0, 50), (1, 51), (4, 54)]
    assert [text.get_text() for text in supplementary.texts] == ["no such runs"]


def test_figure_7_says_which_tasks_each_mean_is_over(tmp_path):
    assert "scores: means of single sentences over CR, of pairs over RTE; a row without one of them is missing" in (
        chart(tmp_path / "both", 7, positions()).table.notes
    )
    singles = [run for run in positions() if run["task"] == "CR"]
    assert "scores: means over CR; a row without one of them is missing" in chart(tmp_path, 7, singles).table.notes


def test_a_place_without_one_of_the_tasks_is_missing(tmp_path):
    runs = [made.run("a", task, position=p, test=p) for task, p in (("CR", 0), ("CR", 1), ("MR", 0), ("MR", 4))]
    found = chart(tmp_path, 7, runs)
    assert found.table.lines == [["a", "single sentences", "none", "0.0", "missing", "missing"]]
    assert lines(axes_of(found)[0], "a, single sentences") == [(0, 0)]
    assert chart(tmp_path, 7, runs, Choice(tasks=("CR",))).table.lines[0][3:] == ["0.0", "1.0"]


def test_figure_9_score_against_length(tmp_path):
    runs = [run for t in (1, 5, 20) for run in scored("m-idpg-phm", (80 + t, 60 + t), prompt_length=t)]
    runs += [run for t in (5, 10) for run in scored("prompt-tuning", (70, 60), prompt_length=t)]
    runs += [made.run("p-tuning-v2", "MR"), made.run("prompt-tuning-134", "CR", prompt_length=134)]
    found = chart(tmp_path, 9, runs)
    (axes,) = axes_of(found)
    assert lines(axes, "m-idpg-phm") == [(1, 71), (5, 75), (20, 90)]
    assert lines(axes, "prompt-tuning") == [(5, 65), (10, 65)]
    assert legend(axes) == ["m-idpg-phm", "prompt-tuning"]
    assert axes.get_xlabel() == "prompt length (rows)" and list(axes.get_xticks()) == [1, 5, 10, 20]
    assert found.table.lines == [
        ["m-idpg-phm", "71.0", "75.0", "missing", "90.0"],
        ["prompt-tuning", "missing", "65.0", "65.0", "missing"],
    ]


def test_figure_9_of_few_shot_runs(tmp_path):
    few = {"setting": "few-shot", "k": 100}
    runs = [run for t in (1, 5) for run in scored("m-idpg-phm", (t, t), prompt_length=t, **few)]
    assert chart(tmp_path, 9, runs, Choice(k=100)).table.lines == [["m-idpg-phm", "1.0", "5.0"]]
    with pytest.raises(InputError, match="no finished full run"):
        chart(tmp_path, 9, runs)


def of_two_seeds(row, **more):
    """Means over CR and MR of 70 and 72: less apart than the scores of either."""
    scores = (("CR", 1, 80), ("CR", 2, 70), ("MR", 1, 60), ("MR", 2, 74))
    return [made.run(row, task, seed, test=test, **more) for task, seed, test in scores]


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
    runs = [run for each in more for run in of_two_seeds(row, **each)]
    cells = sum(chart(tmp_path, number, runs).table.lines, [])
    assert cells.count("71.0±1.4") == len(more)
    other_seeds = [run for run in runs if (run["task"], run["seed"]) != ("MR", 2)]
    assert not any("±" in cell for cell in sum(chart(tmp_path, number, other_seeds).table.lines, []))


@pytest.mark.parametrize("number, what", [(7, "position or supplementary position"), (9, "prompt length")])
def test_a_sweep_that_was_not_run(tmp_path, number, what):
    with pytest.raises(InputError, match=f"more than one {what}: run a sweep"):
        chart(tmp_path, number, scored("m-idpg-phm", (1, 2)))


@pytest.mark.parametrize("number, rows", [(1, ("efl", "adapter")), (3, ("S-256-layer0", "M-256-layer0"))])
def test_rows_that_were_run_on_different_tasks(tmp_path, counted, number, rows):
    runs = [made.run(row, task) for row, task in zip(rows, TASKS)]
    with pytest.raises(InputError, match="no row has runs of all of CR, RTE: name fewer with --tasks"):
        chart(tmp_path, number, runs)


def test_colours_and_markers_tell_all_rows_apart():
    rows = len(paper().blocks[1][None]) + 20
    assert len({(i % len(COLOURS), i % len(MARKERS)) for i in range(rows)}) == rows
    assert len({to_hex(colour) for colour in COLOURS}) == len(COLOURS)
