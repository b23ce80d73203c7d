"""From the command line's options to splits that can be binarized, and the changes to their rows.

A test set's hidden labels are left out; ``--swap-pairs append`` gives every pair, and then every pair with its two
sentences exchanged (IDPG, appendix A.4); ``--efl`` gives the entailment form of EFL (Wang et al., 2021).
"""

import argparse
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import InputError
from .hub import hub_rows, task_rows
from .labels import Labels, unknown_label
from .readers import LAYOUTS, Bad, Columns, Items, Row
from .sources import Source, find_source, places
from .tasks import Task

OWN = ("tsv", "csv", "jsonl")
HUB = ("train=train", "valid=validation", "test=test")  # --splits of own data, by default
MOST_BAD = 1_000_000  # lines of a split: a small .gz may unpack to any number
HIDDEN = {None, "", "-1", "-1.0"}  # stand in a file, or on the hub, where the labels of a test set are not published
CSV_QUOTED = re.compile('"[^"]*(""[^"]*)+"')
NOT_ENTAILED, ENTAILED = "not_entailment", "entailment"

# EFL: a sentence entails the description of its class. Each description gives a pair for each sentence, so one is
# enough for two classes. Edit, or add your own task.
EFL_DESCRIPTIONS: dict[str, dict[str, str]] = {
    "CR": {"1": "It was great"},
    "MR": {"1": "It was great"},
    "SST-2": {"1": "It was great"},
    "MPQA": {"1": "It was positive"},
    "SUBJ": {"1": "It was objective"},
    "CoLA": {"1": "It was correct"},
}


@dataclass
class Split:
    """A split to make: where its rows come from, how they are changed, and what is in them."""

    name: str
    source: Source
    items: Callable[[], Items]  # reads the source from its start
    skipped_labels: Sequence[str] = ()
    note_quotes: bool = False  # of a tsv
    strict: bool = False  # a malformed line is an error; else it is skipped and counted
    passes: int = 1  # how often ``rows`` reads the source
    classes: Collection[str] = ()  # of the source, as far as they are known
    descriptions: dict[str, str] = field(default_factory=dict)
    malformed: list[tuple[int, str]] = field(default_factory=list)  # line, reason
    left_out: list[tuple[int, int]] = field(default_factory=list)  # rows before a line without an example, its number
    csv_quoted: list[int] = field(default_factory=list)  # lines with a text that looks quoted
    tokens: list[int] = field(default_factory=list)  # of each input, with </s>
    counts: Counter[str] = field(default_factory=Counter)  # by the columns of the summary

    @property
    def is_train(self) -> bool:
        return self.name.startswith("train")

    def read(self) -> Iterator[Row]:
        """Yield the rows of the source, and note the lines that give none."""
        self.malformed, self.left_out, self.csv_quoted = [], [], []
        rows = empty = 0  # rows so far, and empty lines since the last other line
        for item in self.items():
            empty = empty + 1 if isinstance(item, Bad) and item.empty else 0
            if isinstance(item, Row) and item.label not in self.skipped_labels:
                if self.note_quotes and any(CSV_QUOTED.fullmatch(text) for text in item.texts):
                    self.csv_quoted.append(item.line)
                yield item
                rows += 1
                continue
            if len(self.left_out) == MOST_BAD:
                what = f"follows over {MOST_BAD:,} lines without an example: name a file of the right layout"
                raise InputError(f"{self.source.name} line {item.line} {what}")
            self.left_out.append((rows, item.line))
            if isinstance(item, Bad) and not item.empty:
                if self.strict:
                    remedy = "mend it, or have it skipped: give --skip-bad for a test split, and leave out --strict"
                    raise InputError(f"{self.source.name} line {item.line}: {item.reason}: {remedy}")
                self.malformed.append((item.line, f"{item.reason:.200}"))
        del self.left_out[len(self.left_out) - empty :]  # at the end of a file they stand for no example

    def rows(self) -> Iterator[Row]:
        """Yield the rows to encode: without hidden labels, in the form of EFL, a second time with swapped sentences."""
        hidden = HIDDEN.difference(self.classes)
        unlabelled = self.name.startswith("test") and all(row.label in hidden for row in self.read())
        for number in range(self.passes):
            for row in self.read():
                if unlabelled:
                    row = row._replace(label=None)
                for pair in self.entailment_pairs(row) if self.descriptions else [row]:
                    yield pair._replace(texts=pair.texts[::-1]) if number else pair

    def entailment_pairs(self, row: Row) -> Iterator[Row]:
        """Yield (sentence, description of a class), labelled whether the sentence is of that class."""
        if row.label is not None and row.label not in self.classes:
            raise unknown_label(f"{self.source.name} line {row.line}", row.label, self.classes)
        # several pairs cannot share the number that the benchmark gives the sentence
        number = row.number if len(self.descriptions) == 1 else None
        for label, description in self.descriptions.items():
            entailed = None if row.label is None else ENTAILED if row.label == label else NOT_ENTAILED
            yield row._replace(texts=(row.texts[0], description), label=entailed, number=number)


def file_split(name: str, layout: str, source: Source, columns: Columns, **more: Any) -> Split:
    return Split(name, source, lambda: LAYOUTS[layout](source.lines(), columns, source.name), **more)


def task_splits(task: Task, args: argparse.Namespace) -> tuple[list[Split], Labels]:
    """Return the splits of a known task below ``--raw``, or of the hub; without ``--splits``, test may be missing."""
    raw = Path(args.raw or "")
    if args.raw and not raw.exists():
        raise InputError(f"--raw {raw} does not exist: name the folder or zip archive that holds {task.name}")
    unknown = [name for name in args.splits or () if name not in task.files]
    if unknown:
        raise InputError(f"--splits {unknown[0]}: {task.name} has {', '.join(task.files)}")
    layout = "csv-with-quotes" if (task.layout, args.csv_quotes) == ("csv", "keep") else task.layout
    splits = []
    for name in dict.fromkeys(args.splits or task.files):
        columns = task_columns(task, name.startswith("test"))
        if not args.raw:
            splits.append(Split(name, *task_rows(task, name, columns), skipped_labels=task.skipped_labels))
            continue
        source = find_source(raw, task, name)
        if source is not None:
            splits.append(file_split(name, layout, source, columns, skipped_labels=task.skipped_labels))
        elif args.splits or not name.startswith("test") or list(task.files) == ["test"]:
            known = " or ".join(places(task, name))
            what = f"has no {name} split of {task.name} ({known}, also within a zip archive)"
            raise InputError(f"--raw {raw} {what}: put it there, or name the splits to make with --splits")
    labels = Labels(scale=task.scale) if task.regression else Labels(task.labels)
    return transformed(splits, labels, task.name, len(task.texts), args)


def task_columns(task: Task, test: bool) -> Columns:
    """Return the columns of a task's file; a test file may have others, and need not have labels."""
    others = test and bool(task.test_texts)
    return Columns(
        texts=task.test_texts if others else task.texts,
        label="label" if others else task.label,
        header=task.header or others,
        label_optional=test,
        trailing_fields=task.trailing_fields,
        number=task.number if test else None,
    )


# --- own data ------------------------------------------------------------------------------------


def own_splits(args: argparse.Namespace) -> tuple[list[Split], Labels]:
    """Return the splits named as SPLIT=FILE with --from-tsv, --from-csv or --from-jsonl, or those of the hub."""
    texts = [_column("--text-columns", name, args.no_header) for name in args.text_columns or ()]
    label = _column("--label-column", args.label_column, args.no_header)
    if not 1 <= len(texts) <= 2 or len({*texts, label}) <= len(texts):
        allowed = "the column of the sentences, or two for pairs, and not that of the labels"
        names = " ".join(args.text_columns or ["is missing"])
        raise InputError(f"--text-columns {names}: name {allowed} (--label-column {args.label_column})")
    columns = Columns(texts, label, header=not args.no_header, unused_fields=args.no_header)
    kind = "hub" if args.from_hub else next(kind for kind in OWN if getattr(args, f"from_{kind}"))
    values = (args.splits or HUB) if kind == "hub" else getattr(args, f"from_{kind}")
    splits = []
    for name, file in _pairs(kind, values):
        split_columns = columns._replace(label_optional=name.startswith("test"))
        if kind == "hub":
            splits.append(Split(name, *hub_rows(args.from_hub, file, split_columns)))
        else:
            splits.append(file_split(name, kind, Source.file(Path(file)), split_columns, note_quotes=kind == "tsv"))
    splits.sort(key=lambda split: not split.is_train)  # the training split names the classes of the others
    labels = Labels(args.labels, scale=args.regression, keep_order=bool(args.labels))
    return transformed(splits, labels, args.task, len(texts), args)


def _pairs(kind: str, values: Sequence[str]) -> list[tuple[str, str]]:
    """Return (split, file) of each SPLIT=FILE; raise InputError for other splits, and for one that is named twice."""
    pairs = [(name, file) for name, _, file in (value.partition("=") for value in values)]
    names = [name for name, file in pairs if file and name.rstrip("0123456789") in ("train", "valid", "test")]
    if len(set(names)) < len(pairs):
        raise InputError(f"--from-{kind} {' '.join(values)}: give train=..., valid=... and, if there is one, test=...")
    return pairs


def _column(option: str, name: str, by_number: bool) -> str | int:
    if not by_number:
        return name
    if not name.isdecimal() or not int(name):
        raise InputError(f"{option} {name}: with --no-header columns are numbers, from 1: give such a number")
    return int(name) - 1


def transformed(
    splits: list[Split], labels: Labels, name: str, inputs: int, args: argparse.Namespace
) -> tuple[list[Split], Labels]:
    """Return the splits and labels, changed as --efl and --swap-pairs say."""
    descriptions = EFL_DESCRIPTIONS.get(name, {}) if args.efl else {}
    if args.efl and (inputs != 1 or not descriptions or not descriptions.keys() <= labels.codes.keys()):
        what = f"{name} has no descriptions of its classes ({', '.join(labels.codes)}) for single sentences"
        remedy = "name described classes with --labels, or add to EFL_DESCRIPTIONS in preprocess/splits.py"
        raise InputError(f"--efl: {what}; {', '.join(EFL_DESCRIPTIONS)} have: leave it out, {remedy}")
    swapped = args.swap_pairs == "append"
    if swapped and inputs != 2 and not args.efl:
        raise InputError(f"--swap-pairs append: {name} has single sentences: leave it out")
    for split in splits:
        split.classes = labels.codes  # with own data, reading the training split adds the classes
        split.descriptions = descriptions
        # a test line that is skipped has no prediction
        split.strict = args.strict or (split.name.startswith("test") and not args.skip_bad)
        split.passes = 2 if swapped and split.is_train else 1
    return splits, Labels((NOT_ENTAILED, ENTAILED), keep_order=True) if args.efl else labels
