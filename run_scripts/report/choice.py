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

# --- the options -----------------------------------------------------------------------------------


def add_choice_options(group: Any) -> None:
    """Add the options of a ``Choice`` that reports and submissions share to a group of a parser."""
    add, places = group.add_argument, POSITIONS[PAIRS]
    several: dict[str, Any] = {"nargs": "+", "action": "extend"}
    add("--selection", choices=SELECTIONS, help="the examples that chose their checkpoints, see a task's script")
    add("--backbone", **several, metavar="NAME", help="end of its path, or beginning of its SHA-256")
    of_kinds = "of the prompt: one for all tasks, or one for single sentences and one for pairs"
    add("--position", **several, type=int, choices=places, metavar="P", help=of_kinds)
    in_training = "of the prompt in supplementary training, or none"
    add("--supplementary-position", choices=["none", *map(str, places)], metavar="P", help=in_training)


@dataclass(frozen=True)
class Choice:
    """The runs that a command line asks for; None or () where it does not say."""

    tasks: tuple[str, ...] = ()  # in the order of the columns; default: the paper's ten
    rows: tuple[str, ...] = ()  # default: the paper's, and others with runs
    selection: str | None = None
    backbone: tuple[str, ...] = ()  # beginnings of SHA-256 fingerprints, or ends of paths
    position: tuple[int, ...] = ()  # in the task: one for all, or one for single sentences and one for pairs
    supplementary_position: str | None = None  # in supplementary training, or "none"
    prompt_length: int | None = None  # for rows with runs of several
    seeds: tuple[int, ...] = ()  # default: all
    k: int | None = None  # few-shot runs with K examples, where the default is full training; Table 3: only this K
    paper: bool = False  # the paper's values even beside another backbone

    def __post_init__(self) -> None:
        if len(self.position) > 2:
            given = " ".join(map(str, self.position))
            raise InputError(f"--position {given}: give one position, or one for single sentences and one for pairs")

    @classmethod
    def of(cls, args: argparse.Namespace, **chosen: Any) -> Choice:
        """Return the choice of a command line; ``chosen`` replaces options."""
        given: dict[str, Any] = {each.name: getattr(args, each.name, None) for each in fields(cls)} | chosen
        given |= {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
        return cls(**{name: value for name, value in given.items() if value is not None})

    @property
    def shown_tasks(self) -> tuple[str, ...]:
        return self.tasks or paper().tasks

    def shows(self, row: str) -> bool:
        return not self.rows or row in self.rows

    def pick(self, rows: Iterable[str]) -> list[str]:
        """Return those of ``rows`` that are shown; raise InputError where one of --rows is not among them."""
        known = list(dict.fromkeys(rows))
        for name in self.rows:
            check_row("--rows", name, known)
        return list(filter(self.shows, known))

    def accepts(self, run: Run, prompted: bool = False) -> bool:
        """Return whether a run agrees; options of prompts are for runs with one, by their record or ``prompted``."""
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
        """The filters as the command line has them, for messages."""
        filters = (each.name for each in fields(self) if each.name not in ("prompt_length", "k", "paper"))
        given = {flag_name(name): value for name in filters if (value := getattr(self, name))}
        lists = {name: [value] if isinstance(value, str) else map(str, value) for name, value in given.items()}
        return " with " * bool(given) + ", ".join(f"{name} {' '.join(texts)}" for name, texts in lists.items())


def check_row(option: str, name: str, rows: Collection[str]) -> None:
    if name not in rows:
        raise InputError(f"{option} {name}: {did_you_mean(name, rows)}choose from the rows {', '.join(rows)}")


def asked_columns(columns: Iterable[str], choice: Choice) -> tuple[str, ...]:
    """Return the columns whose task, or both tasks, stand in --tasks."""
    shown = tuple(name for name in columns if not choice.tasks or {*name.split(ARROW)} <= {*choice.tasks})
    if not shown:
        raise InputError(f"--tasks {' '.join(choice.tasks)}: choose from the columns {', '.join(columns)}")
    return shown


def only_architecture(runs: Iterable[Run], results: Results) -> str | None:
    """Return the architecture of all runs, None without runs; raise InputError for several."""
    by_arch = grouped(runs, architecture)
    if len(by_arch) > 1:
        named = "; ".join(f"{arch}: {', '.join(sorted(set(map(backbone_label, of))))}" for arch, of in by_arch.items())
        raise InputError(f"{results.place} has runs of more than one architecture ({named}): give --backbone")
    return next(iter(by_arch), None)


def _is_of_backbone(run: Run, name: str) -> bool:
    end = Path(name).parts
    sha256, path = fingerprint(run), Path(run["backbone"]["path"])
    # A failed run without a fingerprint may be of any backbone; tables only count it.
    return not sha256 or sha256.startswith(name.lower()) or path.parts[-len(end) :] == end


# --- what runs of a table must have in common: one value of each dimension in each group ---------

DIMENSIONS = ("selection", "backbone", "prompt_length", "position", "supplementary_position")


def _group(key: str, choice: Choice, run: Run) -> str:
    """Return the name of the runs that must share one value of a dimension with this one."""
    row, setting, supplementary = run["row"], f"the {run['setting']} setting", run["supplementary_position"]
    if key == "position":
        return f"{row} on {kind_of(run['task'])}"
    if key != "backbone":
        return setting if key == "selection" else row
    if supplementary is not None:  # such training makes further backbones
        return f"{row} after supplementary training with position {supplementary}"
    return row if choice.backbone else setting


def fingerprint(run: Run) -> str:
    return run["backbone"]["sha256"]


def settle(runs: list[Run], choice: Choice, results: Results, keys: Collection[str]) -> list[Run]:
    """Return the runs with one value of each dimension of ``keys`` in each group; raise InputError for several."""
    for key in filter(keys.__contains__, DIMENSIONS):
        settled: list[Run] = []
        for name, group in grouped(runs, partial(_group, key, choice)).items():
            by_value = grouped(group, fingerprint if key == "backbone" else itemgetter(key))
            # Of several prompt lengths, --prompt-length or the paper's is taken.
            length = choice.prompt_length or paper().prompt_lengths.get(group[0]["row"])
            wanted = by_value.get(length) if key == "prompt_length" and length else None
            if len(by_value) > 1 and wanted is None:
                named = ["none" if value is None else str(value) for value in by_value]
                named = [backbone_label(of[0]) for of in by_value.values()] if key == "backbone" else named
                what = f"{name} has runs with more than one {key.replace('_', ' ')}: {', '.join(sorted(named))}"
                raise InputError(f"{results.place}: {what}; give {flag_name(key)}")
            settled += wanted or group
        runs = settled
    return runs


# --- what runs of one cell must have in common ---------------------------------------------------

# Options that change no result.
PLACES = ("data", "save_dir", "representation_cache", "state_cache")
SAME_RESULT = set(map(flag_name, (*PLACES, "cpu", "update_freq", "num_workers", "log_interval", "log_format")))
CHOSEN = ("dev_examples", "batch_size", "max_epoch", "max_update", "warm_up")  # None: as in the paper
STARTS = ("supplementary", "init_prompts_from", "init_head_from")  # files, which may have moved: two that are set agree
LENGTH = "--prompt-length"
TESTED = "tested_sha256"  # of the data of another task, which a model answered without training on it
KNOWN_LATER = {"method": "method", "read_sha256": "data", TESTED: "tested data"}  # old records have none


def check_alike(runs: Collection[Run], results: Results) -> None:
    """Raise InputError for finished runs of different settings in one table or cell, and for one that stands twice."""
    if len(protocols := sorted(set(map(_protocol, runs)))) > 1:
        versions = " and ".join(map(str, protocols))
        raise InputError(f"{results.place} has runs of protocol {versions}: sweep those below {protocols[-1]} again")
    for cell in grouped(runs, itemgetter("row", "task", "k", *PROMPT)).values():
        seen: dict[tuple[float, int], Run] = {}
        for run in cell:
            twin = seen.setdefault((run["lr"], run["seed"]), run)
            other = cell[0] if twin is run else twin
            if found := _differences(other, run) or ["nothing but their names"] * (twin is not run):
                both = f"runs {other['run']} and {run['run']} are both {cell_label(run)}"
                remedy = "remove the lines of one kind, or sweep it as another row"
                raise InputError(f"{results.place}: {both}, and differ in {', '.join(found)}: {remedy}")


def _protocol(run: Run) -> int:
    return run.get("protocol") or 1  # the first records have none


def _differences(one: Run, other: Run, *ignored: str) -> list[str]:
    """Return the settings in which two runs of a cell differ, without ``ignored`` options."""
    differences = []
    for name in (*CHOSEN, *STARTS, *KNOWN_LATER):
        a, b = one.get(name), other.get(name)
        if bool(a) != bool(b) if name in STARTS else a != b and not (name in KNOWN_LATER and None in (a, b)):
            named = KNOWN_LATER.get(name, name.replace("_", " "))
            differences.append(f"{named} {str(a)[:16]} and {str(b)[:16]}")
    if None in (one.get("given_options"), other.get("given_options")):
        return differences
    differing = {*asked_options(one).items()} ^ {*asked_options(other).items()}
    shown = {f"{name} {value}".strip() for name, value in differing if name not in SAME_RESULT | {*ignored}}
    return [*differences, *sorted(shown)]


def still_failed(failed: Iterable[Run], done: Iterable[Run]) -> list[Run]:
    """Return the failed runs that a table lacks: no finished run of their kind has the same rate and seed."""
    cells = grouped(done, _cell)
    missing = []
    for run in failed:
        alike = [other for other in cells.get(_cell(run), ()) if is_variant(run, other)]
        repeated = any((run["lr"], run["seed"]) == (other["lr"], other["seed"]) for other in alike)
        if _cell(run) not in cells or (alike and not repeated):
            missing.append(run)
    return missing


def _cell(run: Run) -> tuple[Any, ...]:
    return tuple(map(run.get, ("row", "task", "k", "selection", "position", "supplementary_position")))


def is_variant(failed: Run, done: Run) -> bool:
    """Return whether a failed run belongs to the cell of a finished one, and has the same settings as far as known."""
    return (
        _cell(failed) == _cell(done)
        and _protocol(failed) == _protocol(done)
        and fingerprint(failed) in ("", fingerprint(done))
        and failed.get("prompt_length") in (None, done["prompt_length"])
        and not _differences(failed, done, *([LENGTH] if is_prompted(failed) else []))
    )


# --- the learning rate that dev chooses ----------------------------------------------------------

DIGITS = 6  # of a mean: equal dev scores stay equal whatever the order in which floats were added


@dataclass(frozen=True)
class Score:
    """Finished runs at the chosen learning rate, one for each seed; ``others``: those at rates with other seeds."""

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
        """Mean over the seeds, x100."""
        return mean(run["test"] for run in self.runs)

    @property
    def std(self) -> float | None:
        """Sample standard deviation of the test scores over the seeds, x100; None for a single seed."""
        return stdev(run["test"] for run in self.runs) if len(self.runs) > 1 else None

    def dev_on(self, seeds: Collection[int]) -> float:
        """Return the mean over some of the seeds, by which rates are compared."""
        return round(mean(run["dev"] for run in self.runs if run["seed"] in seeds), DIGITS)

    def compared_on(self, other: Score) -> list[int]:
        """Return the seeds on which one of ``others`` was compared with this rate; rates with as many, all at once."""
        equal = [rate for rate in self.others if len(rate.seeds) == len(self.seeds)]
        return sorted(set(self.seeds).intersection(other.seeds, *(rate.seeds for rate in equal if other in equal)))


RowScores = Mapping[str, Score]  # by task


def choose(runs: Iterable[Run], failed: Iterable[Run] = ()) -> Score | None:
    """Return the score of runs that differ in learning rate and seed alone.

    The best mean dev score decides; of equal ones, the smaller rate. A rate at which one of the ``failed`` runs has
    diverged, or lacked memory, is out; None where no rate is left. Only the rates with the most seeds are compared, on
    the seeds that all of them have, if any: one lucky seed of an unfinished sweep must not win.
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
    """The runs of a table; ``asked``: --seeds."""

    done: Sequence[Run]
    failed: Sequence[Run] = ()
    asked: tuple[int, ...] = ()

    @property
    def seeds(self) -> list[int]:
        """Those of the runs and of --seeds: a table marks a score that lacks one of them."""
        return sorted({*self.asked, *(run["seed"] for run in (*self.done, *self.failed))})

    def stands_beside_paper(self, choice: Choice) -> bool:
        """Return whether the paper's values belong beside these runs: of its backbone, or by --paper."""
        return choice.paper or all(architecture(run) == PAPER_ARCH for run in self.done)

    def rows(self, *keys: str) -> dict[Any, RowScores]:
        """Return scores: value of one key, or values of several -> task -> score."""
        found: dict[Any, RowScores] = {}
        for name, of_row in grouped(self.done, itemgetter(*keys)).items():
            cells = {task: choose(of, self.failed) for task, of in grouped(of_row, itemgetter("task")).items()}
            found[name] = {task: score for task, score in cells.items() if score is not None}
        return found


def take_runs(
    results: Results,
    choice: Choice,
    ks: Collection[int | None] | None = None,
    free: Collection[str] = (),
    wants: Callable[[Run], bool] = lambda run: True,
    printed: Iterable[str] = (),
) -> Scope:
    """Return the chosen runs that a table wants; raise InputError where none is left.

    Args:
        ks: numbers of training examples, None for full training; without them, --k.
        free: dimensions that may vary within a row.
        printed: rows that the table has even without runs.
    """
    ks = (choice.k,) if ks is None else ks
    there = [run for run in results.runs if wants(run) and run["k"] in ks]
    done = [run for run in there if has_finished(run) and choice.accepts(run)]
    if there:
        choice.pick([*printed, *(run["row"] for run in there)])  # refuses an unknown row of --rows
    if not done:
        name = "full run" if None in ks else f"few-shot run with K = {', '.join(map(str, ks))}"
        finished = list(filter(has_finished, results.runs))
        tasks = ", ".join(dict.fromkeys(run["task"] for run in finished))
        kinds = ", ".join(f"--k {k}" if k else "full" for k in sorted({run["k"] or 0 for run in finished}))
        remedy = f"choose from its runs on {tasks} ({kinds})" if finished else "run it first"
        remedy += f"; python -m run_scripts.report {results.place} lists all runs"
        raise InputError(f"{results.place} holds no finished {name} for this{choice.with_options}: {remedy}")
    prompted = {run["row"] for run in results.runs if is_prompted(run)}
    failed = [run for run in there if not has_finished(run) and choice.accepts(run, run["row"] in prompted)]
    done = settle(done, choice, results, {*DIMENSIONS}.difference(free))
    check_alike(done, results)
    return Scope(done, still_failed(failed, done), choice.seeds)
