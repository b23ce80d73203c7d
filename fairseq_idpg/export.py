"""Make a folder to share out of a checkpoint: ``python -m fairseq_idpg.export CHECKPOINT DIR``.

DIR holds what was trained and its description, but neither the backbone nor anything that could run code:
prompt.safetensors, config.json and README.md. ``fairseq_idpg.load`` and ``python -m fairseq_idpg.predict --path`` take
it instead of the checkpoint. With --onnx it holds the whole model: model.onnx, config.json and the encoder's files.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from preprocess.writing import new_folder

from .errors import InputError, check_there, command_parser, logged_command


def export(
    checkpoint: str,
    folder: str,
    overwrite: bool = False,
    record: str | None = None,
    paths: bool = True,
    onnx: bool = False,
    int8: bool = False,
) -> bool:
    """Write ``folder``, completely or not at all, and return whether its model reads pairs.

    Args:
        checkpoint: a file of fairseq-train, without ``onnx`` of a method that does not train the whole backbone.
        overwrite: replace an earlier folder to share.
        record: a JSON file with the scores of the run; default: record.json beside a checkpoint_best.pt, if any.
        paths: keep where the backbone and the encoder's files are on this machine.
        onnx: write the whole model as an ONNX file, with the encoder's files; with ``int8`` of rounded matrices.

    Raise InputError for any other file, or where something stands at ``folder``.
    """
    target = Path(os.path.abspath(folder))
    check_there("checkpoint", checkpoint)
    # here, as torch and fairseq take seconds to import
    from . import plugin  # noqa: F401
    from .inference.load import open_checkpoint
    from .inference.onnx_file import write_onnx
    from .inference.sharing import check_target, describe
    from .saving.reading import load_state

    check_target(target, overwrite)
    described = _, kept, _, config = describe(checkpoint, record, paths)
    with new_folder(target, overwrite) as work:
        if onnx or int8:
            write_onnx(work, config, open_checkpoint(checkpoint, "cpu"), int8)
        else:
            write_trained(work, f"checkpoint {checkpoint}", target.name, described)
        load_state(str(work), "folder")  # raises InputError unless it can be read again
    return bool(kept.pairs)


def write_trained(work: Path, what: str, name: str, described: Any) -> None:
    """Write what a method has trained and the card of a folder ``name``; InputError where all is trained."""
    from .backbone.weights import ENCODER, STACK
    from .methods.registry import find_preset
    from .models.config import fill_method_options, open_options
    from .models.size import method_of
    from .saving.shared_folder import CARD, card_text, write_shared
    from .saving.tensors import EXTRA_STATE, FINGERPRINT

    # The method, built without weights, says which of its tensors only a resumed training needs, and which weights of
    # the backbone it trains.
    state, kept, sections, config = described
    args = open_options(**{name: value for name, value in sections["model"].items() if name != "_name"})
    preset = find_preset(args.method)
    if preset.trains_backbone or args.no_freeze_backbone:
        raise InputError(
            f"{what}: --method {args.method}{'' if preset.trains_backbone else ' with --no-freeze-backbone'} trains "
            "the whole backbone, so that the checkpoint itself is the model: share that, or give --onnx"
        )
    fill_method_options(args)
    method = method_of(args)
    training_only = tuple(f"method.{name}" for name in (method.training_only if method else ()))

    def is_shared(name: str) -> bool:
        if name in (EXTRA_STATE, FINGERPRINT) or name.startswith(training_only):
            return False
        if not name.startswith(ENCODER):
            return True
        return name.startswith(STACK) and method is not None and method.trains(name[len(STACK) :])

    tensors = {name: value for name, value in state["model"].items() if is_shared(name)}
    write_shared(work, tensors, config)
    numbers = sum(value.numel() for value in tensors.values())
    (work / CARD).write_text(card_text(name, kept, config, numbers), encoding="utf-8")


def build_parser() -> argparse.ArgumentParser:
    parser = command_parser("export", __doc__, "runs/rte/checkpoint_best.pt shared/rte --no-paths")
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", help="file that fairseq-train saved")
    add("folder", metavar="DIR", help="folder to make")
    add("--record", metavar="FILE", help="scores of the run (default: record.json beside a checkpoint_best.pt)")
    add("--onnx", action="store_true", help="write the whole model, backbone and all, as DIR/model.onnx")
    add("--int8", action="store_true", help="the same with matrices in int8: smaller, faster, with other rounding")
    add("--no-paths", action="store_true", help="leave out where backbone and encoder are on this machine")
    add("--overwrite", action="store_true", help="replace an earlier folder of this kind")
    return parser


@logged_command()
def main(argv: Sequence[str] | None = None) -> None:
    args = build_parser().parse_args(argv)
    pairs = export(args.checkpoint, args.folder, args.overwrite, args.record, not args.no_paths, args.onnx, args.int8)
    from .saving.shared_folder import use_lines

    size = sum(file.stat().st_size for file in Path(args.folder).rglob("*"))
    print(f"{args.folder}: {size / 1000:,.0f} kB. Use it in Python, or at the command line:")
    print(*use_lines(args.folder, pairs).values(), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
