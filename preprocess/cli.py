"""The command line: ``python -m preprocess TASK`` and the commands few-shot, glove, stats, tasks."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from .encoders import ENCODERS
from .errors import InputError, command_line, did_you_mean
from .flags import flag_name, named_path, positive, positive_number

LABEL = "label"  # the column of labels
COMMANDS = ("few-shot", "glove", "stats", "tasks")
ABOUT = """Raw files of a task to the binarized folder OUT/TASK-bin that fairseq reads.

TASK is one of those that `python -m preprocess tasks` lists, or any name with one of the --from options.
Other commands: python -m preprocess few-shot | glove | stats | tasks, each with --help."""
EXAMPLE = "example: python -m preprocess RTE --raw glue_data --out data"


def parser() -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser("python -m preprocess", description=ABOUT, epilog=EXAMPLE, formatter_class=layout)
    add = made.add_argument
    add("task", metavar="TASK")
    add("--raw", metavar="DIR", help="folder of the raw files, or a zip archive of GLUE or SuperGLUE")
    add("--out", metavar="DIR", type=named_path, required=True, help="where TASK-bin goes")
    several: dict[str, Any] = {"nargs": "+", "action": "extend"}  # given twice, both count
    add("--splits", **several, metavar="SPLIT", help="make only these (default: all, test only where it is there)")
    add("--bpe", choices=list(ENCODERS), default="gpt2", help="pieces of the backbone (default: gpt2, RoBERTa's)")
    add("--vocab", type=named_path, metavar="DIR", help="the encoder's files (default, of gpt2: checkpoints/gpt2_bpe)")
    add("--workers", type=positive, default=1, metavar="N", help="processes that encode (default: 1)")
    add("--max-length", type=positive, metavar="N", help="cut sentences to N tokens (default: no cut)")
    add("--csv-quotes", choices=["strip", "keep"], default="strip", help="keep: as in the authors' published folders")
    add("--swap-pairs", choices=["none", "append"], default="none", help="append: train also on exchanged pairs")
    add("--efl", action="store_true", help="sentence and label description as an entailment pair")
    bad = made.add_mutually_exclusive_group()
    bad.add_argument("--strict", action="store_true", help="a malformed line is an error (default: in test alone)")
    bad.add_argument("--skip-bad", action="store_true", help="skip it in test too: its prediction is empty")
    add("--overwrite", action="store_true", help="replace an existing folder")
    own = made.add_argument_group("your own data")
    for kind in ("tsv", "csv", "jsonl"):
        own.add_argument(f"--from-{kind}", **several, metavar="SPLIT=FILE", help="train=a valid=b test=c")
    hub = "a Hugging Face data set, --splits train=train ...; without NAME: TASK of GLUE or SuperGLUE"
    own.add_argument("--from-hub", metavar="NAME[:CONFIG]", nargs="?", const="", help=hub)
    own.add_argument("--text-columns", **several, metavar="COLUMN", help="one column, or two for pairs")
    own.add_argument("--label-column", metavar="COLUMN", default=LABEL, help=f"default: {LABEL}")
    classes = "the classes, in the order of their ids (default: the most frequent first)"
    own.add_argument("--labels", **several, metavar="LABEL", help=classes)
    scores = "scores, divided by SCALE"
    own.add_argument("--regression", type=positive_number, nargs="?", const=1.0, metavar="SCALE", help=scores)
    own.add_argument("--no-header", action="store_true", help="files have no header: columns are numbers from 1")
    return made


def check(args: argparse.Namespace) -> None:
    known = ("raw", "from_tsv", "from_csv", "from_jsonl", "from_hub")
    sources = [flag_name(name) for name in known if getattr(args, name) is not None]
    if len(sources) != 1:
        named = f"not {' and '.join(sources)}" if sources else "none was given"
        raise InputError(f"give one of --raw, --from-tsv, --from-csv, --from-jsonl and --from-hub; {named}")
    scores, own_data = args.regression is not None, "data of your own (--from-...)"
    known_task = args.raw is not None or args.from_hub == ""
    for present, option, goes_with in (
        (known_task and args.text_columns, "--text-columns", own_data),
        (known_task and args.label_column != LABEL, "--label-column", own_data),
        (known_task and args.labels, "--labels", own_data),
        (known_task and scores, "--regression", own_data),
        (known_task and args.no_header, "--no-header", own_data),
        (args.splits and not known_task and not args.from_hub, "--splits", "--raw and --from-hub"),
        (args.csv_quotes == "keep" and not args.raw, "--csv-quotes keep", "the csv files of CR, MR, SUBJ and MPQA"),
        (scores and args.labels, "--regression", "scores, not with --labels"),
        (scores and args.efl, "--efl", "classes, not with --regression"),
    ):
        if present:
            raise InputError(f"{option} goes with {goes_with}: leave it out")
    check_task_name(args.task)
    labels = args.labels or []
    if len(set(labels)) < len(labels):
        raise InputError(f"--labels {' '.join(labels)} names a class twice: give each class once")


def check_task_name(name: str) -> None:
    """Raise InputError unless a folder can have the name."""
    if not name or "/" in name or name.startswith(".") or not name.isprintable():
        raise InputError(f"TASK {name!r} is not the name of a folder: give one without / and control characters")


def main(arguments: Sequence[str]) -> Path:
    """Make the folder that a command line asks for, and return its path."""
    from .build import build  # imports numpy and the encoders, which --help does not need

    args = parser().parse_args(arguments)
    check(args)
    return build(args, arguments)


@command_line("preprocess")
def run(arguments: Sequence[str] | None = None) -> None:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] in COMMANDS:
        import_module(f".{arguments[0].replace('-', '_')}", __package__).main(arguments[1:])
        return
    hint = did_you_mean(arguments[0], COMMANDS) if arguments else ""
    if hint and not any(word.startswith("--o") for word in arguments):  # --out may be shortened
        raise InputError(f"{arguments[0]} is not a command: {hint}A task of this name needs --out DIR")
    main(arguments)
