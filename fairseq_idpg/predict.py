"""Predictions of a checkpoint: ``python -m fairseq_idpg.predict --path CHECKPOINT --text FILE``.

For sentences (--text; - reads standard input) it writes a table with a header, or JSON lines: label, probability and
sentence, or score and sentence. For a split of a binarized folder (DATA-bin) it writes a line for each row of the raw
file: the class and the probabilities of all classes, whose order is printed, or the score. The columns of a row that
gave no example are empty, and its score is nan. Scores are in the task's own scale. With --choose the class is 1 for
the likeliest answer to each question, and 0 for the others.

--path A B C: the answers of several checkpoints on one backbone to each sentence; NAME=FILE names the task of one.
"""

import argparse
import contextlib
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from preprocess.data_folder import DataFolder
from preprocess.errors import shown
from preprocess.flags import flag_name, named_path, positive
from preprocess.writing import check_output, check_replaces_nothing, open_output, write_output

from .errors import InputError, check_there, command_parser, is_hub_name, logged_command
from .inference.files import FORMATS, JSON_FORM, Answer, Prediction, Text, TextFile, Writer, standard_output

CHUNK = 8192  # texts that are sorted by length together
SHOWN = 5  # numbers of lines without an example
# Options that are arguments of ``open_checkpoint``
READING = ("backbone", "vocab", "vectors", "fp16", "truncate", "int8", "method_file")
FOLDER_OPTIONS = ("split", "choose", "representation_cache", "state_cache")
TEXT_OPTIONS = ("pairs", "jsonl", "format", "vocab", "vectors", "fp16")
# suffixes of --text whose lines are not sentences, and how such a file is read
TABLE = "a table", "--pairs tab for two columns of a pair, a .txt file of sentences alone, or JSON lines"
JSON = "JSON", "--jsonl, if each line is one JSON value, or a .txt file of sentences"
NO_SENTENCES = {**dict.fromkeys((".csv", ".tsv", ".tab"), TABLE), **dict.fromkeys((".json", ".ndjson"), JSON)}


def add_model_options(parser: Any) -> None:
    add = parser.add_argument
    what = "checkpoint of fairseq-train, folder to share or its model.onnx; of several NAME=FILE names the task"
    add("--path", required=True, nargs="+", action="extend", metavar="FILE", help=what)
    add("--backbone", metavar="FILE", help="where the backbone is now, if it has moved")
    add("--method-file", metavar="FILE", help="Python file of a method that is not part of this package; it is run")
    add("--cpu", action="store_true", help="do not use a GPU")
    add("--int8", action="store_true", help="compute in int8, on a CPU, with an ONNX file that is made once")


def add_reading_options(parser: Any) -> None:
    add = parser.add_argument
    add("--vocab", metavar="DIR", help="where the encoder's files are now, if they have moved")
    add("--vectors", metavar="FILE", help="word vectors, for methods that read them")
    add("--truncate", action="store_true", help="cut texts that are too long at their ends")
    add("--fp16", action="store_true", help="half precision, on a GPU")


def name_and_path(text: str) -> tuple[str | None, str]:
    """Return the task's name, if there is one, and the file of ``NAME=FILE`` or ``FILE``."""
    name, equals, path = text.partition("=")
    if equals and name and os.sep not in name and not os.path.exists(text):
        return name, path
    return None, text


@contextlib.contextmanager
def naming_options(args: argparse.Namespace) -> Iterator[None]:
    """Name options in errors of the library, which name arguments in Python: `vocab` becomes --vocab, and so on."""
    try:
        yield
    except InputError as error:
        message = re.sub(r"`(\w+)`", lambda name: flag_name(name[1]), str(error))
        for _, path in map(name_and_path, args.path):
            message = message.replace(f"checkpoint {path}", f"--path {path}")
        raise InputError(message) from None


def check_files(args: argparse.Namespace) -> None:
    """Raise InputError where the file of --path or --backbone is missing."""
    named = [name_and_path(path)[1] for path in args.path]
    check_there("--path", *(path for path in named if not is_hub_name(path)))
    check_there("--backbone", args.backbone)


def open_model(args: argparse.Namespace) -> Any:
    """Return the ``Predictor`` of --path, or ``ManyTasks`` of several; a model with a name is a task, too."""
    from . import plugin  # noqa: F401  here, as torch and fairseq take seconds to import
    from .inference.load import open_checkpoint, open_many

    options = {name: getattr(args, name) for name in READING}
    options["device"] = "cpu" if args.cpu else None
    (name, path), *others = map(name_and_path, args.path)
    with naming_options(args):
        if name is None and not others:
            return open_checkpoint(path, **options)
        return open_many([(name, path), *others], **options)


def build_parser() -> argparse.ArgumentParser:
    example = "--path runs/rte/checkpoint_best.pt --text pairs.tsv --pairs tab --out answers.csv"
    parser = command_parser("predict", __doc__, example)
    add = parser.add_argument
    add("data", metavar="DATA-bin", nargs="?", help="binarized folder, instead of --text")
    add_model_options(parser)
    add("--out", metavar="FILE", type=named_path, help="file of the predictions (default, of --text: standard output)")
    add("--batch-size", type=positive, default=64, metavar="N", help="default: 64")
    text = parser.add_argument_group("sentences")
    text.add_argument("--text", metavar="FILE|-", help="file of sentences, one in each line; -: standard input")
    layout = text.add_mutually_exclusive_group()
    layout.add_argument("--pairs", choices=["tab"], help="tab: the two sentences of a pair in each line, a tab between")
    layout.add_argument("--jsonl", action="store_true", help=f"each line is JSON, as in FILE.jsonl: {JSON_FORM}")
    text.add_argument("--format", choices=list(FORMATS), help="default: by the suffix of --out, or tsv")
    add_reading_options(text)
    folder = parser.add_argument_group("a binarized folder")
    folder.add_argument("--split", help="default: test")
    folder.add_argument("--choose", action="store_true", help="give the label 1 to one answer of each question (COPA)")
    folder.add_argument("--representation-cache", metavar="DIR", help="folder that keeps M(x) of every example")
    folder.add_argument("--state-cache", metavar="DIR", help="folder that keeps what enters the first layer to be run")
    return parser


def check(args: argparse.Namespace) -> None:
    if (args.data is None) == (args.text is None):
        both = f"not both DATA-bin {args.data} and --text {args.text}" if args.data else "both are missing"
        raise InputError(f"give sentences with --text FILE (-: standard input), or a binarized folder; {both}")
    others, needed = (FOLDER_OPTIONS, "a binarized folder") if args.data is None else (TEXT_OPTIONS, "--text")
    for name in others:
        if getattr(args, name):
            raise InputError(f"{flag_name(name)} goes with {needed}: leave it out")
    if args.data is not None:
        if args.out is None:
            raise InputError("--out is missing: name the file of the predictions")
        if args.out.suffix.lower() in (".csv", ".json", ".jsonl"):
            raise InputError(f"--out {args.out}: predictions of a folder are columns with tabs between: name it .tsv")
        if len(args.path) > 1:
            raise InputError(f"--path {' '.join(args.path)}: several tasks read --text; for a folder give one")
    elif layout_of(args) == "lines" and (suffix := suffix_of(args.text)) in NO_SENTENCES:
        kind, remedy = NO_SENTENCES[suffix]
        raise InputError(
            f"--text {args.text} is {kind} by its name, and a whole line of it would be taken for a sentence: give "
            f"{remedy}"
        )
    check_files(args)


def check_out(args: argparse.Namespace, model: Any, encoder_files: Iterable[Path] = ()) -> None:
    """Raise InputError where the predictions would overwrite a file that they are made from."""
    if args.out is not None:
        files = {"--text": args.text, "DATA-bin": args.data, "--backbone": args.backbone, "--vectors": args.vectors}
        read: dict[str, Any] = {name: [file] for name, file in files.items()}
        read.update({"--path": [name_and_path(path)[1] for path in args.path], "the encoder of --path": encoder_files})
        check_replaces_nothing(args.out, "--out", {**read, "the backbone of --path": [model.args.backbone]})


def suffix_of(text: str) -> str:
    """Return the suffix of --text in lower case, without that of gzip."""
    return Path(text.removesuffix(".gz")).suffix.lower()


def layout_of(args: argparse.Namespace) -> str:
    if args.pairs:
        return "tab"
    return "jsonl" if args.jsonl or suffix_of(args.text) == ".jsonl" else "lines"


def blank_answer(model: Any, beside: Text | None) -> Answer:
    """Return what stands for a blank line: no label, or no score; its columns are those of the text ``beside``."""
    tasks = getattr(model, "tasks", {"": model})
    pair = next(iter(tasks.values())).record.pairs if beside is None else not isinstance(beside, str)
    text: Text = ("", "") if pair else ""
    blanks = {name: Prediction(text, None if task.record.regression else "") for name, task in tasks.items()}
    return blanks if hasattr(model, "tasks") else blanks[""]


def predict_texts(args: argparse.Namespace) -> None:
    texts = TextFile(args.text, layout_of(args))
    form = args.format or ("" if args.out is None else args.out.suffix[1:]) or "tsv"
    if form not in FORMATS:
        raise InputError(f"--out {args.out}: give it the suffix .{', .'.join(FORMATS)}, or give --format")
    model = open_model(args)
    for task in getattr(model, "tasks", {"": model}).values():
        check_out(args, task.model, task.text.encoder.files)
    start = time.perf_counter()
    output: Any = contextlib.nullcontext(standard_output()) if args.out is None else open_output(args.out, "--out")
    blank_lines = 0
    with naming_options(args), output as file, tqdm(unit=" texts", disable=True if args.out is None else None) as bar:
        writer = Writer(file, form)
        for chunk in texts.chunks(CHUNK):
            filled = [line for line in chunk if line.text]
            names, sentences = [texts.name(line.number) for line in filled], [line.text for line in filled]
            answers = iter(model.predict(sentences, batch_size=args.batch_size, name=names.__getitem__))
            blank = blank_answer(model, next(iter(sentences), None))
            writer.write(next(answers) if line.text else blank for line in chunk)
            file.flush()
            bar.update(len(chunk))
            blank_lines += len(chunk) - len(filled)
    if args.out is not None:
        report(args.out, writer.written - blank_lines, args.text, start)
    if blank_lines:
        print(f"{blank_lines:,} blank {'line has' if blank_lines == 1 else 'lines have'} no answer", file=sys.stderr)


def predict_folder(args: argparse.Namespace) -> None:
    split = "test" if args.split is None else args.split
    check_output(args.out, "--out")
    from . import plugin  # noqa: F401
    from .inference.folder import load_on_folder, predict_split, questions_of
    from .models.config import use_method_file

    use_method_file(args.method_file)
    changed = {"backbone": args.backbone} if args.backbone else {}
    caches = {"representation_cache": args.representation_cache, "state_cache": args.state_cache}
    with naming_options(args):
        model, task = load_on_folder(args.path[0], args.data, args.cpu, args.int8, args.truncate, **caches, **changed)
    check_out(args, model)
    questions = questions_of(task, split) if args.choose else None
    start = time.perf_counter()
    predictions = predict_split(model, task, split, args.batch_size, progress=True)
    left_out = DataFolder(Path(args.data)).left_out(split)
    lines = predictions.lines_by_row(left_out, questions)
    write_output(args.out, "".join(f"{line}\n" for line in lines), "--out")
    report(args.out, len(predictions.outputs), split, start)
    if left_out:
        first = ", ".join(str(line) for _, line in left_out[:SHOWN]) + (", ..." if len(left_out) > SHOWN else "")
        print(f"without an example and with empty columns: {len(left_out):,} lines of the raw file, {first}")
    if predictions.label_names:
        print(f"columns: the class, and the probabilities of {', '.join(map(shown, predictions.label_names))}")


def report(out: Path, count: int, what: str, start: float) -> None:
    """Print how many predictions of ``what`` were made since ``start``."""
    seconds = time.perf_counter() - start
    print(f"{out}: {count:,} predictions of {what} in {seconds:.1f} s ({count / seconds:,.0f} a second)")


@logged_command()
def main(argv: Sequence[str] | None = None) -> None:
    args = build_parser().parse_args(argv)
    if args.data is None and args.text is None and len(args.path) > 1:
        # --path takes several files, so it took a DATA-bin that follows as one of them
        args.data = args.path.pop()
    check(args)
    predict_folder(args) if args.text is None else predict_texts(args)


if __name__ == "__main__":
    sys.exit(main())
