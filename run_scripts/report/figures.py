"""Figures 1, 3, 7 and 9, those of other papers, and dev scores over the updates."""

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from statistics import mean

from preprocess.drawing import Panel, Point, Series
from preprocess.errors import InputError

from .choice import DIGITS, Choice, RowScores, Scope, Score, take_runs
from .costs import trainable_counts
from .notes import in_one_line, protocol, score_note, settings_note, warnings
from .paper import Block, Compared, paper, papers
from .records import PAIRS, POSITIONS, PROMPT, Results, grouped, is_prompted, kind_of
from .render import MISSING, NOTHING, Chart, Table, score_text, signed_difference
from .scores import mean_over, mean_test, std_of_mean
from .tables import CHOSEN_BY, LEFT_OUT, belongs_to, find_runs

SHARING = ("S", "M", "L")
INPUTS = {"layer0": "layer 0", "previous": "previous layer"}
TEST = "mean test score (x100)"
BARS = "error bars: the sample standard deviation over seeds of the mean over tasks; where seeds differ, there are none"


def tasks_of(scope: Scope, choice: Choice) -> tuple[str, ...]:
    """Return --tasks, or all tasks with runs."""
    there = {run["task"] for run in scope.done}
    return choice.tasks or tuple(task for task in choice.shown_tasks if task in there)


def refuse_empty(results: Results, tasks: Collection[str], scores: Iterable[float | None]) -> None:
    if all(score is None for score in scores):
        raise InputError(f"{results.place}: no row has runs of all of {', '.join(tasks)}: name fewer with --tasks")


def average_text(row: RowScores, tasks: Collection[str]) -> str:
    """Return the mean of the test scores, and its deviation over the seeds."""
    return score_text(mean_test(row, tasks), std_of_mean(row, tasks))


def axis_label(tasks: Sequence[str]) -> str:
    return f"mean {f'score on {len(tasks)} tasks' if len(tasks) > 1 else f'test score on {tasks[0]}'} (x100)"


def known_points(places: Iterable[float], rows: Iterable[RowScores], tasks: Collection[str]) -> list[Point]:
    """Return the means over tasks that are known, with their deviations over the seeds."""
    found = ((place, mean_test(row, tasks), std_of_mean(row, tasks)) for place, row in zip(places, rows))
    return [Point(place, score, std) for place, score, std in found if score is not None]


def caption(choice: Choice) -> list[str]:
    """Return what the caption says besides the notes: K, and what error bars are."""
    return [*([f"K = {choice.k}"] if choice.k else []), BARS]


def average_notes(scope: Scope, tasks: Collection[str], of_kinds: bool = False) -> list[str]:
    """Return the first lines under a figure; ``of_kinds``: each mean is over the tasks of one kind."""
    means = {f" of {kind}": [task for task in tasks if kind_of(task) == kind] for kind in POSITIONS}
    if not of_kinds or not all(means.values()):
        means = {"": list(tasks)}
    over = ",".join(f"{kind} over {', '.join(named)}" for kind, named in means.items())
    means_note = f"scores: means{over}; a row without one of them is missing"
    return [score_note(scope), means_note, *figure_warnings(scope)]


def figure_warnings(scope: Scope, more: Iterable[str] = ()) -> list[str]:
    return in_one_line([*more, *warnings(scope, scope.rows("k", "row", *PROMPT), "fewer seeds:")])


def find_rows(
    number: int, results: Results, choice: Choice
) -> tuple[Scope, dict[str, RowScores], tuple[str, ...], Block | None]:
    """Return runs, scores by row, tasks, and the paper's rows; None instead of these where they are not drawn."""
    scope = take_runs(results, choice, wants=belongs_to(number), printed=paper().blocks[number][None])
    rows, tasks = scope.rows("row"), tasks_of(scope, choice)
    refuse_empty(results, tasks, (mean_test(row, tasks) for row in rows.values()))
    blocks = paper().blocks[3 if number == 1 and choice.k else number]
    return scope, rows, tasks, blocks.get(choice.k, {}) if scope.stands_beside_paper(choice) else None


def parameter_chart(results: Results, choice: Choice) -> Chart:
    """Return Figure 1: average score against trainable parameters."""
    _, _, counts = trainable_counts(results, choice)
    scope, ours, tasks, block = find_rows(1, results, choice)
    series, lines = [], []
    for style, name in enumerate(choice.pick([*(block or ()), *ours])):
        row, (trainable, _) = ours.get(name, {}), counts.get(name, (None, ""))
        theirs = (None if block is None else paper().printed_count(name)) or {}
        papers = block[name].average(tasks, paper().tasks) if block and name in block else None
        # A logarithmic axis cannot show 0 parameters.
        mine = known_points([trainable], [row], tasks) if trainable else []
        printed = [Point(theirs["parameters"], papers)] if papers is not None and theirs.get("parameters") else []
        series += [Series(name, mine, style), Series("" if mine else name, printed, style, of_paper=True)]
        cells = [MISSING if trainable is None else f"{trainable:,}", average_text(row, tasks)]
        of_paper = [theirs.get("printed", NOTHING), score_text(papers, unknown=NOTHING)]
        lines.append([[name, *cells, *([] if block is None else of_paper)]])
    header = ["method", "trainable", "Avg", *([] if block is None else ["paper: trainable", "paper: Avg"])]
    markers = "" if block is None else "filled: ours; hollow: the paper's, of RoBERTa-large; "
    said = f"{markers}heads not counted; 0 is not drawn"
    more = [*([LEFT_OUT] if block is None else []), said, *protocol(scope, tasks)]
    title = "Figure 1: average score against trainable parameters"
    panel = Panel("", "trainable parameters without the head (log scale)", axis_label(tasks), series, log=True)
    table = Table(title, 1, header, lines, average_notes(scope, tasks), more)
    return Chart([panel], table, [*caption(choice), said])


def generator_chart(results: Results, choice: Choice) -> Chart:
    """Return Figure 3: S, M and L generators, fed by layer 0 or by the previous layer."""
    scope, ours, tasks, block = find_rows(6, results, choice)
    variants = dict.fromkeys(tuple(row.split("-")[1:]) for row in choice.pick([*(block or ()), *ours]))
    series, groups = [], []
    for style, (size, source) in enumerate(variants):
        names = [f"{sharing}-{size}-{source}" for sharing in SHARING]
        rows = [ours.get(name, {}) for name in names]
        papers = [block[name].average(tasks, paper().tasks) if block and name in block else None for name in names]
        label = f"m = {size}, input: {INPUTS[source]}"
        printed = [Point(place, score) for place, score in enumerate(papers) if score is not None]
        series.append(Series(f"{'ours: ' * bool(block)}{label}", known_points(range(3), rows, tasks), style))
        series.append(Series(f"paper: {label}", printed, style, of_paper=True))
        lines = {"ours": [average_text(row, tasks) for row in rows]}
        if block is not None:
            lines["paper"] = [score_text(score, unknown=NOTHING) for score in papers]
            lines["difference"] = [signed_difference(mean_test(row, tasks), of) for row, of in zip(rows, papers)]
        groups.append([[size, INPUTS[source], name, *cells] for name, cells in lines.items()])
    title = "Figure 3: multi-layer generators that share weights and bias (S), weights (M) or nothing (L)"
    more = [*([LEFT_OUT] if block is None else []), *protocol(scope, tasks)]
    table = Table(title, 3, ["m", "input", "values", *SHARING], groups, average_notes(scope, tasks), more)
    panel = Panel("", "sharing over layers", axis_label(tasks), series, groups=SHARING)
    return Chart([panel], table, caption(choice))


def take_varying(results: Results, choice: Choice, *free: str) -> Scope:
    """Return the runs with prompts that differ in one of the dimensions ``free`` within a row and task."""
    scope = take_runs(results, choice, None, free, is_prompted)
    cell = itemgetter("row", "task")
    cells = grouped(scope.done, cell).items()
    vary = {name for name, runs in cells if len({tuple(run[key] for key in free) for run in runs}) > 1}
    if not vary:
        what, had = free[0].replace("_", " "), ", ".join(sorted({str(run[free[0]]) for run in scope.done}))
        need = f"the figure compares two or more {what}s of the same row and task, and each has one ({had})"
        raise InputError(f"{results.place}: {need}: give more under {free[0]}s in the sweep's YAML, and run it again")
    done, failed = ([run for run in runs if cell(run) in vary] for runs in (scope.done, scope.failed))
    return Scope(done, failed, scope.asked)


def length_chart(results: Results, choice: Choice) -> Chart:
    """Return Figure 9: average score against prompt length, for rows with more than one length."""
    scope = take_varying(results, choice, "prompt_length")
    ours, tasks = scope.rows("row", "prompt_length"), tasks_of(scope, choice)
    refuse_empty(results, tasks, (mean_test(row, tasks) for row in ours.values()))
    lengths = sorted({length for _, length in ours})
    series, lines = [], []
    for style, name in enumerate(choice.pick(name for name, _ in ours)):
        rows = [ours.get((name, length), {}) for length in lengths]
        series.append(Series(name, known_points(lengths, rows, tasks), style))
        lines.append([[name, *(average_text(row, tasks) for row in rows)]])
    header, notes, more = ["method", *map(str, lengths)], average_notes(scope, tasks), protocol(scope, tasks)
    table = Table("Figure 9: impact of prompt length", 1, header, lines, notes, more)
    panel = Panel("", "prompt length (rows)", axis_label(tasks), series, whole=True)
    return Chart([panel], table, caption(choice))


KINDS = "solid: single sentences; dashed: pairs"
HELD = "(a) holds the supplementary and (b) the downstream position at the place with the best mean dev score"
Place = tuple[int, int]  # positions in supplementary training and in the task
ABSENT = -1  # the first where there was no such training


def position_chart(results: Results, choice: Choice) -> Chart:
    """Return Figure 7: a line for each row with prompts and kind of tasks; the table has the whole grid."""
    scope = take_varying(results, choice, "position", "supplementary_position")
    choice.pick(run["row"] for run in scope.done)
    tasks = tasks_of(scope, choice)
    grids: dict[tuple[str, str], dict[Place, RowScores]] = {}
    scores = scope.rows("row", "supplementary_position", "position")
    for kind, ((row, *place), of_place) in itertools.product(POSITIONS, scores.items()):
        if any(kind_of(task) == kind for task in of_place):
            grids.setdefault((row, kind), {})[(ABSENT if place[0] is None else place[0], place[1])] = of_place
    of_kind = {kind: [task for task in tasks if kind_of(task) == kind] for kind in POSITIONS}
    scored = [(row, of_kind[kind]) for (_, kind), grid in grids.items() for row in grid.values()]
    refuse_empty(results, tasks, (mean_test(*each) for each in scored))
    rows = list(dict.fromkeys(row for row, _ in grids))
    panels = []
    for title, axis in (("(a) downstream tasks", 1), ("(b) supplementary training", 0)):
        series = [
            Series(f"{row}, {kind}", _through_best(grid, of_kind[kind], axis), rows.index(row), dashed=kind == PAIRS)
            for (row, kind), grid in grids.items()
        ]
        panels.append(Panel(title, f"prompt position, {title[4:]}", TEST, series, whole=True))
    downstream = sorted({place[1] for grid in grids.values() for place in grid})
    groups = []
    for (row, kind), grid in grids.items():
        lines = []
        for supplementary in dict.fromkeys(place[0] for place in sorted(grid)):
            texts = {at: average_text(grid.get((supplementary, at), {}), of_kind[kind]) for at in POSITIONS[kind]}
            cells = [texts.get(at, NOTHING) for at in downstream]
            lines.append([row, kind, "none" if supplementary == ABSENT else str(supplementary), *cells])
        groups.append(lines)
    header = ["method", "tasks", "supplementary", *(f"position {position}" for position in downstream)]
    notes, more = average_notes(scope, tasks, of_kinds=True), [f"{KINDS}; {HELD}", *protocol(scope, tasks)]
    table = Table("Figure 7: impact of the prompt's position", 3, header, groups, notes, more)
    said = [*caption(choice), *([KINDS] if all(of_kind.values()) else []), *([HELD] if panels[1].series else [])]
    return Chart(panels, table, said, sharey=True)


def _through_best(grid: Mapping[Place, RowScores], tasks: Collection[str], axis: int) -> list[Point]:
    """Return (position, score) along an axis through the place with the best dev score; of equal ones, the first."""
    devs = {place: mean_over({task: score.dev for task, score in row.items()}, tasks) for place, row in grid.items()}
    known = {place: round(dev, DIGITS) for place, dev in devs.items() if dev is not None}
    best = min(known, key=lambda place: (-known[place], place), default=(ABSENT, ABSENT))
    through = {place[axis]: grid[place] for place in sorted(grid) if place[1 - axis] == best[1 - axis]}
    through.pop(ABSENT, None)
    return known_points(through, through.values(), tasks)


def series_chart(spec: Compared, results: Results, choice: Choice) -> Chart:
    """Return the scores of rows against the number in their names."""
    scope, rows, tasks, further_notes = find_runs(spec, results, choice)
    places = {place: name for name in choice.pick(rows) if (place := spec.parts(name)) is not None}
    numbers = sorted({number for _, number in places})
    panels, groups, means = [], [], []
    for over, of_panel in (spec.averages or {column: [column] for column in spec.columns}).items():
        columns = [column for column in of_panel if column in tasks]
        if not columns:
            continue
        series = []
        for style, line in enumerate(dict.fromkeys(line for line, _ in places)):
            of_line = [rows.get(places.get((line, number), ""), {}) for number in numbers]
            series.append(Series(line, known_points(numbers, of_line, columns), style))
            groups.append([[line, over, *(score_text(mean_test(row, columns)) for row in of_line)]])
        panels.append(Panel(over, spec.xlabel, TEST, series, whole=True))
        means += [f"{over}: mean of {', '.join(columns)}"] if spec.averages else []
    header, more = ["method", "task", *map(str, numbers)], [*means, spec.xlabel, *protocol(scope, (), "")]
    notes = [f"{settings_note(scope)}, {CHOSEN_BY}", *further_notes]
    table = Table(spec.heading, 2, header, groups, notes, more)
    return Chart(panels, table, [*means, BARS])


HEADER = ["task", "method", "lr", "first", "half", "best", "at update", "last", "updates"]
DEV_SCORES = (
    "scores: means over seeds {} of the score on the development set, x100: at the first validation, the one nearest "
    "to half of the updates, the best and the last; at the learning rate with the best mean dev score"
)
BEST = "the checkpoint of each run is that of its own best validation"
# A batch is limited in tokens, so that the epochs of two seeds may end at different updates.
SHARED = "a mean is over the validations that all seeds have after the same updates"


def curve_of(score: Score) -> list[Point]:
    """Return (updates, mean over seeds) at the validations that all seeds share."""
    curves = [dict(run.get("dev_curve") or ()) for run in score.runs]
    shared = set.intersection(*map(set, curves))
    return [Point(updates, mean(curve[updates] for curve in curves)) for updates in sorted(shared)]


def curve_chart(results: Results, choice: Choice) -> Chart:
    """Return a panel for each task with a line for each row; the table shows whether training was long enough."""
    scope = take_runs(results, choice)
    rows, tasks = scope.rows("row"), tasks_of(scope, choice)
    names = choice.pick(rows)
    if not any(curve_of(score) for row in rows.values() for score in row.values()):
        raise InputError(f"{results.place}: its records do not say the dev score over the updates: sweep again")
    panels, groups = [], []
    for task in tasks:
        curves = {name: curve_of(rows[name][task]) if task in rows[name] else [] for name in names}
        series = [Series(name, curve, style) for style, (name, curve) in enumerate(curves.items())]
        panels.append(Panel(task, "updates", "mean dev score (x100)", series))
        groups.append([[task, name, *_curve_cells(rows[name].get(task), curve)] for name, curve in curves.items()])
    how = DEV_SCORES.format(", ".join(map(str, scope.seeds)))
    silent = [f"{name} on {task}" for name, row in rows.items() for task, score in row.items() if not curve_of(score)]
    unknown = [f"no line, as validations are not on record or at other updates for each seed: {'; '.join(silent)}"]
    notes, more = [how, BEST, *figure_warnings(scope, unknown if silent else ())], [SHARED, *protocol(scope, tasks)]
    table = Table("Dev scores over the updates", 2, HEADER, groups, notes, more)
    return Chart(panels, table, caption(choice)[:-1])


def _curve_cells(score: Score | None, curve: list[Point]) -> list[str]:
    """Return the cells from the learning rate on."""
    if score is None or not curve:
        return [MISSING] * (len(HEADER) - 2)
    last, end, _ = curve[-1]
    at, best, _ = max(curve, key=lambda point: (round(point[1], DIGITS), -point[0]))
    _, half, _ = min(curve, key=lambda point: abs(point[0] - last / 2))
    return [f"{score.lr:g}", *map(score_text, (curve[0][1], half, best)), f"{at:,}", score_text(end), f"{last:,}"]


FIGURES: dict[int | str, Callable[[Results, Choice], Chart]] = {
    1: parameter_chart,
    3: generator_chart,
    7: position_chart,
    9: length_chart,
    "curves": curve_chart,
    **{name: partial(series_chart, spec) for name, spec in papers().figures.items()},
}
