"""Make a folder to share out of a checkpoint: ``python -m fairseq_idpg.export CHECKPOINT DIR``.

DIR holds what was trained and its description, but neither the backbone nor anything that could run code:
prompt.safetensors, config.json and README.md. ``fairseq_idpg.load`` and ``python -m fairseq_idpg.predict --path`` take
it instead of the checkpoint. With ``--format peft`` it is a folder of Hugging Face's peft, which these take as well.
With ``--onnx`` it holds the whole model: model.onnx, config.json and the encoder's files. ``--push-to-hub USER/NAME``
puts it on the Hugging Face hub, too.
"""

import argparse
import os
import sys
import tempfile
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
    licence: str | None = None,
    peft: bool = False,
    backbone: str | None = None,
    method_file: str | None = None,
    onnx: bool = False,
    int8: bool = False,
) -> bool:
    """Write ``folder``, completely or not at all, and return whether its model reads pairs.

    Args:
        checkpoint: a file of fairseq-train, without ``onnx`` of a method that does not train the whole backbone.
        overwrite: replace an earlier folder to share.
        record: a JSON file with the scores of the run; default: record.json beside a checkpoint_best.pt, if any.
        paths: keep where the backbone and the encoder's files are on this machine.
        licence: as the hub calls it, for the card.
        peft: write a folder of Hugging Face's peft, of a method that it has; see ``inference/peft.py``.
        backbone: its file, which ``peft`` reads, if it has moved since the training.
        method_file: Python file of a method that is not part of this package; it is run.
        onnx: write the whole model as an ONNX file, with the encoder's files; with ``int8`` of rounded matrices.

    Raise InputError for any other file, or where something stands at ``folder``.
    """
    target = Path(os.path.abspath(folder))
    check_there("checkpoint", checkpoint)
    # here, as torch and fairseq take seconds to import
    from . import plugin  # noqa: F401
    from .inference.load import open_checkpoint
    from .inference.onnx_file import write_onnx
    from .inference.peft import PEFT_FILES, reader
    from .inference.sharing import check_target, describe, write_trained
    from .models.config import use_method_file
    from .saving.reading import load_state

    check_target(target, overwrite, PEFT_FILES if peft else ())
    use_method_file(method_file)
    described = describe(checkpoint, record, paths, backbone)
    with new_folder(target, overwrite) as work:
        if onnx or int8:
            write_onnx(work, described.config, open_checkpoint(checkpoint, "cpu", backbone=backbone), int8)
        else:
            write_trained(work, f"checkpoint {checkpoint}", target.name, described, licence, peft)
        # raises InputError unless it can be read again
        load_state(str(work), "folder", read=reader(str(work), described.backbone))
    return bool(described.kept.pairs)


def push_to_hub(
    checkpoint: str,
    name: str,
    record: str | None = None,
    licence: str | None = None,
    private: bool = False,
    token: str | None = None,
) -> str:
    """Put what ``export`` makes of a checkpoint on the Hugging Face hub as ``USER/NAME``; return its address.

    The paths of this machine are left out. ``load("USER/NAME", backbone=...)`` fetches it. Raise InputError where
    ``export`` does, and where the hub refuses.
    """
    from .inference.sharing import push_folder

    with tempfile.TemporaryDirectory() as place:
        folder = os.path.join(place, name.rpartition("/")[2])
        export(checkpoint, folder, record=record, paths=False, licence=licence)
        return push_folder(folder, name, private, token)


def build_parser() -> argparse.ArgumentParser:
    parser = command_parser("export", __doc__, "runs/rte/checkpoint_best.pt shared/rte --no-paths")
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", help="file that fairseq-train saved")
    add("folder", metavar="DIR", help="folder to make")
    add("--record", metavar="FILE", help="scores of the run (default: record.json beside a checkpoint_best.pt)")
    add("--onnx", action="store_true", help="write the whole model, backbone and all, as DIR/model.onnx")
    add("--int8", action="store_true", help="the same with matrices in int8: smaller, faster, with other rounding")
    add("--no-paths", action="store_true", help="leave out where backbone and encoder are on this machine")
    add("--format", choices=("idpg", "peft"), default="idpg", help="who loads the folder (default: %(default)s)")
    add("--backbone", metavar="FILE", help="the backbone's model.pt, if it has moved since the training")
    add("--licence", metavar="NAME", help="licence on the card, as the hub calls it: mit, apache-2.0, ...")
    add("--push-to-hub", metavar="USER/NAME", help="put the folder on the Hugging Face hub, too")
    add("--private", action="store_true", help="for you alone there")
    add("--method-file", metavar="FILE", help="Python file of a method that is not part of this package; it is run")
    add("--overwrite", action="store_true", help="replace an earlier folder of this kind")
    return parser


@logged_command()
def main(argv: Sequence[str] | None = None) -> None:
    args = build_parser().parse_args(argv)
    paths = not (args.no_paths or args.push_to_hub)
    more = {name: getattr(args, name) for name in ("licence", "backbone", "method_file", "onnx", "int8")}
    peft = args.format == "peft"
    pairs = export(args.checkpoint, args.folder, args.overwrite, args.record, paths, peft=peft, **more)
    from .saving.shared_folder import use_lines

    size = sum(file.stat().st_size for file in Path(args.folder).rglob("*"))
    # an ONNX file has its backbone in it
    where = "" if paths or args.onnx or args.int8 else ", with --backbone FILE (backbone=) where it is not beside it"
    print(f"{args.folder}: {size / 1000:,.0f} kB. Use it in Python, or at the command line{where}:")
    print(*use_lines(args.folder, pairs).values(), sep="\n")
    if args.push_to_hub:
        from .inference.sharing import push_folder

        print(push_folder(args.folder, args.push_to_hub, args.private))


if __name__ == "__main__":
    sys.exit(main())
