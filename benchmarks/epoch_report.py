"""The figures of benchmarks/epoch.py, medians over the rounds, and their tables."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

from epoch_cases import GROUPED, REFERENCE, Prediction, Training

from preprocess.columns import aligned

Rounds = dict[str, list[dict[str, Any]]]  # of each case
Cases = dict[str, dict[str, Any]]
Parts = dict[str, Cases]
CHECKPOINT = ("bytes", "write_s")
REFERENCES = {tool: Prediction(REFERENCE, tool).name for tool in ("predict", "validate")}


def medians(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Of each figure; one that is the same in all rounds, a count or a name, stays as it is."""
    columns = {name: [figures[name] for figures in rounds] for name in rounds[0]}
    return {name: found[0] if len(set(found)) == 1 else median(found) for name, found in columns.items()}


def parts(trained: list[Training], predicted: list[Prediction], rounds: Rounds, filled_s: float | None) -> Parts:
    """{part: {case: figures}}; ``filled_s``: the process that filled the warm cache beforehand."""
    figures = {case.name: medians(rounds[case.name]) for case in trained}
    epoch: Cases = {}
    for case in (case for case in trained if not case.brief):
        found = {name: value for name, value in figures[case.name].items() if name not in CHECKPOINT}
        found["examples_per_s"] = found["examples"] / found["epoch_s"]
        found["rounds_epoch_s"] = [one["epoch_s"] for one in rounds[case.name]]
        if case.cache == "warm":
            found["filled_beforehand_s"] = filled_s
        epoch[case.name] = found
    return {
        "epoch": epoch,
        "padding": {name: grouping(epoch, name) for name in epoch if name + GROUPED in epoch},
        "prediction": {case.name: prediction(case, rounds[case.name]) for case in predicted},
        "checkpoint": {
            case.name: {name: figures[case.name][name] for name in CHECKPOINT}
            for case in trained
            if case.brief or case.name == case.method
        },
    }


def grouping(epoch: Cases, name: str) -> dict[str, float]:
    drawn, grouped = epoch[name], epoch[name + GROUPED]
    return {
        "padding": drawn["padding"],
        "padding_grouped": grouped["padding"],
        "update_s": drawn["update_s"],
        "update_s_grouped": grouped["update_s"],
        "ratio": grouped["update_s"] / drawn["update_s"],
    }


def prediction(case: Prediction, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    found = medians(rounds)
    rates = {"examples_per_s": found["examples"] / found["seconds"]}
    rates["process_examples_per_s"] = found["examples"] / found["process_s"]
    return {"method": case.method, "tool": case.tool, **found, **rates, "rounds_s": [one["seconds"] for one in rounds]}


def ratio(cases: Cases, name: str, to: str, figure: str) -> str:
    return f"{cases[name][figure] / cases[to][figure]:.2f}" if to in cases else "-"


def epoch_table(cases: Cases) -> list[str]:
    one = next(iter(cases.values()))
    whole = one["updates"] == one["updates_per_epoch"]
    updates = "all" if whole else f"{one['updates']} of the"
    heading = f"training: {updates} {one['updates_per_epoch']} updates of an epoch of {one['examples']:,} examples"
    note = [] if whole else ["s/epoch and whole process are extrapolated to all, train_wall is of those that were run"]
    header = ["case", "s/update", "s/epoch", f"/ {REFERENCE}", "examples/s", "whole process", "train_wall"]
    rows = [
        [
            *(name, f"{found['update_s']:.3f}", f"{found['epoch_s']:.1f}", ratio(cases, name, REFERENCE, "epoch_s")),
            *(f"{found['examples_per_s']:.1f}", f"{found['process_epoch_s']:.1f}", f"{found['train_wall_s']:.0f}"),
        ]
        for name, found in cases.items()
    ]
    filled = [found["filled_beforehand_s"] for found in cases.values() if "filled_beforehand_s" in found]
    after = [f"fairseq_idpg.encode, which filled the warm cache beforehand: {seconds:.1f} s" for seconds in filled]
    return [heading, *note, *aligned([header, *rows]), *after]


def padding_table(cases: Cases) -> list[str]:
    header = ["--group-by-length", "padding without", "with", "s/update without", "with", "ratio"]
    rows = [
        [
            *(name, f"{found['padding']:.1%}", f"{found['padding_grouped']:.1%}"),
            *(f"{found['update_s']:.3f}", f"{found['update_s_grouped']:.3f}", f"{found['ratio']:.2f}"),
        ]
        for name, found in cases.items()
    ]
    return ["padding of all batches of the epoch, and seconds of the updates that were run", *aligned([header, *rows])]


def prediction_table(cases: Cases) -> list[str]:
    one = next(iter(cases.values()))
    heading = f"prediction of {one['split']}, {one['examples']:,} examples: seconds from loading the data to the result"
    header = ["case", "s", f"/ {REFERENCE}", "examples/s", "whole process", "its examples/s"]
    rows = [
        [
            *(name, f"{found['seconds']:.2f}", ratio(cases, name, REFERENCES[found["tool"]], "seconds")),
            *(f"{found['examples_per_s']:.1f}", f"{found['process_s']:.1f}", f"{found['process_examples_per_s']:.1f}"),
        ]
        for name, found in cases.items()
    ]
    return [heading, *aligned([header, *rows])]


def checkpoint_table(cases: Cases) -> list[str]:
    header = ["checkpoint", "bytes", f"/ {REFERENCE}", "s to write"]
    rows = [
        [name, f"{found['bytes']:,}", ratio(cases, name, REFERENCE, "bytes"), f"{found['write_s']:.3f}"]
        for name, found in cases.items()
    ]
    return aligned([header, *rows])


TABLES: dict[str, Callable[[Cases], list[str]]] = {
    "epoch": epoch_table,
    "padding": padding_table,
    "prediction": prediction_table,
    "checkpoint": checkpoint_table,
}


def tables(found: Parts) -> list[str]:
    """One for each part that has cases."""
    return [line for part, make in TABLES.items() if found[part] for line in ("", *make(found[part]))]
