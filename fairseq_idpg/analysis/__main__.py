"""The command line: ``python -m fairseq_idpg.analysis cosine | neighbours``."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from preprocess.encoders import ENCODERS
from preprocess.flags import named_path
from preprocess.tasks import TASKS

from ..errors import add_log_level, check_there, logged_command


def cosine(parser: argparse.ArgumentParser) -> str:
    """Do prompts bring similar sentences closer? Gold scores of the pairs with the highest cosine."""
    add = parser.add_argument
    add("data", metavar="DATA-bin", help="binarized folder of pairs with scores, such as STS-B's")
    add("--path", required=True, metavar="FILE", help="checkpoint of the model with prompts")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--baseline", metavar="FILE", help="checkpoint to compare with, such as one of fine-tuning")
    other.add_argument("--backbone", metavar="FILE", help="compare with this model.pt as it is, not fine-tuned")
    add("--split", default="valid", help="default: valid")
    add("--top-k", type=int, nargs="+", action="extend", metavar="K", help="default: 100 200 300")
    add("--groups", type=int, default=5, metavar="N", help="groups of gold scores (default: 5)")
    place = (
        "where the prompt stands in a single sentence (default: what the checkpoint's own corresponds to: 0 and 2, in "
        "front of a sentence: 0; 1 and 3, in front of its </s>: 1; 4: 4)"
    )
    add("--prompt-position", type=int, choices=(0, 1, 4), help=place)
    largest = f"what the largest score, {TASKS['STS-B'].scale:g}, is in the folder's label files (default: 1)"
    add("--largest-score", type=float, default=1.0, metavar="S", help=largest)
    add("--out", type=named_path, metavar="FILE", help="bar plot: .png, .svg or .pdf")
    add("--json", type=named_path, metavar="FILE", help="the numbers, with all cosines and scores")
    add("--batch-size", type=int, default=64, metavar="N", help="sentences at a time (default: 64)")
    add("--model-overrides", metavar="DICT", help="as of fairseq-validate: \"{'backbone': 'NEW/model.pt'}\"")
    add("--cpu", action="store_true", help="do not use a GPU")
    return "STS-B-bin --path idpg.pt --baseline fine-tuning.pt --out cosines.pdf"


def neighbours(parser: argparse.ArgumentParser) -> str:
    """Which words do learnt prompts resemble? Nearest word embeddings of each prompt row, by cosine."""
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT.pt", help="checkpoint of a model with prompts in the input")
    add("--dict", type=named_path, metavar="FILE|DATA-bin", help="dictionary of the backbone (default: that of --data)")
    add("--bpe", choices=list(ENCODERS), help="encoder of the symbols (default: what the folder was made with)")
    add("--vocab", type=named_path, metavar="DIR", help="folder of the encoder's files")
    add("--top", type=int, default=5, metavar="N", help="words for each row (default: 5)")
    layer = "whose prompt (default: 0); above 0 it enters hidden states, not words"
    add("--layer", type=int, default=0, metavar="L", help=layer)
    data = "show the prompts generated from the first examples of this folder"
    add("--data", type=named_path, metavar="DATA-bin", help=data)
    add("--split", default="valid", help="default: valid")
    add("--examples", type=int, default=3, metavar="N", help="how many (default: 3)")
    add("--model-overrides", metavar="DICT", help="as of fairseq-validate: \"{'backbone': 'NEW/model.pt'}\"")
    return "idpg.pt --data STS-B-bin --examples 5"


def parser() -> argparse.ArgumentParser:
    program = "python -m fairseq_idpg.analysis"
    made = argparse.ArgumentParser(program, description="What trained prompts do.")
    commands = made.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for add_arguments in (cosine, neighbours):  # which also return an example; their modules import torch and fairseq
        name, about = add_arguments.__name__, add_arguments.__doc__
        command = commands.add_parser(name, help=about, description=about)
        command.epilog = f"Example: {program} {name} {add_arguments(command)}"
        made.epilog = made.epilog or command.epilog
        add_log_level(command)
    return made


@logged_command()
def main(argv: Sequence[str] | None = None) -> None:
    args = parser().parse_args(argv)
    for option in ("CHECKPOINT", "--path", "--baseline", "--backbone"):
        check_there(option, getattr(args, option.strip("-").lower(), None))
    # here, as torch and fairseq take seconds to import
    from .. import plugin  # noqa: F401

    import_module(f"{__package__}.{args.command}").run(args)


if __name__ == "__main__":
    sys.exit(main())
