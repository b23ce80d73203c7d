"""Sizes, labels and lengths of binarized folders: a table like the paper's Table 5, a plot like its Figure 5.

Lengths are in tokens of the model's vocabulary, without ``</s>``. The table also counts the examples of other splits
that stand in the training data, and lines below it those that stand in another of the folders.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .data_folder import DataFolder, check_split, joined
from .drawing import ONE_COLUMN, PANEL_HEIGHT, TWO_COLUMNS, check_image, draw_bars, save
from .encoders import check_encoder, folder_encoder, load_encoder
from .errors import InputError, escaped, shown
from .flags import aligned, named_path
from .tasks import MAX_POSITIONS
from .writing import check_apart, check_replaces_nothing, write_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Sentence = str | bytes
Compared = dict[str, list[tuple[Sentence, ...]]]  # split -> examples

TRAIN = "train"
COLUMNS = (  # of the table
    *("data set", "split", "examples", "in train", "labels"),
    *("sentence", "mean", "95%", "max", "1st - 2nd", f"> {MAX_POSITIONS}"),
)
NAMES = (0, 1, 4)  # of the columns, those without numbers
SMALLEST_RANGE = 1.0  # of length differences, in tokens: a hundredth of a token should not look large
EXAMPLE = "example: python -m preprocess stats data/RTE-bin data/CR-bin --plot lengths.png"


def describe_folder(data: DataFolder, compared: Compared | None = None) -> dict[str, Any]:
    """Return {"path", "pairs", "splits": {split: ``describe_split``}, "in_train", "share_sentence": {split: examples}}.

    ``in_train``: examples whose sentences also stand in ``train``, ``train1`` ..., in the same order, with any label.
    ``share_sentence``: pairs one of whose sentences does. ``compared``: what ``compared_texts`` says, if it is known.
    """
    compared = compared or compared_texts(data)
    splits = {split: describe_split(data, split) for split in data.splits}
    trained = joined(TRAIN, data.splits) if TRAIN in data.splits else []
    known = {example for split in trained for example in compared[split]}
    parts = {sentence for example in known for sentence in example}
    others = [split for split in data.splits if trained and split not in trained]
    in_train = {split: sum(example in known for example in compared[split]) for split in others}
    share = {split: sum(not parts.isdisjoint(example) for example in compared[split]) for split in others}
    pairs = len(data.inputs) > 1
    facts = {"path": str(data.path), "pairs": pairs, "splits": splits, "in_train": in_train}
    return facts | ({"share_sentence": share} if pairs else {})


def describe_split(data: DataFolder, split: str) -> dict[str, Any]:
    """Return the table's numbers of a split: "examples", "labels", "lengths", "difference", "too_long".

    ``labels``: {"classes": {name: share}} or {"range": [lowest, highest]}; ``difference``: mean length of the first
    sentence less that of the second; ``too_long``: share over 512 tokens, ``<s> A </s>`` or ``<s> A </s> </s> B </s>``.
    None stands for what an empty or unlabelled split lacks.
    """
    count = check_split(data, split)
    lengths = [data.rows(part, split).lengths.astype(np.int64) - 1 for part in data.inputs]
    facts: dict[str, Any] = {"examples": count, "labels": None, "lengths": [None for _ in lengths]}
    if not count:
        return {**facts, "difference": None, "too_long": None}
    if data.has_labels(split) and data.regression:
        targets = [float(target) for target in data.targets(split)]
        facts["labels"] = {"range": [min(targets), max(targets)]}
    elif data.has_labels(split):
        shares = np.bincount(data.classes(split), minlength=len(data.label_names)) / count
        facts["labels"] = {"classes": dict(zip(data.label_names, shares.tolist()))}
    facts["lengths"] = [
        {"mean": float(each.mean()), "percentile95": float(np.percentile(each, 95)), "max": int(each.max())}
        for each in lengths
    ]
    facts["difference"] = float((lengths[0] - lengths[1]).mean()) if len(lengths) > 1 else None
    whole = np.sum(lengths, axis=0) + 2 * len(lengths)  # each sentence has its </s> and a token before it
    return {**facts, "too_long": float((whole > MAX_POSITIONS).mean())}


def in_others(folders: dict[str, DataFolder], compared: dict[str, Compared]) -> dict[str, dict[str, dict[str, int]]]:
    """Return {folder: {split: {another folder: examples that it has too}}}. Vocabularies must be equal."""
    known = {name: {example for split in splits.values() for example in split} for name, splits in compared.items()}
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for name, data in folders.items():
        others = [other for other in folders if other != name]
        in_ids = any(isinstance(sentence, bytes) for example in known[name] for sentence in example)
        if in_ids:
            others = [other for other in others if folders[other].symbols == data.symbols]
        counts[name] = {
            split: dict(Counter(other for example in examples for other in others if example in known[other]))
            for split, examples in compared[name].items()
        }
    return counts


def compared_texts(data: DataFolder, others: Iterable[DataFolder] = ()) -> Compared:
    """Return the sentences of each split's examples: their letters and digits alone, in lower case.

    Files that spell quotation marks and hyphens differently then have the same texts. Where no encoder of the folder
    is found, nor of ``others`` with its vocabulary, the token ids stand in for the text.
    """
    encoder = None
    for each in (data, *others):
        if encoder is None and each.symbols == data.symbols:
            with contextlib.suppress(InputError):
                found = load_encoder(*folder_encoder(each, None, None))
                check_encoder(each, found)
                encoder = found

    def sentences(part: str, split: str) -> list[Sentence]:
        rows = data.rows(part, split)
        ids = [rows[number] for number in range(len(rows))]
        if encoder is None:
            return [row.tobytes() for row in ids]
        texts = encoder.decode([row[:-1].tolist() for row in ids])
        return ["".join(filter(str.isalnum, text.casefold())) or text for text in texts]

    return {split: list(zip(*(sentences(part, split) for part in data.inputs))) for split in data.splits}


def table(folders: dict[str, dict[str, Any]]) -> str:
    """Return a line for each sentence of each split; facts of the whole split stand in its first line."""
    lines: list[tuple[str, ...]] = [COLUMNS]
    for name, folder in folders.items():
        for split, facts in folder["splits"].items():
            known = f"{folder['in_train'][split]:,}" if split in folder["in_train"] else ""
            start = (name, split, f"{facts['examples']:,}", known, labels_text(facts["labels"]))
            difference, too_long = rounded(facts["difference"]), facts["too_long"]
            end = ("" if difference is None else f"{difference:+.2f}", "" if too_long is None else f"{too_long:.2%}")
            for number, lengths in enumerate(facts["lengths"], start=1):
                cells = ("-", "-", "-")
                if lengths:
                    cells = f"{lengths['mean']:.1f}", f"{lengths['percentile95']:.0f}", str(lengths["max"])
                lines.append((*start, str(number), *cells, *end))
                start, end = ("", "", "", "", ""), ("", "")
    return "\n".join(aligned(lines, left=NAMES))


def labels_text(labels: dict[str, Any] | None) -> str:
    if labels is None or "range" in labels:
        return "-" if labels is None else "{:g} to {:g}".format(*labels["range"])
    return ", ".join(f"{shown(name)}: {share:.1%}" for name, share in labels["classes"].items())


def draw(folders: dict[str, dict[str, Any]]) -> Figure:
    """Draw what ``describe_folder`` says of each folder.

    The upper panel has a bar for each sentence of the training set, or of the first split where there is none. The
    lower one has bars of both sets of pairs: the paper's 0.6 of MRPC is that of the validation set (0.64 in words).
    """
    from matplotlib.figure import Figure  # without pyplot: no window, no global state; .png is drawn by Agg

    means = {}
    for name, folder in folders.items():
        split = TRAIN if TRAIN in folder["splits"] else next(iter(folder["splits"]))
        lengths = folder["splits"][split]["lengths"]
        means[name if split == TRAIN else f"{name} ({split})"] = [facts["mean"] if facts else None for facts in lengths]
    pairs = {name: folder["splits"] for name, folder in folders.items() if folder["pairs"]}
    rows = 1 + bool(pairs)
    width = ONE_COLUMN if len(folders) <= 5 else TWO_COLUMNS
    figure = Figure(figsize=(width, PANEL_HEIGHT * rows), layout="constrained")
    upper, *lower = figure.subplots(rows, 1, squeeze=False)[:, 0]
    upper.set_ylabel("tokens per sentence, mean")
    drawn = draw_bars(upper, [*means.values()], [*means], "%.1f")
    if pairs:
        place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1), "ncols": 2}
        upper.legend(drawn, ("first or only sentence", "second sentence"), **place)
        found = [[splits.get(split, {}).get("difference") for split in (TRAIN, "valid")] for splits in pairs.values()]
        drawn = draw_bars(lower[0], [[*map(rounded, each)] for each in found], [*pairs], "%+.2f")
        lower[0].legend(drawn, ("training set", "validation set"), **place)
        lower[0].set_ylabel("first less second sentence")
        low, high = lower[0].get_ylim()
        lower[0].set_ylim(min(low, -SMALLEST_RANGE), max(high, SMALLEST_RANGE))
        lower[0].axhline(0, color="black", linewidth=0.5)
    return figure


def rounded(difference: float | None) -> float | None:
    return None if difference is None else round(difference, 2) + 0  # adding 0 makes -0.0 positive


def main(argv: Sequence[str]) -> None:
    summary = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m preprocess stats", description=summary, epilog=EXAMPLE)
    add = parser.add_argument
    add("data", metavar="DIR", type=named_path, nargs="+", help="binarized folders")
    add("--plot", metavar="FILE", type=named_path, help="save the plot too (default: only the table)")
    add("--no-plot", dest="plot", action="store_const", const=None, help=argparse.SUPPRESS)  # as without options
    add("--json", metavar="FILE", type=named_path, help="save the table's numbers in full precision")
    args = parser.parse_args(argv)
    paths = list(dict.fromkeys(args.data))
    names = [path.resolve().name for path in paths]
    # folders by their names without -bin, or by their paths where two have the same name
    named = {n.removesuffix("-bin") if names.count(n) == 1 else str(path): path for n, path in zip(names, paths)}
    if args.plot:
        check_image(args.plot, "--plot")
    if args.json:
        check_replaces_nothing(args.json, "--json", {"DIR": args.data})
        if args.plot:
            check_apart("--plot", args.plot, "--json", args.json)
    read = {name: DataFolder(path) for name, path in named.items()}
    compared = {name: compared_texts(data, read.values()) for name, data in read.items()}
    folders = {name: describe_folder(data, compared[name]) for name, data in read.items()}
    print(table(folders))
    for name, folder in folders.items():
        for split, count in folder.get("share_sentence", {}).items():
            if count:
                examples = len(compared[name][split])
                print(escaped(f"{name} {split}: {count:,} of {examples:,} share a sentence with train"))
    for name, splits in in_others(read, compared).items():
        folders[name]["in_others"] = splits
        for split, counts in splits.items():
            examples = folders[name]["splits"][split]["examples"]
            for other, count in counts.items():
                print(escaped(f"{name} {split}: {count:,} of {examples:,} stand in {other} too"))
    if args.json:
        write_output(args.json, json.dumps(folders, indent=2) + "\n", "--json")
        print(f"numbers saved: {args.json}")
    if args.plot:
        save(partial(draw, folders), args.plot)
        print(f"plot saved: {args.plot}")
