"""Which of the runs a table is made of: those that were asked for, and that may be compared and averaged."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
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
    is_prompted,
    kind_of,
)

# --- what was asked for --------------------------------------------------------------------------


def position(text: str) -> int:
    if text not in map(str, POSITIONS[PAIRS]):
        raise argparse.ArgumentTypeError(f"{text} is unknown: choose from {', '.join(map(str, POSITIONS[PAIRS]))}")
    return int(text)


def position_or_none(text: str) -> int | str:
    return text if text == "none" else position(text)


def add_choice_options(group: Any) -> None:
    """The options of a ``Choice`` that reports and submissions have in common, to a group of a parser."""
    add = group.add_argument
    add("--selection", choices=SELECTIONS, help="what their checkpoints were chosen on, see a task's script")
    add("--backbone", nargs="+", action="extend", metavar="NAME", help="path or SHA-256 (or its end or beginning)")
    places = "of all tasks, or of singles and of pairs"
    add("--position", nargs="+", action="extend", type=position, metavar="P", help=places)
    add("--supplementary-position", type=position_or_none, metavar="P", help="or none")


FILTERS = ("tasks", "rows", "seeds", "selection", "backbone", "position", "supplementary_position")


@dataclass(frozen=True)
class Choice:
    """What the command line says of the runs to take; None or () where nothing is said.

    Attributes:
        tasks: in the order of the columns; the paper's ten by default.
        rows: by default the paper's, and whatever else has runs.
        backbone: beginnings of SHA-256 fingerprints, or ends of paths.
        position: downstream position for both kinds of tasks, or of single sentences and of pairs.
        supplementary_position: position in supplementary training, or "none".
        prompt_length: of rows with runs of several.
        seeds: by default all, of which a row may have fewer than another.
        k: examples of few-shot training, for figures that the paper draws of full training; of Table 3, this K alone.
        beside_paper: whether the paper's values are shown even beside another backbone's.
    """

    tasks: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    selection: str | None = None
    backbone: tuple[str, ...] = ()
    position: tuple[int, ...] = ()
    supplementary_position: int | str | None = None
    prompt_length: int | None = None
    seeds: tuple[int, ...] = ()
    k: int | None = None
    beside_paper: bool = False

    def __post_init__(self) -> None:
        if len(self.position) > 2:
            raise InputError(
                f"--position {' '.join(map(str, self.position))}: give one position, or one for singles and pairs"
            )

    @classmethod
    def of(cls, args: argparse.Namespace, **chosen: Any) -> Choice:
        """What the options of a command line say; ``chosen`` goes before them."""
        given = {each.name: getattr(args, each.name, None) for each in fields(cls)}
        lists = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
        return cls(**{**{name: value for name, value in lists.items() if value is not None}, **chosen})

    @property
    def shown_tasks(self) -> tuple[str, ...]:
        return self.tasks or paper().tasks

    def shows(self, row: str) -> bool:
        return not self.rows or row in self.rows

    def pick(self, rows: Iterable[str]) -> list[str]:
        """Return what is shown of the rows that there are.

        Raises:
            InputError: a row that was asked for is not among them.
        """
        there = list(dict.fromkeys(rows))
        for name in self.rows:
            check_row("--rows", name, there)
        return list(filter(self.shows, there))

    def accepts(self, run: Run, prompted: bool = False) -> bool:
        """Whether a run agrees; what is said of prompts says nothing about runs that have none.

        Args:
            prompted: the run has a prompt, though it may not say so.
        """
        agrees = (
            run["task"] in self.shown_tasks
            and self.shows(run["row"])
            and (not self.seeds or run["seed"] in self.seeds)
            and self.selection in (None, run["selection"])
            and (not self.backbone or any(_is_of_backbone(run, name) for name in self.backbone))
        )
        if not agrees or not (prompted or is_prompted(run)):
            return agrees
        supplementary = None if self.supplementary_position == "none" else self.supplementary_position
        if self.supplementary_position is not None and run.get("supplementary_position") != supplementary:
            return False
        single_or_pair = -1 if kind_of(run["task"]) == PAIRS else 0
        return not self.position or run.get("position") == self.position[single_or_pair]

    @property
    def with_options(self) -> str:
        """The filters as they stand on the command line, behind the words of a message."""
        texts = []
        for name in FILTERS:
            value = getattr(self, name)
            words = value if isinstance(value, tuple) else () if value is None else (value,)
            texts += [" ".join(map(str, (flag_name(name), *words)))] if words else []
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
    """A failed run whose fingerprint is not known may be of any: it is only counted."""
    end = Path(name).parts
    sha256, path = run["backbone"]["sha256"], Path(run["backbone"]["path"])
    return not sha256 or sha256.startswith(name.lower()) or path.parts[-len(end) :] == end


# --- what runs of a table must have in common: one value of each dimension in each group ---------


@dataclass(frozen=True)
class Dimension:
    """Something in which runs may differ, and within a group must not.

    Attributes:
        key: of a run; ``--key`` is the option that chooses.
        group: what the group is called in messages.
        wanted: the value to take where a group has several; None if there is no such wish.
        value: of a run, and ``label``: the same in messages; by default what stands at the key.
    """

    key: str
    group: Callable[[Run, Choice], str]
    wanted: Callable[[Run, Choice], Any] = lambda run, choice: None
    value: Callable[[Run], Any] | None = None
    label: Callable[[Run], str] | None = None

    def settle(self, runs: list[Run], choice: Choice, results: Results) -> list[Run]:
        """Return the runs with one value in each group."""
        found = []
        for name, group in grouped(runs, lambda run: self.group(run, choice)).items():
            by_value = grouped(group, self.value or (lambda run: run[self.key]))
            wanted = self.wanted(group[0], choice)
            if len(by_value) == 1:
                found += group
            elif wanted is not None and wanted in by_value:
                found += by_value[wanted]
            else:
                label = self.label or (lambda run: "none" if run[self.key] is None else str(run[self.key]))
                values = ", ".join(sorted(label(runs[0]) for runs in by_value.values()))
                what = f"{name} has runs with more than one {self.key.replace('_', ' ')}: {values}"
                raise InputError(f"{results.place}: {what}; give {flag_name(self.key)}")
        return found


def _setting(run: Run, choice: Choice) -> str:
    return f"the {run['setting']} setting"


def _row(run: Run, choice: Choice) -> str:
    return run["row"]


def _row_and_kind(run: Run, choice: Choice) -> str:
    return f"{run['row']} on {kind_of(run['task'])}"


def _sharers_of_backbone(run: Run, choice: Choice) -> str:
    """Everything, or a row where several are asked for; supplementary training makes backbones of its own."""
    position = run["supplementary_position"]
    if position is not None:
        return f"{run['row']} after supplementary training with position {position}"
    return run["row"] if choice.backbone else _setting(run, choice)


def _paper_length(run: Run, choice: Choice) -> int | None:
    return choice.prompt_length or paper().prompt_lengths.get(run["row"])


DIMENSIONS = (
    Dimension("selection", _setting),
    Dimension("backbone", _sharers_of_backbone, value=lambda run: run["backbone"]["sha256"], label=backbone_label),
    Dimension("prompt_length", _row, wanted=_paper_length),
    Dimension("position", _row_and_kind),
    Dimension("supplementary_position", _row),
)


def settle(runs: list[Run], choice: Choice, results: Results, keys: Collection[str]) -> list[Run]:
    """Return the runs with one value of each named dimension in each of its groups.

    Raises:
        InputError: a group has several, and there is no choice among them.
    """
    for dimension in DIMENSIONS:
        if dimension.key in keys:
            runs = dimension.settle(runs, choice, results)
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
FINGERPRINTS = ("read_sha256", "data_sha256")  # of what a run read of its data; of that and all word vectors there


def check_alike(runs: Collection[Run], results: Results) -> None:
    """Refuse finished runs that cannot stand in one table.

    Raises:
        InputError: two were made with other versions of our settings, or are of one cell and were trained in different
            ways, or differ in nothing that a table shows.
    """
    refuse_mixture(runs, results)
    for cell in grouped(runs, lambda run: tuple(run[key] for key in ("row", "task", "k", *PROMPT))).values():
        seen: dict[tuple[float, int], Run] = {}
        for run in cell:
            twin = seen.setdefault((run["lr"], run["seed"]), run)
            other = cell[0] if twin is run else twin
            if found := _other_settings(other, run) or ["nothing but their names"] * (twin is not run):
                raise InputError(
                    f"{results.place}: runs {other['run']} and {run['run']} are both {cell_label(run)}, and differ in "
                    f"{', '.join(found)}: remove the lines of one kind, or sweep one of them under another row's name"
                )


def refuse_mixture(runs: Iterable[Run], results: Results) -> None:
    """Refuse runs of before and after a change of the settings that this package gives: no mean is of both."""
    protocols = sorted(set(map(protocol_of, runs)))
    if len(protocols) > 1:
        raise InputError(
            f"{results.place} has runs made with different versions of the settings (protocol "
            f"{' and '.join(map(str, protocols))}): remove the lines of those below {protocols[-1]}, and sweep again"
        )


def protocol_of(run: Run) -> int:
    """The version of the settings that this package gives; the first records have none."""
    return run.get("protocol") or 1


def _other_settings(one: Run, other: Run, ignored: frozenset[str] = frozenset()) -> list[str]:
    """What two runs of a cell were trained with, and one of them otherwise; ``ignored``: options that may differ."""
    names = [name for name in CHOSEN if one.get(name) != other.get(name)]
    found = [f"{name.replace('_', ' ')} {one.get(name)} and {other.get(name)}" for name in names]
    lone = [name for name in STARTS if bool(one.get(name)) != bool(other.get(name))]
    found += [f"{name.replace('_', ' ')}, which one of them has" for name in lone]
    found += [
        f"{called} {str(one[name])[:16]} and {str(other[name])[:16]}"
        for name, called in OF_ALL.items()
        if None not in (one.get(name), other.get(name)) and one[name] != other[name]
    ]
    if None not in (one.get("given_options"), other.get("given_options")):
        differing = {*asked_options(one).items()} ^ {*asked_options(other).items()}
        found += sorted(f"{name} {value}".strip() for name, value in differing if name not in SAME_RESULT | ignored)
    return found


def versions_of_data(runs: Iterable[Run]) -> list[tuple[set[str], list[Run]]]:
    """Fingerprints, and the runs on a task that are of these; runs that say none are of no version.

    Two runs are of the same data where either fingerprint is the same, or a third run says that both belong together.
    """
    versions: list[tuple[set[str], list[Run]]] = []
    for run in runs:
        names = [TESTED] if TESTED in run else FINGERPRINTS
        known, members = {run[name] for name in names if run.get(name)}, [run]
        for version in [version for version in versions if version[0] & known]:
            versions.remove(version)
            known, members = known | version[0], [*version[1], *members]
        versions += [(known, members)] if known else []
    return versions


def still_failed(failed: Iterable[Run], done: Iterable[Run]) -> list[Run]:
    """Return the failed runs that are missing in a table.

    Those whose cell has no finished run; or some that were trained alike, none of them at the same learning rate and
    seed.
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
    return tuple(run.get(key) for key in CELL)


def is_variant(failed: Run, done: Run) -> bool:
    """Whether a failed run is of the same table cell as one that has finished, and was to be trained alike.

    A run that failed early does not know all of its settings; what it does not know may be those of the other.
    """
    known = _cell(failed) == _cell(done) and protocol_of(failed) == protocol_of(done)
    same_backbone = failed["backbone"]["sha256"] in ("", done["backbone"]["sha256"])
    alike = not _other_settings(failed, done, ignored=frozenset([LENGTH]))
    return known and same_backbone and alike and _may_be_as_long(failed, done)


def _may_be_as_long(failed: Run, done: Run) -> bool:
    """Whether the prompts may be equally long: a run that failed before its model was there knows options at most."""
    if failed.get("prompt_length") is not None:
        return failed["prompt_length"] == done["prompt_length"]
    if None in (failed.get("given_options"), done.get("given_options")):
        return True  # records of before the options that were given were kept apart
    asked, other = (asked_options(run).get(LENGTH) for run in (failed, done))
    return asked in (other, str(done["prompt_length"]))


# --- the runs of a table -------------------------------------------------------------------------


@dataclass(frozen=True)
class Scope:
    """The runs of a table, and the seeds that were asked for."""

    done: list[Run]
    failed: list[Run]
    seeds: tuple[int, ...] = ()

    def stands_beside_paper(self, choice: Choice) -> bool:
        """Whether the paper's values belong beside these runs: its backbone, or somebody asks for them."""
        return choice.beside_paper or all(architecture(run) == PAPER_ARCH for run in self.done)

    def varying(self, keys: Collection[str]) -> Scope:
        """The runs of rows and tasks that have finished with more than one value of ``keys``."""
        groups = grouped(self.done, _row_and_task)
        vary = {place for place, runs in groups.items() if len({tuple(run[key] for key in keys) for run in runs}) > 1}
        done, failed = ([run for run in runs if _row_and_task(run) in vary] for runs in (self.done, self.failed))
        return Scope(done, failed, self.seeds)


def _row_and_task(run: Run) -> tuple[str, str]:
    return run["row"], run["task"]


def take_runs(
    results: Results,
    choice: Choice,
    ks: Collection[int | None] = (None,),
    free: Collection[str] = (),
    wants: Callable[[Run], bool] = lambda run: True,
) -> Scope:
    """Return the chosen runs with K of ``ks`` (None: full training) that are wanted.

    Dimensions named in ``free`` may vary within a row.

    Raises:
        InputError: no run is left; there are several selections, backbones or variants of a row and no choice among
            them; two runs differ in nothing that a table shows.
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
    done = settle(done, choice, results, [dimension.key for dimension in DIMENSIONS if dimension.key not in free])
    check_alike(done, results)
    return Scope(done, still_failed(failed, done), choice.seeds)
