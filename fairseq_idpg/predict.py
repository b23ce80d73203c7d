"""Predictions of a checkpoint: ``python -m fairseq_idpg.predict --path CHECKPOINT --text FILE``.

For sentences (--text; - reads standard input): a table with a header, or JSON lines, of label, probability and
sentence, or of score and sentence. For a split of a binarized folder (DATA-bin): one line for each example, in the
order of the data: the class and the probabilities of all classes, whose order is printed, or the score. A row that
gave no example has a line with empty columns, or nan for its score: line n answers row n of the raw file. Scores are in
the task's own scale. With --choose the class is 1 for the likeliest answer to each question, and 0 for the others.

--path A B C: what several checkpoints on one backbone say of each sentence; NAME=FILE names the task of one.
"""

import argparse
import sys
from collections.abc import Sequence

from preprocess.flags import named_path

from .errors import logged_command
from .inference.cli_options import add_model_options, add_reading_options
from .inference.files import FORMATS, JSON_FORM
from .inference.predict import check, predict_folder, predict_texts


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("python -m fairseq_idpg.predict", description=(__doc__ or "").split(":")[0])
    add = made.add_argument
    add("data", metavar="DATA-bin", nargs="?", help="binarized folder, instead of --text")
    add_model_options(made)
    add("--out", metavar="FILE", type=named_path, help="file of the predictions (default, of --text: standard output)")
    add("--batch-size", type=int, default=64, metavar="N", help="default: 64")
    text = made.add_argument_group("sentences")
    text.add_argument("--text", metavar="FILE|-", help="file of sentences, one in each line; -: standard input")
    layout = text.add_mutually_exclusive_group()
    layout.add_argument("--pairs", choices=["tab"], help="tab: the two sentences of a pair in each line, a tab between")
    layout.add_argument("--jsonl", action="store_true", help=f"each line is JSON, as in FILE.jsonl: {JSON_FORM}")
    text.add_argument("--format", choices=list(FORMATS), help="default: by the suffix of --out, or tsv")
    add_reading_options(text)
    folder = made.add_argument_group("a binarized folder")
    folder.add_argument("--split", help="default: test")
    folder.add_argument("--choose", action="store_true", help="give the label 1 to one answer of each question (COPA)")
    folder.add_argument("--representation-cache", metavar="DIR", help="folder that keeps M(x) of every example")
    folder.add_argument("--state-cache", metavar="DIR", help="folder that keeps what enters the first layer to be run")
    return made


@logged_command()
def main(argv: Sequence[str] | None = None) -> None:
    args = parser().parse_args(argv)
    if args.data is None and args.text is None and len(args.path) > 1:  # --path FILE DATA-bin
        args.data = args.path.pop()
    check(args)
    predict_folder(args) if args.text is None else predict_texts(args)


if __name__ == "__main__":
    sys.exit(main())
