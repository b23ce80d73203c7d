"""Sizes, labels and lengths of binarized folders: a table like the paper's Table 5, a plot like its Figure 5.

Lengths are in tokens of the model's vocabulary, without ``</s>``. What a model is judged by should not stand in its
training data: how many examples of the other splits do is said too, and how many stand in another of the folders.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .data_folder import DataFolder, check_split, class_counts
from .errors import InputError, escaped, shown
from .flags import aligned, named_path
from .tasks import MAX_POSITIONS
from .writing import check_apart, check_replaces_nothing, new_file, write_output

TRAIN = "train"
OF_LENGTHS = ("sentence", "mean", "95%", "max")
OF_SPLIT = ("data set", "split", "examples", "in train", "labels")
COLUMNS = (*OF_SPLIT, *OF_LENGTHS, "1st - 2nd", f"> {MAX_POSITIONS}")  # of the table
NAMES = (0, 1, 4)  # of the columns, those without numbers
COLOURS = ("#4477aa", "#ee9944")  # told apart by colour-blind readers and in grey
BAR = 0.38
SMALLEST_RANGE = 1.0  # of length differences, in tokens: a hundredth of a token shall not look large


def describe_folder(data: DataFolder) -> dict[str, Any]:
    """{"path", "pairs", "splits": {split: ``describe_split``}, "in_train": ``trained_on``}."""
    return {
        "path": str(data.path),
        "pairs": len(data.inputs) > 1,
        "splits": {split: describe_split(data, split) for split in data.splits},
        "in_train": trained_on(data),
    }


def describe_split(data: DataFolder, split: str) -> dict[str, Any]:
    """Everything that the table says of a split alone; None for what an empty or unlabelled one has not.

    ``too_long``: share of examples over 512 tokens when joined, ``<s> A </s>`` or ``<s> A </s> </s> B </s>``;
    ``difference``: mean length of the first sentence less that of the second.
    """
    count = check_split(data, split)
    rows = [data.rows(part, split).lengths.astype(np.int64) for part in data.inputs]
    joined = np.sum([lengths + 1 for lengths in rows], axis=0)  # each sentence has its </s> and a token before it
    lengths = [describe_lengths(row_lengths - 1) for row_lengths in rows]
    return {
        "examples": count,
        "labels": describe_labels(data, split) if count and data.has_labels(split) else None,
        "lengths": lengths,
        "difference": float((rows[0] - rows[1]).mean()) if count and len(rows) > 1 else None,
        "too_long": float((joined > MAX_POSITIONS).mean()) if count else None,
    }


def trained_on(data: DataFolder) -> dict[str, int]:
    """{split: examples whose sentences stand in ``train`` too, in this order, whatever the label}.

    ``train`` is with ``train1``, ``train2`` ..., as fairseq reads it.
    """
    if TRAIN not in data.splits:
        return {}
    trained = data.joined(TRAIN)
    known = {example for split in trained for example in sentences(data, split)}
    others = [split for split in data.splits if split not in trained]
    return {split: sum(example in known for example in sentences(data, split)) for split in others}


def in_others(folders: dict[str, DataFolder]) -> dict[str, dict[str, dict[str, int]]]:
    """{folder: {split: {another folder: examples whose sentences stand in it too, whatever the split and the label}}}.

    Of those that have some, and of folders with the same vocabulary and as many sentences.
    """
    if len(folders) < 2:
        return {name: {} for name in folders}
    known = {
        name: {example for split in data.splits for example in sentences(data, split)} for name, data in folders.items()
    }
    found: dict[str, dict[str, dict[str, int]]] = {name: {} for name in folders}
    for name, data in folders.items():
        others = [other for other, its in folders.items() if other != name and its.symbols == data.symbols]
        for split in data.splits:
            counts = Counter(other for one in sentences(data, split) for other in others if one in known[other])
            found[name][split] = dict(counts)
    return found


def sentences(data: DataFolder, split: str) -> Iterator[tuple[bytes, ...]]:
    """The token ids of each example's sentences."""
    rows = [data.rows(part, split) for part in data.inputs]
    return (tuple(part[number].tobytes() for part in rows) for number in range(len(rows[0])))


def describe_lengths(lengths: np.ndarray) -> dict[str, float] | None:
    if not len(lengths):
        return None
    mean, high = float(lengths.mean()), float(np.percentile(lengths, 95))
    return {"mean": mean, "percentile95": high, "max": int(lengths.max())}


def describe_labels(data: DataFolder, split: str) -> dict[str, Any]:
    """{"classes": {name: share}} or {"range": [lowest, highest]}."""
    if not data.regression:
        counts = class_counts(data, split)
        return {"classes": {name: count / sum(counts.values()) for name, count in counts.items()}}
    targets = np.array(" ".join(data.targets(split)).split(), dtype=np.float64)
    return {"range": [float(targets.min()), float(targets.max())]}


def table(folders: dict[str, dict[str, Any]]) -> str:
    """One line for each sentence of each split."""
    lines: list[tuple[str, ...]] = [COLUMNS]
    for name, folder in folders.items():
        for split, facts in folder["splits"].items():
            known = f"{folder['in_train'][split]:,}" if split in folder["in_train"] else ""
            of_split = (name, split, f"{facts['examples']:,}", known, labels_text(facts["labels"]))
            difference = "" if facts["difference"] is None else f"{round(facts['difference'], 2) + 0:+.2f}"
            too_long = "" if facts["too_long"] is None else f"{facts['too_long']:.2%}"
            for number, lengths in enumerate(facts["lengths"], start=1):
                first = number == 1  # what is said of the whole split stands in its first line
                start, end = (of_split, (difference, too_long)) if first else ([""] * len(OF_SPLIT), ["", ""])
                lines.append((*start, str(number), *lengths_text(lengths), *end))
    return "\n".join(aligned(lines, left=NAMES))


def lengths_text(lengths: dict[str, float] | None) -> tuple[str, ...]:
    if lengths is None:
        return ("-",) * 3
    return f"{lengths['mean']:.1f}", f"{lengths['percentile95']:.0f}", str(lengths["max"])


def labels_text(labels: dict[str, Any] | None) -> str:
    if labels is None:
        return "-"
    if "range" in labels:
        return "{:g} to {:g}".format(*labels["range"])
    return ", ".join(f"{shown(name)}: {share:.1%}" for name, share in labels["classes"].items())


def short_names(paths: Sequence[Path]) -> dict[str, Path]:
    """Folder names without -bin; the whole path where two folders have the same name."""
    names = [path.resolve().name for path in paths]
    shown = [name.removesuffix("-bin") if names.count(name) == 1 else str(path) for name, path in zip(names, paths)]
    return dict(zip(shown, paths))


# --- the plot: mean sentence lengths, and how they differ in pairs --------------------------------


def save_plot(folders: dict[str, dict[str, Any]], path: Path) -> None:
    """Saves two panels for what ``stats.describe_folder`` says of each folder; the suffix decides the format.

    Raises:
        InputError: matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure  # without pyplot: no window, no global state; .png is drawn by Agg
    except ImportError:
        raise InputError("the plot needs matplotlib: pip install matplotlib, or give --no-plot") from None
    figure = Figure(figsize=(max(10.0, 4.0 + 1.6 * len(folders)), 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_lengths(left, folders)
    draw_differences(right, {name: folder for name, folder in folders.items() if folder["pairs"]})
    with new_file(path) as work:
        figure.savefig(work, dpi=150)


def draw_lengths(axes: Any, folders: dict[str, dict[str, Any]]) -> None:
    """A bar for each sentence of the training set, or of the first split where there is none."""
    splits = ["train" if "train" in folder["splits"] else next(iter(folder["splits"])) for folder in folders.values()]
    lengths = [folder["splits"][split]["lengths"] for split, folder in zip(splits, folders.values())]
    means = [[facts["mean"] if facts else None for facts in both] for both in lengths]
    axes.set(title="Mean sentence length, training set", ylabel="tokens per sentence", xlabel="data set")
    draw_bars(axes, means, ("first or only sentence", "second sentence"), "%.1f")
    name_places(axes, [name if split == "train" else f"{name} ({split})" for name, split in zip(folders, splits)])


def draw_differences(axes: Any, folders: dict[str, dict[str, Any]]) -> None:
    """Bars of both sets: the 0.6 that the paper states for MRPC is that of the validation set (0.64 in words)."""
    title, unit = "First less second sentence of pairs", "mean length difference, tokens"
    axes.set(title=title, ylabel=unit, xlabel="data set of pairs")
    if not folders:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "no sentence pairs among these data sets", ha="center", transform=axes.transAxes)
        return
    differences = [[difference(folder, split) for split in ("train", "valid")] for folder in folders.values()]
    draw_bars(axes, differences, ("training set", "validation set"), "%+.2f")
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, -SMALLEST_RANGE), max(high, SMALLEST_RANGE))
    axes.axhline(0, color="black", linewidth=0.8)
    name_places(axes, list(folders))


def difference(folder: dict[str, Any], split: str) -> float | None:
    value = folder["splits"].get(split, {}).get("difference")
    return None if value is None else round(value, 2) + 0  # adding 0 makes -0.0 positive


def draw_bars(axes: Any, values: Sequence[Sequence[float | None]], labels: Sequence[str], number: str) -> None:
    """Bars side by side at each place, one for each value that is there, and what their colours mean."""
    for kind, label in enumerate(labels):
        bars = [
            (place + BAR * (kind - (len(group) - 1) / 2), group[kind])
            for place, group in enumerate(values)
            if kind < len(group) and group[kind] is not None
        ]
        if bars:
            drawn = axes.bar(*zip(*bars), width=BAR, color=COLOURS[kind], label=label)
            axes.bar_label(drawn, fmt=number, fontsize=8, padding=2)
    axes.margins(y=0.3)
    if axes.containers:
        axes.legend(loc="upper right", fontsize=8)


def name_places(axes: Any, names: list[str]) -> None:
    crowded = len(names) > 4 or max(map(len, names)) > 12
    axes.set_xticks(range(len(names)), names, rotation=30 if crowded else 0, ha="right" if crowded else "center")
    axes.set_xlim(-0.7, len(names) - 0.3)


# --- the command ----------------------------------------------------------------------------------


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m preprocess stats", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", metavar="DIR", type=named_path, nargs="+", help="binarized folders")
    parser.add_argument("--plot", metavar="FILE", type=named_path, default=Path("stats.png"), help="default: stats.png")
    parser.add_argument("--no-plot", action="store_true", help="print the table only")
    parser.add_argument("--json", metavar="FILE", type=named_path, help="the table's numbers in full precision")
    args = parser.parse_args(argv)
    named = short_names(list(dict.fromkeys(args.data)))
    if args.json:
        check_replaces_nothing(args.json, "--json", {"DIR": args.data})
        if not args.no_plot:
            check_apart("--plot", args.plot, "--json", args.json)
    read = {name: DataFolder(path) for name, path in named.items()}
    folders = {name: describe_folder(data) for name, data in read.items()}
    print(table(folders))
    for name, splits in in_others(read).items():
        folders[name]["in_others"] = splits
        for split, counts in splits.items():
            examples = folders[name]["splits"][split]["examples"]
            for other, count in counts.items():
                print(escaped(f"{name} {split}: {count:,} of {examples:,} stand in {other} too"))
    if args.json:
        write_output(args.json, json.dumps(folders, indent=2) + "\n", "--json")
        print(f"numbers saved: {args.json}")
    if not args.no_plot:
        save_plot(folders, args.plot)
        print(f"plot saved: {args.plot}")
