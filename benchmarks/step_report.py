"""The table of benchmarks/step_time.py, and its block of targets."""

from __future__ import annotations

from statistics import mean, median
from typing import Any

from step_cases import PEERS
from step_targets import Target

Figures = dict[str, dict[str, Any]]


def step_seconds(rounds: list[list[float]]) -> float:
    """Mean over the batches of each one's median over the rounds: what a step costs on average."""
    return mean(median(times) for times in zip(*rounds))


def ratio(figures: Figures, case: str, of: str, figure: str = "median_s") -> str:
    """To two places, or - where one of the two was not measured."""
    own, other = (figures.get(name, {}).get(figure) for name in (case, of))
    return f"{own / other:.2f}" if own and other else "-"


def libraries(figures: Figures) -> str:
    """What was measured on which hardware with which versions, as far as the cases say."""
    versions = {name: number for found in figures.values() for name, number in found.get("libraries", {}).items()}
    hardware = {found["hardware"] for found in figures.values() if "hardware" in found}
    return ", ".join([*sorted(hardware), *(f"{name} {number}" for name, number in versions.items())])


def table(figures: Figures) -> list[str]:
    times = f"{'s/step':>9}{'/ prompt-tuning':>17}{'/ floor':>9}"
    memory = f"{'peak MiB':>10}{'- built':>9}{'kept':>8}"
    lines = [f"{'case':34}{times}{memory}{'trainable':>12}{'tokens/s':>11}{'of floor':>10}"]
    for name, found in figures.items():
        if "error" in found:
            lines.append(f"{name:34}   fails: {found['error']}")
            continue
        own, floor = ratio(figures, name, "prompt-tuning"), ratio(figures, name, "floor")
        peak = f"{found['peak_mib']:10,.0f}{found['peak_mib'] - found['built_mib']:9,.0f}{found['kept_mib']:8,.0f}"
        speed = f"{found['tokens_per_s']:11,.0f}{of_floor(figures, name):>10}"
        lines.append(f"{name:34}{found['median_s']:9.4f}{own:>17}{floor:>9}{peak}{found['trainable']:12,}{speed}")
    return [*lines, *skipped(figures)]


def of_floor(figures: Figures, case: str) -> str:
    """The floor's time over the case's: the share of the floor's speed that it reaches."""
    share = ratio(figures, "floor", case)
    return share if share == "-" else f"{float(share):.0%}"


def skipped(figures: Figures) -> list[str]:
    """Whose figures hold steps without an update, which take less time."""
    counts = {name: found.get("skipped", 0) for name, found in figures.items()}
    return [f"{name}: {count} steps overflowed and were skipped" for name, count in counts.items() if count]


def round_ratios(figures: Figures, target: Target) -> list[float]:
    """The ratio in each round by itself."""
    pairs = zip(figures[target.case]["rounds_s"], figures[target.of]["rounds_s"])
    return sorted(case / of for case, of in pairs)


def summary(blocks: list[Figures]) -> list[str]:
    """A line for each preset of several blocks: its ratios to prompt-tuning and to the peers that stand beside it.

    The second peer of one library, which is there for one that fails, takes the place of the first.
    """
    makers = {"peft": "peft", "adapters": "AdapterHub", "transformers": "transformers"}
    heads = "".join(f"{'/ ' + shown:>16}" for shown in ("prompt-tuning", *makers.values()))
    lines = [f"{'case':34}{'s/step':>9}{heads}{'kept MiB':>10}"]
    peers = {peer.name for peer in PEERS}
    shown: set[str] = set()
    for block in blocks:
        for name in [name for name, found in block.items() if name not in {*peers, *shown} and "error" not in found]:
            beside = {"prompt-tuning": "prompt-tuning"}
            beside |= {peer.maker: peer.name for peer in PEERS if name in peer.beside and _measured(block, peer.name)}
            ratios = [_round_ratio(block, name, beside.get(column)) for column in ("prompt-tuning", *makers)]
            cells = "".join(f"{cell:>16}" for cell in ratios)
            lines.append(f"{name:34}{block[name]['median_s']:9.4f}{cells}{block[name]['kept_mib']:10,.0f}")
            shown.add(name)
    return lines


def _measured(figures: Figures, case: str) -> bool:
    return case in figures and "error" not in figures[case]


def _round_ratio(figures: Figures, case: str, of: str | None) -> str:
    if of is None or not _measured(figures, of):
        return ""
    return f"{median(round_ratios(figures, Target(case, 1.0, of))):.2f}"


def targets(blocks: list[Figures], found: list[Target]) -> list[str]:
    """A line for each target.

    Seconds are compared within one of ``blocks``, where they were measured in turns; memory between any two.
    """
    everything = {name: figures for block in blocks for name, figures in block.items()}
    lines = []
    for target in found:
        both = (block for block in blocks if target.case in block and target.of in block)
        figures = next(both, None if target.figure == "median_s" else everything)
        if figures is not None:
            lines.append(f"{_what(target):70}{_outcome(figures, target)}")
    return lines


def _what(target: Target) -> str:
    memory = {"median_s": "", "peak_mib": "peak of ", "kept_mib": "kept for backward of "}[target.figure]
    return f"{memory}{target.case} <= {target.factor:.2f} x {target.of}"


def _outcome(figures: Figures, target: Target) -> str:
    names = (target.case, target.of)
    failed = [name for name in names if "error" in figures[name]]
    if failed:
        return f"not measured: {' and '.join(failed)} fails"
    measured, detail = figures[target.case][target.figure] / figures[target.of][target.figure], ""
    if target.figure == "median_s":
        found = round_ratios(figures, target)  # one after the other, so that a slower minute is in both
        measured, detail = median(found), f"(rounds {found[0]:.2f} to {found[-1]:.2f})"
    if target.figure == "peak_mib":
        above = [figures[name]["peak_mib"] - figures[name]["built_mib"] for name in names]
        detail = f"(above what was built: {above[0] / max(above[1], 1e-9):.2f})"
    verdict = "reached" if measured <= target.factor else "NOT reached"
    return f"{measured:6.3f}  {verdict:12}{detail}".rstrip()
