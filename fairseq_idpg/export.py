"""A folder to share out of a checkpoint: ``python -m fairseq_idpg.export CHECKPOINT DIR``.

DIR holds what was trained and what it is, but neither the backbone nor anything that could run code:
prompt.safetensors, config.json and README.md. ``fairseq_idpg.load`` and ``python -m fairseq_idpg.predict --path`` take
it in the place of the checkpoint.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from preprocess.readers import is_text
from preprocess.writing import new_folder

from .backbone.weights import ENCODER, STACK
from .errors import InputError, logged_command
from .inference.values import check_switches
from .methods.base import Method
from .methods.registry import find_preset
from .models.config import fill_method_options, open_options
from .models.size import method_of
from .saving.card import card_text, use_lines
from .saving.configuration import as_options, buildable, check_is_ours
from .saving.reading import load_state, read_file
from .saving.record import Record, saved_record
from .saving.shared_folder import CARD, CONFIG, FILES, SECTIONS, TENSORS, write_shared
from .saving.tensors import EXTRA_STATE, FINGERPRINT, as_digest
from .training.run_facts import beside, run_facts, versions


def export(
    checkpoint: str, folder: str, overwrite: bool = False, record: str | None = None, paths: bool = True
) -> None:
    """Writes ``folder``, completely or not at all.

    Args:
        checkpoint: what fairseq-train saved; of any method that leaves the backbone frozen, or trains parts of it.
        overwrite: replace an earlier folder to share.
        record: a JSON file with the scores of the run; default: record.json beside a checkpoint_best.pt, if any.
        paths: keep where the backbone and the encoder's files are on this machine.

    Raises:
        InputError: the checkpoint is no such one; there is something at ``folder``.
    """
    check_switches(overwrite=overwrite, paths=paths)
    target = Path(os.path.abspath(folder))
    if not is_text(f"{folder} {target.name}"):
        raise InputError(f"{folder} is not UTF-8, as its card is: name another folder")
    check_target(target, overwrite)
    state, kept, cfg = read_recorded(checkpoint)
    sections = {section: as_options(cfg[section]) for section in SECTIONS}
    tensors = shared_tensors(state["model"], trained_method(sections["model"], f"checkpoint {checkpoint}"))
    run = run_facts(state, sections["task"].get("data"), cfg["dataset"] or {}, record or beside(checkpoint))
    config = description(state["model"], kept, sections, run, paths)
    with new_folder(target, overwrite) as work:
        write_shared(work, tensors, config)
        numbers = sum(value.numel() for value in tensors.values())
        (work / CARD).write_text(card_text(target.name, kept, config, numbers), encoding="utf-8")
        load_state(str(work), "folder")  # it can be read


def check_target(target: Path, overwrite: bool) -> None:
    """Raises InputError where something is in the way that must not be replaced."""
    if target.parent.exists() and not target.parent.is_dir():
        raise InputError(f"{target.parent} is a file: name another folder")
    if not os.path.lexists(target):
        return
    held = {entry.name for entry in target.iterdir()} if target.is_dir() else {""}
    if held and not {TENSORS, CONFIG} <= held <= {TENSORS, CONFIG, CARD}:
        raise InputError(f"{target} is something else than a folder to share: name another")
    if not overwrite:
        raise InputError(
            f"{target} exists already: name another folder, or replace it (--overwrite; in Python overwrite=True)"
        )


def read_recorded(checkpoint: str) -> tuple[dict[str, Any], Record, dict[str, Any]]:
    """What a checkpoint holds, what it records of its data, and its checked configuration.

    Raises:
        InputError: it is missing, damaged, none of this package, or records nothing.
    """
    what = f"checkpoint {checkpoint}"
    if not os.path.isfile(checkpoint):
        raise InputError(f"{what} is not a file: give a checkpoint that fairseq-train saved")
    state = read_file(checkpoint, "checkpoint")
    check_is_ours(state, what)
    kept, cfg = saved_record(state["model"], what), buildable(state, what)
    if kept is None or FINGERPRINT not in state["model"]:
        raise InputError(f"{what} is of an earlier version, which recorded nothing of its data: train it again")
    return state, kept, cfg


def description(
    model_state: Mapping[str, Any],
    kept: Record,
    sections: Mapping[str, dict[str, Any]],
    run: dict[str, Any],
    paths: bool,
) -> dict[str, Any]:
    """What config.json says; see ``export`` for ``paths``."""
    backbone, vocab = as_text(str(sections["model"]["backbone"])), kept.vocab and as_text(kept.vocab)
    options = {
        section: {n: v for n, v in values.items() if n not in FILES[section]} for section, values in sections.items()
    }
    return {
        "method": options["model"].pop("method"),
        "data": {**asdict(kept), "vocab": vocab if paths else vocab and Path(vocab).name},
        "backbone": {
            "name": f"{Path(backbone).parent.name or 'backbone'}/{Path(backbone).name}",
            "path": backbone if paths else None,
            "tensors_sha256": as_digest(model_state[FINGERPRINT]),
        },
        "run": run,
        "versions": versions(),
        "options": {**options, "model": {**options["model"], "save_full_model": False}},
    }


def as_text(path: str) -> str:
    """A path with ? for what is not UTF-8; it is not found then, and --backbone or --vocab says where it is."""
    return path.encode(errors="replace").decode()


def trained_method(options: Mapping[str, Any], what: str) -> Method | None:
    """The method of a checkpoint, untrained; None without one.

    Raises:
        InputError: it trains the whole backbone.
    """
    args = open_options(**{name: value for name, value in options.items() if name != "_name"})
    preset = find_preset(args.method)
    if preset.trains_backbone or args.no_freeze_backbone:
        raise InputError(
            f"{what}: --method {args.method}{'' if preset.trains_backbone else ' with --no-freeze-backbone'} trains "
            "the whole backbone, so that the checkpoint itself is the model: share that"
        )
    fill_method_options(args)
    return method_of(args)


def shared_tensors(model_state: Mapping[str, Any], method: Method | None) -> dict[str, Tensor]:
    """Method, head and the trained parts of the backbone, without what only a resumed training needs."""
    training_only = tuple(f"method.{name}" for name in (method.training_only if method else ()))

    def is_shared(name: str) -> bool:
        if name in (EXTRA_STATE, FINGERPRINT) or name.startswith(training_only):
            return False
        if not name.startswith(ENCODER):
            return True
        return name.startswith(STACK) and method is not None and method.trains(name[len(STACK) :])

    return {name: value for name, value in model_state.items() if is_shared(name)}


# --- command line ---------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("python -m fairseq_idpg.export", description=(__doc__ or "").split(":")[0])
    add = made.add_argument
    add("checkpoint", metavar="CHECKPOINT", help="what fairseq-train saved")
    add("folder", metavar="DIR", help="folder to make")
    add("--record", metavar="FILE", help="scores of the run (default: record.json beside a checkpoint_best.pt)")
    add("--no-paths", action="store_true", help="leave out where backbone and encoder are on this machine")
    add("--overwrite", action="store_true", help="replace an earlier folder of this kind")
    return made


@logged_command()
def main(argv: Sequence[str] | None = None) -> None:
    args = parser().parse_args(argv)
    export(args.checkpoint, args.folder, args.overwrite, args.record, not args.no_paths)
    size = sum(file.stat().st_size for file in Path(args.folder).iterdir())
    pairs = bool(json.loads(Path(args.folder, CONFIG).read_text(encoding="utf-8"))["data"]["pairs"])
    print(f"{args.folder}: {size / 1000:,.0f} kB. Use it in Python, or at the command line:")
    print(*use_lines(args.folder, pairs).values(), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
