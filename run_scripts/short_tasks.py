"""Binarized tasks for comparisons that a laptop finishes: of short examples, or with large tests.

    python -m run_scripts.short_tasks TEXT --out data/short --bpe bert --vocab quickstart/minilm-hf
    python -m run_scripts.short_tasks TEXT --out data/tests --bpe bert --vocab quickstart/minilm-hf --large-tests

TEXT/TASK/{train,valid}.tsv: label TAB sentence, or label TAB sentence TAB sentence, without a header; TASK in upper or
lower case; or one file all.tsv for both. Examples of more words than the task's limit are left out; the others are
drawn in an order that is always the same, that of Python's random.Random(1). The reported examples are drawn first: of
MR, and of MRPC with --large-tests, from valid.tsv, of the others from both files. RTE and MRPC have few short ones in
valid.tsv. CR's classes are far more unequal in train.tsv than in valid.tsv, so that scores would tell a model's bias,
not what it has learnt. --large-tests reports 2,000 sentences of each task, as the paper does, and the published
development set of MRPC by its accuracy.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from preprocess import cli
from preprocess.errors import command_line
from preprocess.flags import named_path
from preprocess.sources import Source
from preprocess.tasks import TASKS
from preprocess.writing import new_folder


class Size(NamedTuple):
    """Most words of an example, and the examples of each split; ``pooled``: both are drawn from both files."""

    words: int
    train: int
    valid: int
    pooled: bool = False


SIZES = {
    "MR": Size(20, 1800, 500),
    "CR": Size(20, 1500, 500, pooled=True),
    "STS-B": Size(24, 1800, 500, pooled=True),
    "MRPC": Size(40, 1101, 500, pooled=True),
    "RTE": Size(36, 708, 400, pooled=True),
}
ANY = 1000  # words: no limit
LARGE_TESTS = {
    "MPQA": Size(ANY, 8606, 2000, pooled=True),
    "SUBJ": Size(ANY, 8000, 2000, pooled=True),
    "MR": Size(ANY, 8662, 2000),
    "CR": Size(ANY, 1775, 2000, pooled=True),
    "MRPC-accuracy": Size(ANY, 3668, 408),  # a name of own data, which is scored by accuracy
}


def splits(folder: Path, size: Size) -> dict[str, list[str]]:
    """Return lines of short examples, drawn in an order that is always the same."""
    whole = folder / "all.tsv"

    def short(*names: str) -> list[str]:
        paths = [whole] if whole.exists() else [folder / f"{name}.tsv" for name in names]
        lines = [line for path in paths for _, line in Source.file(path).lines()]
        lines = [f"{line}\n" for line in lines if len(line.partition("\t")[2].split()) <= size.words]
        random.Random(1).shuffle(lines)
        return lines

    if size.pooled or whole.exists():
        lines = short("train", "valid")
        return {"valid": lines[: size.valid], "train": lines[size.valid :][: size.train]}
    return {"train": short("train")[: size.train], "valid": short("valid")[: size.valid]}


@command_line("run_scripts")
def main(arguments: Sequence[str] | None = None) -> None:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m run_scripts.short_tasks", description=__doc__, formatter_class=layout)
    parser.add_argument("text", metavar="TEXT", type=named_path, help="folder of the TASK folders")
    parser.add_argument("--out", metavar="DIR", type=named_path, required=True, help="where the TASK-bin folders go")
    parser.add_argument(
        "--large-tests", action="store_true", help="2,000 reported examples instead of 500, of any length"
    )
    parser.add_argument("--tasks", nargs="+", action="extend", help="default: all")
    parser.add_argument("--bpe", default="gpt2", help="as of python -m preprocess, and --vocab too")
    parser.add_argument("--vocab", default="checkpoints/gpt2_bpe", help="default: checkpoints/gpt2_bpe")
    args = parser.parse_args(arguments)
    sizes = LARGE_TESTS if args.large_tests else SIZES
    if unknown := sorted(set(args.tasks or ()) - sizes.keys()):
        parser.error(f"--tasks {unknown[0]}: choose from {', '.join(sizes)}")
    with new_folder(args.out) as made, tempfile.TemporaryDirectory() as texts:
        for name in args.tasks or sizes:
            published = name.partition("-")[0] if name not in TASKS else name
            task, folder = TASKS[published], args.text / published
            words = [name, "--from-tsv", *(f"{split}={texts}/{split}.tsv" for split in ("train", "valid"))]
            words += ["--no-header", "--text-columns", *("23" if task.pairs else "2"), "--label-column", "1"]
            words += ["--regression"] if task.regression else ["--labels", *task.labels]
            folder = folder if folder.exists() else args.text / published.lower()
            for split, lines in splits(folder, sizes[name]).items():
                Path(texts, f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
            cli.main([*words, "--bpe", args.bpe, "--vocab", args.vocab, "--out", str(made)])


if __name__ == "__main__":
    main()
