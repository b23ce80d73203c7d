"""Which runs a table is made of: those that were asked for, may stand together, and have the best learning rate."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from preprocess.errors import InputError, did_you_mean
from preprocess.flags import flag_name

from ..run.experiment import ARROW, SELECTIONS
from .paper import PAPER_ARCH, paper
from .records import (
    PAIRS,
    POSITIONS,
    PROMPT,
    Results,
    Run,
    architecture,
    asked_options,
    backbone_label,
    cell_label,
    grouped,
    has_finished,
    is_hopeless,
    is_prompted,
    kind_of,
)

# --- what was asked for --------------------------------------------------------------------------


def add_choice_options(group: Any) -> None:
    """Add the options of a ``Choice`` that reports and submissions have in common to a group of a parser."""
    add, places = group.add_argument, POSITIONS[PAIRS]
    several: dict[str, Any] = {"nargs": "+", "action": "extend"}
    add("--selection", choices=SELECTIONS, help="what their checkpoints were chosen on, see a task's script")
    add("--backbone", **several, metavar="NAME", help="path or SHA-256 (or its end or beginning)")
    of_kinds = "of all tasks, or of singles and of pairs"
    add("--position", **several, type=int, choices=places, metavar="P", help=of_kinds)
    add("--supplementary-position", choices=["none", *map(str, places)], metavar="P", help="or none")


FILTERS = ("tasks", "rows", "seeds", "selection", "backbone", "position", "supplementary_position")


@dataclass(frozen=True)
class Choice:
    """What the command line says of the runs to take; None or () where nothing is said."""

    tasks: tuple[str, ...] = ()  # in the order of the columns; the paper's ten by default
    rows: tuple[str, ...] = ()  # by default the paper's, and whatever else has runs
    selection: str | None = None
    backbone: tuple[str, ...] = ()  # beginnings of SHA-256 fingerprints, or ends of paths
    position: tuple[int, ...] = ()  # downstream, for both kinds of tasks, or of single sentences and of pairs
    supplementary_position: str | None = None  # in supplementary training, or "none"
    prompt_length: int | None = None  # of rows with runs of several
    seeds: tuple[int, ...] = ()  # by default all, of which a row may have fewer than another
    k: int | None = None  # few-shot runs in figures that the paper draws of full training; of Table 3, this K alone
    paper: bool = False  # whether the paper's values are shown even beside another backbone's

    def __post_init__(self) -> None:
        if len(self.position) > 2:
            raise InputError(
                f"--position {' '.join(map(str, self.position))}: give one position, or one for singles and pairs"
            )

    @classmethod
    def of(cls, args: argparse.Namespace, **chosen: Any) -> Choice:
        """Return what the options of a command line say; ``chosen`` goes before them."""
        given = {each.name: getattr(args, each.name, None) for each in fields(cls)}
        lists = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
        return cls(**{**{name: value for name, value in lists.items() if value is not None}, **chosen})

    @property
    def shown_tasks(self) -> tuple[str, ...]:
        return self.tasks or paper().tasks

    def shows(self, row: str) -> bool:
        return not self.rows or row in self.rows

    def pick(self, rows: Iterable[str]) -> list[str]:
        """Return what is shown of the rows that there are. Raises InputError where one that was asked for is not."""
        there = list(dict.fromkeys(rows))
        for name in self.rows:
            check_row("--rows", name, there)
        return list(filter(self.shows, there))

    def accepts(self, run: Run, prompted: bool = False) -> bool:
        """Return whether a run agrees; options of prompts do not concern runs without prompts.

        ``prompted``: the run has a prompt, though it may not say so.
        """
        supplementary = "none" if run.get("supplementary_position") is None else str(run["supplementary_position"])
        place = self.position[-1 if kind_of(run["task"]) == PAIRS else 0] if self.position else run.get("position")
        as_asked = self.supplementary_position in (None, supplementary) and run.get("position") == place
        return (
            run["task"] in self.shown_tasks
            and self.shows(run["row"])
            and (not self.seeds or run["seed"] in self.seeds)
            and self.selection in (None, run["selection"])
            and (not self.backbone or any(_is_of_backbone(run, name) for name in self.backbone))
            and (as_asked or not (prompted or is_prompted(run)))
        )

    @property
    def with_options(self) -> str:
        """The filters as they stand on the command line, behind the words of a message."""
        found = {name: getattr(self, name) for name in FILTERS}
        words = {name: value if isinstance(value, tuple) else (value,) for name, value in found.items()}
        texts = [" ".join(map(str, (flag_name(name), *of))) for name, of in words.items() if of not in ((), (None,))]
        return f" with {', '.join(texts)}" if texts else ""


def check_row(option: str, name: str, rows: Collection[str]) -> None:
    """Refuse a row that is not among ``rows``; the nearest is suggested."""
    if name not in rows:
        raise InputError(f"{option} {name}: {did_you_mean(name, rows)}choose from the rows {', '.join(rows)}")


def asked_columns(columns: Iterable[str], choice: Choice) -> tuple[str, ...]:
    """Return the columns whose task, or both of whose tasks, were asked for."""
    found = tuple(name for name in columns if not choice.tasks or {*name.split(ARROW)} <= {*choice.tasks})
    if not found:
        raise InputError(f"--tasks {' '.join(choice.tasks)}: choose from the columns {', '.join(columns)}")
    return found


def only_architecture(runs: Iterable[Run], results: Results) -> str | None:
    """Return the architecture of all runs; None if there are none."""
    by_arch = grouped(runs, architecture)
    if len(by_arch) > 1:
        named = "; ".join(f"{arch}: {', '.join(sorted(set(map(backbone_label, of))))}" for arch, of in by_arch.items())
        raise InputError(f"{results.place} has runs of more than one architecture ({named}): give --backbone")
    return next(iter(by_arch), None)


def _is_of_backbone(run: Run, name: str) -> bool:
    """Return whether a name fits; a failed run whose fingerprint is not known may be of any, and is only counted."""
    end = Path(name).parts
    sha256, path = run["backbone"]["sha256"], Path(run["backbone"]["path"])
    return not sha256 or sha256.startswith(name.lower()) or path.parts[-len(end) :] == end


# --- what runs of a table must have in common: one value of each dimension in each group ---------

DIMENSIONS = ("selection", "backbone", "prompt_length", "position", "supplementary_position")


def _sharers(key: str, choice: Choice, run: Run) -> str:
    """Return what messages call the runs that share one value of a dimension with this one."""
    row, setting, supplementary = run["row"], f"the {run['setting']} setting", run["supplementary_position"]
    if key == "position":
        return f"{row} on {kind_of(run['task'])}"
    if key != "backbone":
        return setting if key == "selection" else row
    if supplementary is not None:  # such training makes backbones of its own
        return f"{row} after supplementary training with position {supplementary}"
    return row if choice.backbone else setting


def _value(key: str, run: Run) -> Any:
    return run["backbone"]["sha256"] if key == "backbone" else run[key]


def _label(key: str, run: Run) -> str:
    return backbone_label(run) if key == "backbone" else "none" if run[key] is None else str(run[key])


def settle(runs: list[Run], choice: Choice, results: Results, keys: Collection[str]) -> list[Run]:
    """Return the runs with one value of each named dimension in each of its groups; of prompt lengths the paper's.

    Raises InputError where a group has several values, and there is no choice among them.
    """
    for key in filter(keys.__contains__, DIMENSIONS):
        kept: list[Run] = []
        for name, group in grouped(runs, partial(_sharers, key, choice)).items():
            by_value = grouped(group, partial(_value, key))
            papers = choice.prompt_length or paper().prompt_lengths.get(group[0]["row"])
            wanted = by_value.get(papers) if key == "prompt_length" and papers else None
            if len(by_value) > 1 and wanted is None:
                values = ", ".join(sorted(_label(key, of_value[0]) for of_value in by_value.values()))
                what = f"{name} has runs with more than one {key.replace('_', ' ')}: {values}"
                raise InputError(f"{results.place}: {what}; give {flag_name(key)}")
            kept += wanted or group
        runs = kept
    return runs


# --- what runs of one cell must have in common ---------------------------------------------------

# options that differ between runs with the same result
PLACES = ("data", "save_dir", "representation_cache", "state_cache")
SAME_RESULT = set(map(flag_name, (*PLACES, "cpu", "update_freq", "num_workers", "log_interval", "log_format")))
CHOSEN = ("dev_examples", "batch_size", "max_epoch", "max_update", "warm_up")  # None: as the paper has it
STARTS = ("supplementary", "init_prompts_from", "init_head_from")  # their files may have moved
LENGTH = "--prompt-length"
CELL = ("row", "task", "k", "selection", "position", "supplementary_position")
TESTED = "tested_sha256"  # of the data of another task, which a model answered as it is
OF_ALL = {"method": "method", "read_sha256": "data", TESTED: "tested data"}  # what older records do not say -> its name


def check_alike(runs: Collection[Run], results: Results) -> None:
    """Raise InputError for two finished runs that cannot stand in one table.

    They were made with other versions of our settings, or those of one cell were trained in different ways, or differ
    in nothing that a table shows.
    """
    protocols = sorted(set(map(_protocol, runs)))
    if len(protocols) > 1:  # no mean is of runs from before and after a change of our settings
        raise InputError(
            f"{results.place} has runs made with different versions of the settings (protocol "
            f"{' and '.join(map(str, protocols))}): remove the lines of those below {protocols[-1]}, and sweep again"
        )
    for cell in grouped(runs, itemgetter("row", "task", "k", *PROMPT)).values():
        seen: dict[tuple[float, int], Run] = {}
        for run in cell:
            twin = seen.setdefault((run["lr"], run["seed"]), run)
            other = cell[0] if twin is run else twin
            if found := _other_settings(other, run) or ["nothing but their names"] * (twin is not run):
                raise InputError(
                    f"{results.place}: runs {other['run']} and {run['run']} are both {cell_label(run)}, and differ in "
                    f"{', '.join(found)}: remove the lines of one kind, or sweep one of them under another row's name"
                )


def _protocol(run: Run) -> int:
    """Return the version of the settings that this package gives; the first records have none."""
    return run.get("protocol") or 1


def _other_settings(one: Run, other: Run, *ignored: str) -> list[str]:
    """Return what two runs of a cell were trained with, and one of them otherwise, but for ``ignored`` options."""
    found = []
    for name in (*CHOSEN, *STARTS, *OF_ALL):
        ours, theirs, words = one.get(name), other.get(name), name.replace("_", " ")
        if name in CHOSEN and ours != theirs:
            found.append(f"{words} {ours} and {theirs}")
        elif name in STARTS and bool(ours) != bool(theirs):
            found.append(f"{words}, which one of them has")
        elif name in OF_ALL and None not in (ours, theirs) and ours != theirs:
            found.append(f"{OF_ALL[name]} {str(ours)[:16]} and {str(theirs)[:16]}")
    if None in (one.get("given_options"), other.get("given_options")):
        return found
    differing = {*asked_options(one).items()} ^ {*asked_options(other).items()}
    shown = {f"{name} {value}".strip() for name, value in differing if name not in SAME_RESULT | {*ignored}}
    return [*found, *sorted(shown)]


def still_failed(failed: Iterable[Run], done: Iterable[Run]) -> list[Run]:
    """Return the failed runs that are missing in a table.

    Their cell has no finished run, or has some that were trained alike, none at the same learning rate and seed.
    """
    cells = grouped(done, _cell)
    missing = []
    for run in failed:
        alike = [other for other in cells.get(_cell(run), ()) if is_variant(run, other)]
        repeated = any((run["lr"], run["seed"]) == (other["lr"], other["seed"]) for other in alike)
        if _cell(run) not in cells or (alike and not repeated):
            missing.append(run)
    return missing


def _cell(run: Run) -> tuple[Any, ...]:
    return tuple(map(run.get, CELL))


def is_variant(failed: Run, done: Run) -> bool:
    """Return whether a failed run is of the same table cell as a finished one, and was to be trained alike.

    A run that failed early does not know all of its settings; what it does not know may be those of the other.
    """
    return (
        _cell(failed) == _cell(done)
        and _protocol(failed) == _protocol(done)
        and failed["backbone"]["sha256"] in ("", done["backbone"]["sha256"])
        and failed.get("prompt_length") in (None, done["prompt_length"])
        and not _other_settings(failed, done, *([LENGTH] if is_prompted(failed) else []))
    )


# --- the learning rate that dev chooses ----------------------------------------------------------

DIGITS = 6  # of a mean: what floats add behind them must not tell equal dev scores apart


@dataclass(frozen=True)
class Score:
    """Finished runs at the chosen learning rate, a run for each seed, by seed.

    ``others``: those at rates that have other seeds, most often fewer.
    """

    runs: tuple[Run, ...]
    others: tuple[Score, ...] = ()

    @property
    def lr(self) -> float:
        return self.runs[0]["lr"]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run["seed"] for run in self.runs)

    @property
    def dev(self) -> float:
        return mean(run["dev"] for run in self.runs)

    @property
    def test(self) -> float:
        """Mean of the test scores over the seeds, x100."""
        return mean(run["test"] for run in self.runs)

    @property
    def std(self) -> float | None:
        """Sample standard deviation of the test scores over the seeds; None for a single one."""
        return stdev(run["test"] for run in self.runs) if len(self.runs) > 1 else None

    def dev_on(self, seeds: Collection[int]) -> float:
        """Return the mean over some of the seeds, as rates are compared by it."""
        return round(mean(run["dev"] for run in self.runs if run["seed"] in seeds), DIGITS)

    def compared_on(self, other: Score) -> list[int]:
        """Return the seeds on which the rate of one of ``others`` was compared with this one.

        Rates with as many seeds were compared on what all of them share; [] where that is nothing.
        """
        equal = [rate for rate in self.others if len(rate.seeds) == len(self.seeds)]
        return sorted(set(self.seeds).intersection(other.seeds, *(rate.seeds for rate in equal if other in equal)))


RowScores = Mapping[str, Score]  # by task


def choose(runs: Iterable[Run], failed: Iterable[Run] = ()) -> Score | None:
    """Return the score of runs that differ in learning rate and seed alone.

    The best mean dev decides, the smaller rate where two are equal. Only rates with as many seeds as any other are
    compared, on those that all of them have, if there is one: a mean over one lucky seed of an unfinished sweep must
    not win. A rate at which a seed has diverged, or found too little memory, is out, whatever its other seeds say; None
    where no other is left.
    """
    runs = list(runs)
    out = {run["lr"] for run in failed if is_hopeless(run) and is_variant(run, runs[0])}
    by_lr = grouped((run for run in runs if run["lr"] not in out), itemgetter("lr")).values()
    scores = [Score(tuple(sorted(group, key=itemgetter("seed")))) for group in by_lr]
    most = max((len(score.runs) for score in scores), default=0)
    rates = [score for score in scores if len(score.runs) == most]
    shared = {seed for score in rates for seed in score.seeds if all(seed in other.seeds for other in rates)}
    best = max(rates, key=lambda score: (score.dev_on(shared or score.seeds), -score.lr), default=None)
    return best and replace(best, others=tuple(score for score in scores if score.seeds != best.seeds))


# --- the runs of a table -------------------------------------------------------------------------


@dataclass(frozen=True)
class Scope:
    """The runs of a table; ``asked``: the seeds that were asked for."""

    done: Sequence[Run]
    failed: Sequence[Run] = ()
    asked: tuple[int, ...] = ()

    @property
    def seeds(self) -> list[int]:
        """Of the runs, and those that were asked for: a score without one of them says so."""
        return sorted({*self.asked, *(run["seed"] for run in (*self.done, *self.failed))})

    def stands_beside_paper(self, choice: Choice) -> bool:
        """Return whether the paper's values belong beside these runs: of its backbone, or asked for."""
        return choice.paper or all(architecture(run) == PAPER_ARCH for run in self.done)

    def rows(self, *keys: str) -> dict[Any, RowScores]:
        """Return the value of one key, or the values of several -> task -> score."""
        found: dict[Any, RowScores] = {}
        for name, of_row in grouped(self.done, itemgetter(*keys)).items():
            cells = {task: choose(of, self.failed) for task, of in grouped(of_row, itemgetter("task")).items()}
            found[name] = {task: score for task, score in cells.items() if score is not None}
        return found


def take_runs(
    results: Results,
    choice: Choice,
    ks: Collection[int | None] = (None,),
    free: Collection[str] = (),
    wants: Callable[[Run], bool] = lambda run: True,
) -> Scope:
    """Return the chosen runs with K of ``ks`` (None: full training) that are wanted.

    Dimensions named in ``free`` may vary within a row. Raises InputError where no run is left, and as ``settle`` and
    ``check_alike`` do.
    """
    there = [run for run in results.runs if run["k"] in ks and wants(run)]
    done = [run for run in there if has_finished(run) and choice.accepts(run)]
    if not done:
        name = "full run" if None in ks else f"few-shot run with K = {', '.join(map(str, ks))}"
        raise InputError(
            f"{results.place} holds no finished {name} for this{choice.with_options}: run it first; "
            f"python -m run_scripts.report {results.place} lists what is there"
        )
    prompted = {run["row"] for run in results.runs if is_prompted(run)}
    failed = [run for run in there if not has_finished(run) and choice.accepts(run, run["row"] in prompted)]
    done = settle(done, choice, results, {*DIMENSIONS}.difference(free))
    check_alike(done, results)
    return Scope(done, still_failed(failed, done), choice.seeds)
