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

from preprocess.writing import new_folder

from .errors import check_there, command_parser, logged_command


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
    from .inference.sharing import check_target, describe, write_trained
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
