"""Make a folder to share out of a checkpoint: ``python -m fairseq_idpg.export CHECKPOINT DIR``.

DIR holds what was trained and its description, but neither the backbone nor anything that could run code:
prompt.safetensors, config.json and README.md. ``fairseq_idpg.load`` and ``python -m fairseq_idpg.predict --path`` take
it instead of the checkpoint. With ``--format peft`` it is a folder of Hugging Face's peft, which these take as well.
``--push-to-hub USER/NAME`` puts it on the Hugging Face hub, too.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from preprocess.writing import new_folder

from .errors import InputError, check_there, command_parser, logged_command


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
) -> bool:
    """Write ``folder``, completely or not at all, and return whether its model reads pairs.

    Args:
        checkpoint: a file of fairseq-train, of a method that does not train the whole backbone.
        overwrite: replace an earlier folder to share.
        record: a JSON file with the scores of the run; default: record.json beside a checkpoint_best.pt, if any.
        paths: keep where the backbone and the encoder's files are on this machine.
        licence: as the hub calls it, for the card.
        peft: write a folder of Hugging Face's peft, of a method that it has; see ``inference/peft.py``.
        backbone: its file, which ``peft`` reads, if it has moved since the training.
        method_file: Python file of a method that is not part of this package; it is run.

    Raise InputError for any other file, or where something stands at ``folder``.
    """
    what, target = f"checkpoint {checkpoint}", Path(os.path.abspath(folder))
    check_there("checkpoint", checkpoint)
    # here, as torch and fairseq take seconds to import
    from . import plugin  # noqa: F401
    from .backbone.weights import ENCODER, STACK
    from .inference.load import recorded
    from .inference.peft import PEFT_FILES, USE, reader, write_peft
    from .methods.registry import find_preset
    from .models.config import fill_method_options, open_options, use_method_file
    from .models.size import method_of
    from .saving.configuration import as_options, buildable, check_is_ours
    from .saving.reading import load_state, read_file
    from .saving.shared_folder import CARD, FILES, SECTIONS, SHARED_FILES, card_text, write_shared
    from .saving.tensors import EXTRA_STATE, FINGERPRINT, as_digest
    from .training.run_facts import beside, run_facts, versions

    check_target(target, overwrite, PEFT_FILES if peft else SHARED_FILES)
    use_method_file(method_file)
    state = read_file(checkpoint, "checkpoint")
    check_is_ours(state, what)
    kept, cfg = recorded(state, what), buildable(state, what)
    sections = {section: as_options(cfg[section]) for section in SECTIONS}

    # The method, built without weights, says which of its tensors only a resumed training needs, and which weights of
    # the backbone it trains.
    args = open_options(**{name: value for name, value in sections["model"].items() if name != "_name"})
    preset = find_preset(args.method)
    if preset.trains_backbone or args.no_freeze_backbone:
        raise InputError(
            f"{what}: --method {args.method}{'' if preset.trains_backbone else ' with --no-freeze-backbone'} trains "
            "the whole backbone, so that the checkpoint itself is the model: share that"
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
    run = run_facts(state, sections["task"].get("data"), cfg["dataset"] or {}, record or beside(checkpoint))

    # config.json has all options but those that name files; where these are, "data" and "backbone" say.
    file, vocab = os.path.abspath(backbone) if backbone else str(sections["model"]["backbone"]), kept.vocab
    options = {
        section: {n: v for n, v in values.items() if n not in FILES[section]} for section, values in sections.items()
    }
    config = {
        "method": options["model"].pop("method"),
        "data": {**asdict(kept), "vocab": vocab if paths else vocab and Path(vocab).name},
        "backbone": {
            "name": f"{Path(file).parent.name or 'backbone'}/{Path(file).name}",
            "path": file if paths else None,
            "tensors_sha256": as_digest(state["model"][FINGERPRINT]),
        },
        "run": run,
        "versions": versions(),
        "options": {**options, "model": {**options["model"], "save_full_model": False}},
    }
    with new_folder(target, overwrite) as work:
        if peft:
            write_peft(work, method, tensors, config, file)
        else:
            write_shared(work, tensors, config)
        numbers = sum(value.numel() for value in tensors.values())
        card = card_text(target.name, kept, config, numbers, licence) + (USE if peft else "")
        (work / CARD).write_text(card, encoding="utf-8")
        # raises InputError unless it can be read again
        load_state(str(work), "folder", read=reader(str(work), file))
    return bool(kept.pairs)


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
    from .inference.hugging_face import push_folder

    with tempfile.TemporaryDirectory() as place:
        folder = os.path.join(place, name.rpartition("/")[2])
        export(checkpoint, folder, record=record, paths=False, licence=licence)
        return push_folder(folder, name, private, token)


def check_target(target: Path, overwrite: bool, files: tuple[str, str, str]) -> None:
    """Raise InputError where something stands that must not be replaced; ``files``: of a folder of this kind."""
    if not os.path.lexists(target):
        return
    names = {entry.name for entry in target.iterdir()} if target.is_dir() else {""}
    replaceable = not names or {*files[:2]} <= names <= {*files}
    if not overwrite or not replaceable:
        remedy = ", or replace it (--overwrite; in Python overwrite=True)" if replaceable else ""
        raise InputError(
            f"{target} exists and is {'' if replaceable else 'not '}a folder to share: name another{remedy}"
        )


def build_parser() -> argparse.ArgumentParser:
    parser = command_parser("export", __doc__, "runs/rte/checkpoint_best.pt shared/rte --no-paths")
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", help="file that fairseq-train saved")
    add("folder", metavar="DIR", help="folder to make")
    add("--record", metavar="FILE", help="scores of the run (default: record.json beside a checkpoint_best.pt)")
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
    more = {
        "licence": args.licence,
        "peft": args.format == "peft",
        "backbone": args.backbone,
        "method_file": args.method_file,
    }
    pairs = export(args.checkpoint, args.folder, args.overwrite, args.record, paths, **more)
    from .saving.shared_folder import use_lines

    size = sum(file.stat().st_size for file in Path(args.folder).iterdir())
    print(f"{args.folder}: {size / 1000:,.0f} kB. Use it in Python, or at the command line:")
    print(*use_lines(args.folder, pairs).values(), sep="\n")
    if args.push_to_hub:
        from .inference.hugging_face import push_folder

        print(push_folder(args.folder, args.push_to_hub, args.private))


if __name__ == "__main__":
    sys.exit(main())
