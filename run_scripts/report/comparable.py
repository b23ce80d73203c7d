"""What runs of one table, and of one cell, must have in common so that their scores may be compared and averaged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from preprocess.errors import InputError
from preprocess.flags import flag_name

from .record_schema import PROMPT
from .runs import Results, Run, asked_options, cell_label, grouped

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


def check_alike(runs: Iterable[Run], results: Results) -> None:
    """Whether finished runs can stand in one table.

    Raises:
        InputError: two were made with other versions of our settings, differ in nothing that a table shows, or are of
            one cell and were trained in different ways.
    """
    runs = list(runs)
    refuse_mixture(runs, results)
    _refuse_doubles(runs, results)
    _refuse_other_settings(runs, results)


def refuse_mixture(runs: Iterable[Run], results: Results) -> None:
    """Runs of before and after a change of the settings that this package gives belong in tables of their own."""
    protocols = sorted(set(map(protocol_of, runs)))
    if len(protocols) > 1:
        raise InputError(
            f"{results.place} has runs made with different versions of the settings (protocol "
            f"{' and '.join(map(str, protocols))}): remove the lines of those below {protocols[-1]}, and sweep again"
        )


def protocol_of(run: Run) -> int:
    """The version of the settings that this package gives; the first records have none."""
    return run.get("protocol") or 1


def _refuse_doubles(runs: Iterable[Run], results: Results) -> None:
    seen: dict[tuple[Any, ...], Run] = {}
    for run in runs:
        other = seen.setdefault(tuple(run[key] for key in ("row", "task", "k", "lr", "seed", *PROMPT)), run)
        if other is not run:
            raise InputError(
                f"{results.place}: runs {other['run']} and {run['run']} are both {run['row']} on {run['task']}, lr "
                f"{run['lr']:g}, seed {run['seed']}{_differences(other, run)}: remove the line of one"
            )


def _refuse_other_settings(runs: Iterable[Run], results: Results) -> None:
    """Seeds and learning rates of a cell are trained alike: a sweep that goes on after a change of its file is two."""
    for one, *others in grouped(runs, lambda run: tuple(run[key] for key in ("row", "task", "k", *PROMPT))).values():
        for other in others:
            if found := _other_settings(one, other):
                raise InputError(
                    f"{results.place}: runs {one['run']} and {other['run']} are both {cell_label(one)}, and differ in "
                    f"{', '.join(found)}: remove the lines of one kind, or sweep one of them under another row's name"
                )


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
        differing = _trained_with(one) ^ _trained_with(other)
        found += sorted({" ".join(option).strip() for option in differing if option[0] not in ignored})
    return found


def _trained_with(run: Run) -> set[tuple[str, str]]:
    return {(name, value) for name, value in asked_options(run).items() if name not in SAME_RESULT}


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
    """The failed runs that are missing in a table.

    Those whose cell has no finished run; or some that were trained alike, none of them at the same learning rate and
    seed.
    """
    cells = grouped(done, _cell)
    return [run for run in failed if _cell(run) not in cells or _is_missing(run, cells[_cell(run)])]


def _is_missing(failed: Run, done: Iterable[Run]) -> bool:
    alike = [run for run in done if is_variant(failed, run)]
    return bool(alike) and all((failed["lr"], failed["seed"]) != (run["lr"], run["seed"]) for run in alike)


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


def _differences(one: Run, other: Run) -> str:
    first, second = (_flat(run.get("options")) for run in (one, other))
    names = [name for name in first.keys() | second.keys() if first.get(name) != second.get(name)]
    return f" (they differ in {', '.join(sorted(names))})" if names else ""


def _flat(options: Any) -> dict[str, Any]:
    """Options by name, whatever groups they stand in, without those that name places."""
    flat: dict[str, Any] = {}
    for name, value in options.items() if isinstance(options, dict) else ():
        flat.update(_flat(value) if isinstance(value, dict) else {name: value})
    return {name: value for name, value in flat.items() if name not in PLACES}
