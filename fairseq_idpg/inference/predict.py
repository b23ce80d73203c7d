"""Predictions in files: what ``python -m fairseq_idpg.predict`` does with its options."""

import argparse
import contextlib
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from preprocess.data_folder import DataFolder
from preprocess.errors import shown
from preprocess.flags import flag_name
from preprocess.writing import check_output, check_replaces_nothing, open_output, write_output

from ..errors import InputError
from .cli_options import as_typed, name_and_path, open_model
from .files import FORMATS, TextFile, Writer, standard_output
from .folder import load_on_folder, predict_split, questions_of
from .many import ManyTasks

CHUNK = 8192  # texts that are sorted by length together
# suffixes of --text with lines that are no sentences, and how such a file is read
TABLE = "a table", "--pairs tab for two columns of a pair, a .txt file of sentences alone, or JSON lines"
JSON = "JSON", "--jsonl, if each line has a value of its own, or a .txt file of sentences"
NO_SENTENCES = {**dict.fromkeys((".csv", ".tsv", ".tab"), TABLE), **dict.fromkeys((".json", ".ndjson"), JSON)}
SHOWN = 5  # lines without an example
OF_FOLDERS = ("split", "choose", "representation_cache", "state_cache")
OF_TEXT = ("pairs", "jsonl", "format", "vocab", "vectors", "fp16")


def check(args: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    if args.batch_size < 1:
        raise InputError(f"--batch-size {args.batch_size}: give 1 or more")
    if (args.data is None) == (args.text is None):
        given = f"not both DATA-bin {args.data} and --text {args.text}" if args.data else "none was given"
        raise InputError(f"give sentences with --text FILE (-: standard input), or a binarized folder; {given}")
    others, needed = (OF_FOLDERS, "a binarized folder") if args.data is None else (OF_TEXT, "--text")
    for name in others:
        if getattr(args, name):
            raise InputError(f"{flag_name(name)} goes with {needed}: leave it out")
    if args.data is not None:
        check_folder_options(args)
    elif layout_of(args) == "lines" and (suffix := suffix_of(args.text)) in NO_SENTENCES:
        kind, remedy = NO_SENTENCES[suffix]
        raise InputError(
            f"--text {args.text} is {kind} by its name, and a whole line of it would be taken for a sentence: give "
            f"{remedy}"
        )
    if args.out is not None:
        read = {"--path": [name_and_path(path)[1] for path in args.path], "--text": [args.text]}
        read.update({"DATA-bin": [args.data], "--backbone": [args.backbone], "--vectors": [args.vectors]})
        check_replaces_nothing(args.out, "--out", read)


def check_folder_options(args: argparse.Namespace) -> None:
    """Raise InputError where predictions for a folder have no file, or one of another kind, or several models."""
    if args.out is None:
        raise InputError("--out is missing: name the file of the predictions")
    if args.out.suffix.lower() in (".csv", ".json", ".jsonl"):
        raise InputError(f"--out {args.out}: of a folder predictions are columns, tabs between: name it .tsv")
    if len(args.path) > 1:
        raise InputError(f"--path {' '.join(args.path)}: several tasks read --text; for a folder give one")


def suffix_of(text: str) -> str:
    """Return that of --text in lower case, before that of gzip."""
    return Path(text.removesuffix(".gz")).suffix.lower()


def layout_of(args: argparse.Namespace) -> str:
    """Return how --text is read."""
    if args.pairs:
        return "tab"
    return "jsonl" if args.jsonl or suffix_of(args.text) == ".jsonl" else "lines"


def format_of(args: argparse.Namespace) -> str:
    """Return how predictions of --text are written; raise InputError for a suffix of --out that does not say so."""
    suffix = "" if args.out is None else args.out.suffix[1:]
    if args.format or not suffix:
        return args.format or "tsv"
    if suffix not in FORMATS:
        raise InputError(f"--out {args.out}: give it the suffix .{', .'.join(FORMATS)}, or give --format")
    return suffix


def predict_texts(args: argparse.Namespace) -> None:
    """Write predictions of --text, some at a time."""
    texts, form = TextFile(args.text, layout_of(args)), format_of(args)
    if args.out is None:
        output: Any = contextlib.nullcontext(standard_output())
    else:
        check_output(args.out, "--out")
        output = open_output(args.out, "--out")
    model = open_model(args)
    for task in model.tasks.values() if isinstance(model, ManyTasks) else [model]:
        check_replaces_no_part(args, task.model, task.text.encoder.files)
    start = time.perf_counter()
    with as_typed(args), output as file, tqdm(unit=" texts", disable=True if args.out is None else None) as bar:
        writer = Writer(file, form)
        for chunk in texts.chunks(CHUNK):
            names = [texts.name(line.number) for line in chunk]
            given = [line.text for line in chunk]
            writer.write(model.predict(given, batch_size=args.batch_size, name=names.__getitem__))
            file.flush()
            bar.update(len(chunk))
    if args.out is not None:
        report(args.out, writer.written, args.text, start)


def check_replaces_no_part(args: argparse.Namespace, model: Any, encoder_files: Any = ()) -> None:
    """Refuse a result that would overwrite a file of the model or of its encoder."""
    if args.out is not None:
        parts = {"the backbone of --path": [model.args.backbone], "the encoder of --path": encoder_files}
        check_replaces_nothing(args.out, "--out", parts)


def predict_folder(args: argparse.Namespace) -> None:
    """Write predictions of a split of a folder."""
    split = "test" if args.split is None else args.split
    check_output(args.out, "--out")
    changed = {"backbone": args.backbone} if args.backbone else {}
    caches = {"representation_cache": args.representation_cache, "state_cache": args.state_cache}
    with as_typed(args):
        model, task = load_on_folder(args.path[0], args.data, args.cpu, args.int8, args.truncate, **caches, **changed)
    check_replaces_no_part(args, model)
    questions = questions_of(task, split) if args.choose else None
    start = time.perf_counter()
    predictions = predict_split(model, task, split, args.batch_size, progress=True)
    left_out = DataFolder(Path(args.data)).left_out(split)
    lines = predictions.lines_by_row(left_out, questions)
    write_output(args.out, "".join(f"{line}\n" for line in lines), "--out")
    report(args.out, len(predictions.outputs), split, start)
    if left_out:
        first = ", ".join(str(line) for _, line in left_out[:SHOWN]) + (", ..." if len(left_out) > SHOWN else "")
        print(f"without an example, and so with an empty prediction: {len(left_out):,} lines of the raw file, {first}")
    if predictions.label_names:
        print(f"columns: the class, and the probabilities of {', '.join(map(shown, predictions.label_names))}")


def report(out: Path, count: int, what: str, start: float) -> None:
    """Print how many predictions of ``what`` were made since ``start``."""
    seconds = time.perf_counter() - start
    print(f"{out}: {count:,} predictions of {what} in {seconds:.1f} s ({count / seconds:,.0f} a second)")
