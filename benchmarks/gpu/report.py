"""The tables of benchmarks/gpu.sh: Markdown of all parts, and the text of those with several sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from step_time import libraries, of_floor, ratio, skipped

Parts = dict[str, Any]
HEAD = (
    *("case", "ms a step", "/ prompt-tuning", "/ floor", "peak MiB", "kept MiB", "trainable"),
    *("sentences/s predicted", "waits in a step", "attention"),
)
ATTENTION, BACKWARD = "scaled_dot_product_", "_backward"
LARGEST_DIFFERENCE = 1e-3  # of float32 gradients
STOPPED = "stopped by --limit"


def of_kind(parts: Parts, kind: str, *ending: str) -> Iterator[dict[str, Any]]:
    """What the parts of a kind have found, those whose names say ``ending``, which is a precision."""
    for name, part in parts.items():
        if part["kind"] == kind and "found" in part and all(each in name.split("-") for each in ending):
            yield part["found"]


def merged(found: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """By case; a case that was measured more than once has the figures of the first time."""
    every: dict[str, Any] = {}
    for each in found:
        every = {**each, **every}
    return every


def failed(parts: Parts) -> list[str]:
    """The parts that have ended without figures, or in which a test, or a case of ours, failed."""
    return [name for name, part in parts.items() if _failed(name, part)]


def _failed(name: str, part: dict[str, Any]) -> bool:
    if "found" not in part:
        return part.get("status") not in (None, STOPPED)
    kind, found = part["kind"], part["found"]
    if kind == "checks":
        return bool(found.get("error") or found["failed"])
    if kind in ("steps", "sizes"):  # peers may fail
        return part.get("status", 0) != 0
    if kind == "agree" and too_far(found):
        return True
    return kind != "environment" and not name.endswith("-peers") and any("error" in each for each in found.values())


def too_far(found: dict[str, Any]) -> dict[str, Any]:
    """The cases that differ from the CPU's, or are not numbers."""
    own = {name: each for name, each in found.items() if "error" not in each}
    return {name: each for name, each in own.items() if not each["gradient"] <= LARGEST_DIFFERENCE}


def markdown(environment: dict[str, Any], parts: Parts) -> str:
    lines = ["# RoBERTa on a GPU", "", *_environment(environment), "", *_checks(parts), ""]
    for dtype in ("bfloat16", "float16", "float32"):
        lines += _cases(parts, dtype)
    lines += [*_failures(parts), ""]
    return "\n".join(lines)


def _environment(environment: dict[str, Any]) -> list[str]:
    return [f"- {name.replace('_', ' ')}: {_shown(value)}" for name, value in environment.items() if value is not None]


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def _checks(parts: Parts) -> list[str]:
    lines = []
    for found in of_kind(parts, "checks"):
        if "error" in found:
            lines.append(f"Tests: {found['error']}.")
            continue
        lines.append(f"Tests: {found['passed']} passed, {found['skipped']} skipped, {len(found['failed'])} failed.")
        lines += [f"- {name}: {said}" for name, said in found["failed"].items()]
    for found in of_kind(parts, "agree"):
        near = {name: each for name, each in found.items() if "error" not in each and name not in too_far(found)}
        if near:
            name, worst = max(near.items(), key=lambda item: item[1]["gradient"])
            lines.append(
                f"GPU beside CPU, float32: gradients of {len(near)} cases differ by at most {worst['gradient']:.1e} of "
                f"their norm ({name}), losses by {max(each['loss'] for each in near.values()):.1e}."
            )
        lines += [
            f"- {name}: gradients differ by {each['gradient']:.1e}: TOO MUCH" for name, each in too_far(found).items()
        ]
    return lines or ["No checks."]


def _cases(parts: Parts, dtype: str) -> list[str]:
    steps = list(of_kind(parts, "steps", dtype))
    looks, predicted = (merged(of_kind(parts, kind, dtype)) for kind in ("inspect", "predict"))
    names = list(dict.fromkeys([name for found in steps for name in found] + [*looks, *predicted]))
    if not names:
        return []
    rows = ["", f"## {dtype}", "", *_settings(steps), _row(HEAD), _row("-" * 3 for _ in HEAD)]
    for name in names:
        # ratios belong to the block that a case was measured in
        block = next((found for found in steps if name in found), {})
        rows.append(_row([name, *_step_cells(block, name), *_look_cells(looks.get(name), predicted.get(name))]))
    return [*rows, *([""] if any(map(skipped, steps)) else []), *(line for found in steps for line in skipped(found))]


def _row(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _settings(steps: list[dict[str, Any]]) -> list[str]:
    settings = next((case["settings"] for found in steps for case in found.values() if "settings" in case), None)
    if settings is None:
        return []
    return [f"{settings['layers']} layers, width {settings['width']}, batch {settings['batch']}, "
            f"{settings['length']} tokens.", ""]  # fmt: skip


def _step_cells(block: dict[str, Any], name: str) -> list[str]:
    found = block.get(name)
    if found is None:
        return [""] * 6
    if "error" in found:
        return [_cell(f"fails: {found['error']}"), *[""] * 5]
    own, floor = ratio(block, name, "prompt-tuning"), ratio(block, name, "floor")
    figures = f"{found['peak_mib']:,.0f}", f"{found['kept_mib']:,.0f}", f"{found['trainable']:,}"
    return [f"{found['median_s'] * 1000:.2f}", own, floor, *figures]


def _look_cells(looked: Any, predicted: Any) -> list[str]:
    speed = "" if predicted is None else _cell(predicted.get("error") or f"{predicted['sentences_per_s']:,.0f}")
    if looked is None or "error" in looked:
        return [speed, "", _cell((looked or {}).get("error", ""))]
    waits = looked["synchronisations"]
    kernels = {
        name.replace(ATTENTION, "").replace("_attention", ""): count
        for name, count in looked["kernels"].items()
        if not name.endswith(BACKWARD)
    }
    places = "" if not waits else " (" + ", ".join(f"{place} × {count}" for place, count in waits.items()) + ")"
    return [
        speed,
        "-" if waits is None else _cell(f"{sum(waits.values())}{places}"),
        ", ".join(f"{name} × {count}" for name, count in kernels.items()) or "none",
    ]


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _failures(parts: Parts) -> list[str]:
    lines = []
    for name, part in parts.items():
        if "log" in part:
            lines += ["", f"`{name}` ended ({part['status']}) without figures:", "", "```", *part["log"], "```"]
    return lines


def size_summary(parts: Parts) -> str:
    """The table of several batches and lengths; empty where there are none."""
    runs = []
    for figures in of_kind(parts, "sizes"):
        shared = next(iter(figures.values()))
        runs.append({"settings": shared["settings"], "rounds": shared["rounds"], "cases": figures})
    return "\n".join([*size_table(runs), ""]) if runs else ""


KEYS = ("dtype", "batch", "length")  # what tells the rows' runs apart
SIZES_HEAD = (
    f"{'dtype':10}{'batch':>6}{'length':>8}  {'case':24}{'ms/step':>10}{'tokens/s':>11}{'peak MiB':>10}{'of floor':>10}"
)


def size_rows(run: dict[str, Any]) -> list[str]:
    """The lines of one run."""
    settings, figures = run["settings"], run["cases"]
    lines = []
    for case, found in figures.items():
        line = f"{settings['dtype']:10}{settings['batch']:6}{settings['length']:8}  {case:24}"
        if "error" in found:
            lines.append(f"{line}  fails: {found['error']}")
            continue
        speed = f"{found['median_s'] * 1000:10.2f}{found['tokens_per_s']:11,.0f}"
        lines.append(f"{line}{speed}{found['peak_mib']:10,.0f}{of_floor(figures, case):>10}")
    return [*lines, *skipped(figures)]


def size_table(runs: list[dict[str, Any]]) -> list[str]:
    """What all runs share, then a block for each run, in the order of precision, batch and length."""
    runs = sorted(runs, key=lambda run: [run["settings"][key] for key in KEYS])
    shared = {name: value for name, value in runs[0]["settings"].items() if name not in KEYS}
    named = [f"{name.replace('_', ' ')} {value}" for name, value in shared.items()]
    lines = [", ".join([*named, f"rounds {runs[0]['rounds']}"]), libraries(runs[0]["cases"]), SIZES_HEAD]
    for run in runs:
        lines += [*size_rows(run), ""]
    return lines[:-1]
