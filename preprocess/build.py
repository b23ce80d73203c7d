"""Rows of text to a binarized folder, from the parsed command line; its summary and its records.

Text is encoded a chunk at a time. Of each example only its lengths and its label stay in memory, some 20 bytes.
"""

import argparse
import contextlib
import json
import platform
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from .checksums import FOLDER_FACTS, sha256, write_checksums
from .data_folder import CONTENT, joined
from .dictionary import UNKNOWN
from .encoders import Encoder, load_encoder, vocab_folder
from .errors import InputError, escaped
from .flags import aligned
from .indexed import IndexedWriter
from .labels import Labels
from .questions import question_file, question_line
from .readers import Row
from .splits import Split, own_splits, task_splits
from .tasks import MAX_POSITIONS, TASKS, TEST_SETS, find_task
from .writing import check_only, new_folder

CHUNK = 2000  # examples
LONGEST_CHUNK = 1 << 20  # characters: fewer examples where these are long
SHOWN = 5  # malformed lines on the terminal; the log has all
TOO_LONG = f">{MAX_POSITIONS}"
COUNTS = ("unknown", TOO_LONG, "truncated", "empty", "malformed")
Encoded = list["tuple[np.ndarray, np.ndarray]"]  # ids and lengths of each input


def build(args: argparse.Namespace, arguments: Sequence[str]) -> Path:
    """Make ``OUT/TASK-bin``, print the summary and return the folder."""
    started = time.monotonic()
    if args.raw or args.from_hub == "":  # a known task, from its files or the hub
        task = find_task(args.task, {**TASKS, **TEST_SETS})
        args.task = task.name
        splits, labels = task_splits(task, args)
    else:
        splits, labels = own_splits(args)
    args.vocab = vocab_folder(args.bpe, args.vocab)
    target = args.out / f"{args.task}-bin"
    check_only(target, CONTENT)
    encoder = load_encoder(args.bpe, args.vocab)
    with new_folder(target, args.overwrite) as folder:
        for split in splits:
            write_split(split, labels, encoder, args, folder)
        for part in sorted(folder.glob("input*")):
            (part / "dict.txt").write_bytes(encoder.dictionary_bytes())
        labels.write(folder / "label")
        write_records(folder, splits, labels, encoder, args, arguments)
    if encoder.assumed:
        print(encoder.assumed)
    print(f"{target} in {time.monotonic() - started:.1f} s\n{summary(splits, labels)}")
    return target


def write_split(split: Split, labels: Labels, encoder: Encoder, args: argparse.Namespace, folder: Path) -> None:
    """Write ``folder/{input0,input1}``, and ``number``, ``question`` and ``left_out`` if need be; add the labels."""
    writers: list[IndexedWriter] = []
    rows_of_split = split.rows()
    if sys.stderr.isatty():
        from tqdm import tqdm  # slow to load, and only for a terminal

        rows_of_split = tqdm(rows_of_split, split.name, unit=" examples", leave=False)
    with contextlib.ExitStack() as files:
        for rows, encoded in encode_stream(encoder, args, _chunks(rows_of_split)):
            if not writers:
                prefixes = [folder / f"input{number}" / split.name for number in range(len(encoded))]
                writers = [files.enter_context(IndexedWriter(path, len(encoder.symbols))) for path in prefixes]
                split.tokens = [0] * len(writers)
            labels.add(split.name, split.source.name, rows)
            _write_inputs(split, encoded, writers, args.max_length)
            numbers = [f"{row.number}\n" for row in rows if row.number is not None]
            split.counts["number"] += len(numbers)
            _append(folder / f"number/{split.name}.txt", numbers)
            questions = [question_line(row.question, row.answer) for row in rows if row.question is not None]
            _append(folder / question_file(split.name), questions)
    split.counts["malformed"] = len(split.malformed)
    if split.passes == 1:
        pairs = len(split.descriptions) or 1  # examples that --efl makes of a row
        _append(folder / f"left_out/{split.name}.txt", [f"{rows * pairs} {line}\n" for rows, line in split.left_out])
    if not split.counts["examples"]:
        first = "".join(f" (line {line}: {reason})" for line, reason in split.malformed[:1])
        raise InputError(f"{split.source.name} has no examples{first}: name another file, or leave out {split.name}")
    for what, count in (("label", len(labels.splits[split.name])), ("number", split.counts["number"])):
        if count not in (0, split.counts["examples"]):
            raise InputError(f"{split.source.name} has a {what} in some lines only: give every line its own")


def _chunks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    chunk: list[Row] = []
    size = 0
    for row in rows:
        length = sum(map(len, row.texts))
        if chunk and (len(chunk) == CHUNK or size + length > LONGEST_CHUNK):
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += length
    if chunk:
        yield chunk


def _write_inputs(split: Split, encoded: Encoded, writers: Sequence[IndexedWriter], max_length: int | None) -> None:
    examples = len(encoded[0][1])
    joined_lengths = np.full(examples, 2 * len(encoded))  # <s> A </s>, <s> A </s> </s> B </s>
    cut = empty = np.zeros(examples, bool)
    for number, (ids, lengths) in enumerate(encoded):
        if max_length is not None and lengths.max() > max_length + 1:  # without </s>, which lengths count
            cut = cut | (lengths > max_length + 1)
            ids, lengths = truncate(ids, lengths, max_length)
        joined_lengths = joined_lengths + lengths - 1
        empty = empty | (lengths == 1)
        writers[number].write(ids, lengths)
        split.tokens[number] += len(ids)
        split.counts["unknown"] += int((ids == UNKNOWN).sum())
    too_long = joined_lengths > MAX_POSITIONS
    marked = {TOO_LONG: too_long, "truncated": cut, "empty": empty}
    split.counts.update({"examples": examples, **{name: int(which.sum()) for name, which in marked.items()}})


def truncate(ids: np.ndarray, lengths: np.ndarray, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Keep the first ``longest`` tokens of each row and its ``</s>``."""
    starts = np.cumsum(lengths) - lengths
    place = np.arange(len(ids)) - np.repeat(starts, lengths)
    last = np.repeat(lengths, lengths) - 1
    return ids[(place < longest) | (place == last)], np.minimum(lengths, longest + 1)


def _append(path: Path, lines: Sequence[str]) -> None:
    if lines:
        path.parent.mkdir(exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.writelines(lines)


_encoder: Encoder  # of a worker process


def _start_worker(bpe: str, vocab: Path) -> None:
    global _encoder
    _encoder = load_encoder(bpe, vocab)


def _encode(texts: Sequence[tuple[str, ...]], encoder: Encoder | None = None) -> Encoded:
    return [(encoder or _encoder).encode(column) for column in zip(*texts)]


def encode_stream(
    encoder: Encoder, args: argparse.Namespace, chunks: Iterator[list[Row]]
) -> Iterator[tuple[list[Row], Encoded]]:
    """Yield each chunk with its ids, in order; with several workers only a few chunks are under way at a time."""
    if args.workers == 1:
        for rows in chunks:
            yield rows, _encode([row.texts for row in rows], encoder)
        return
    import multiprocessing  # these two are slow to load
    from concurrent.futures import Future, ProcessPoolExecutor

    context = multiprocessing.get_context("spawn")
    under_way: deque[tuple[list[Row], Future]] = deque()
    with ProcessPoolExecutor(args.workers, context, _start_worker, (args.bpe, args.vocab)) as pool:
        for rows in chunks:
            under_way.append((rows, pool.submit(_encode, [row.texts for row in rows])))
            if len(under_way) > 2 * args.workers:
                rows, future = under_way.popleft()
                yield rows, future.result()
        for rows, future in under_way:
            yield rows, future.result()


def summary(splits: Sequence[Split], labels: Labels) -> str:
    """Return a table of the splits, lines about labels and splits, and the first malformed lines."""
    rows: list[tuple[str, ...]] = [("split", "examples", "tokens", *COUNTS)]
    for split in splits:
        tokens = " + ".join(f"{count:,}" for count in split.tokens)
        numbers = (f"{split.counts[name]:,}" for name in COUNTS)
        rows.append((split.name, f"{split.counts['examples']:,}", tokens, *numbers))
    lines = [*aligned(rows, left=()), *labels.described()]
    # which training splits fairseq-train joins, and which it reads by name alone
    trained = [split.name for split in splits if split.is_train]
    together = joined("train", trained)
    others = [f"on {name} with --train-subset {name} alone" for name in trained if name not in together]
    if len(trained) > 1:
        lines.append(", ".join([f"fairseq-train trains on {' and '.join(together)}", *others]))
    # whether another split was read from the bytes of a training split
    digests = {split.source.sha256: split.name for split in splits if split.is_train}
    lines += [
        f"{split.name} is the text of {digests[split.source.sha256]}: its scores tell nothing about other sentences"
        for split in splits
        if split.source.sha256 in digests and not split.is_train
    ]
    for split in splits:
        bad = split.malformed
        if bad:
            shown = "; ".join(f"line {line}: {reason}" for line, reason in bad[:SHOWN])
            rest = f"; and {len(bad) - SHOWN} more (preprocess.log)" if len(bad) > SHOWN else ""
            lines.append(f"{split.source.name}: skipped {shown}{rest}")
        if split.csv_quoted:
            what = f"{len(split.csv_quoted):,} lines, the first {split.csv_quoted[0]}, have a text quoted as in csv"
            remedy = "its quotes are kept; if they are not the text's, save the file with commas and give --from-csv"
            lines.append(f"{split.source.name}: {what}; {remedy}")
    return "\n".join(map(escaped, lines))


def write_records(
    folder: Path, splits: list[Split], labels: Labels, encoder: Encoder, args: argparse.Namespace, argv: Sequence[str]
) -> None:
    """Write ``preprocess.log`` for people, ``preprocess.json`` for commands that find the encoder again, checksums.

    Checkpoints keep facts of ``preprocess.json``. Of these ``scale`` is None for classes, and ``max_length`` is None
    where sentences were not cut.
    """
    versions = installed_versions(("numpy", "tokenizers", "sentencepiece"))
    libraries = ", ".join(f"{name} {number}" for name, number in versions.items())
    lines = [
        f"command: python -m preprocess {' '.join(argv)}",
        f"python {platform.python_version()} on {sys.platform}, {libraries}",
        *(f"sha256 {sha256(path)} {path}" for path in encoder.files),
        *(f"sha256 {split.source.sha256} {split.source.name}" for split in splits),
        *filter(None, [encoder.assumed]),
        "",
        summary(splits, labels),
    ]
    for split in splits:
        lines += [escaped(f"malformed: {split.source.name} line {line}: {reason}") for line, reason in split.malformed]
    (folder / "preprocess.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    facts = {"task": args.task, "bpe": args.bpe, "vocab": str(args.vocab.resolve())}
    facts |= {"vocab_sha256": encoder.fingerprint(), "scale": labels.scale, "max_length": args.max_length}
    (folder / FOLDER_FACTS).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    write_checksums(folder)


def installed_versions(names: Iterable[str]) -> dict[str, str]:
    versions = {}
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
