"""What runs of one table, and of one cell, must have in common so that their scores may be compared and averaged."""

from __future__ import annotations

from typing import Any, Iterable

from preprocess.errors import InputError

from .runs import PROMPT, Results, Run, asked_options, cell_label, grouped

# options that differ between runs with the same result
PLACES = ("data", "save_dir", "representation_cache", "state_cache")
SAME_RESULT = {f"--{name}" for name in ("cpu", "update-freq", "num-workers", "log-interval", "log-format")} | {
    f"--{name.replace('_', '-')}" for name in PLACES
}
CHOSEN = ("dev_examples", "batch_size", "max_epoch", "max_update", "warm_up")  # None: as the paper has it
STARTS = ("supplementary", "init_prompts_from", "init_head_from")  # their files may have moved
OF_ALL = {"method": "method", "read_sha256": "data"}  # what older records do not say -> what it is called


def check_alike(runs: Iterable[Run], results: Results) -> None:
    """Whether finished runs can stand in one table.

    Raises:
        InputError: two were made with other versions of our settings, differ in nothing that a table shows, or are of
            one cell and were trained in different ways.
    """
    runs = list(runs)
    _refuse_mixture(runs, results)
    _refuse_doubles(runs, results)
    _refuse_other_settings(runs, results)


def _refuse_mixture(runs: Iterable[Run], results: Results) -> None:
    """Runs of before and after a change of the settings that this package gives belong in tables of their own."""
    protocols = sorted({run.get("protocol") or 1 for run in runs})
    if len(protocols) > 1:
        raise InputError(
            f"{results.place} has runs made with different versions of the settings (protocol "
            f"{' and '.join(map(str, protocols))}): remove the lines of those below {protocols[-1]}, and sweep again"
        )


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
                found += sorted({" ".join(option).strip() for option in _trained_with(one) ^ _trained_with(other)})
            if found:
                raise InputError(
                    f"{results.place}: runs {one['run']} and {other['run']} are both {cell_label(one)}, and differ in "
                    f"{', '.join(found)}: remove the lines of one kind, or sweep one of them under another row's name"
                )


def _trained_with(run: Run) -> set[tuple[str, str]]:
    return {(name, value) for name, value in asked_options(run).items() if name not in SAME_RESULT}


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
