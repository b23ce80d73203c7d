"""A folder to share out of a checkpoint: what was trained and what it is, without anything that could run code."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from preprocess.writing import new_folder

from ..backbone.weights import ENCODER, STACK
from ..errors import InputError
from ..methods.base import Method
from ..methods.registry import find_preset
from ..models.config import fill_method_options, open_options
from ..models.size import method_of
from ..saving.configuration import as_options, buildable, check_is_ours
from ..saving.reading import check_is_there, load_state, read_file
from ..saving.record import Record
from ..saving.shared_folder import CARD, CONFIG, FILES, SECTIONS, TENSORS, card_text, write_shared
from ..saving.tensors import EXTRA_STATE, FINGERPRINT, as_digest
from ..training.run_facts import beside, run_facts, versions
from .load import recorded


def export(
    checkpoint: str, folder: str, overwrite: bool = False, record: str | None = None, paths: bool = True
) -> None:
    """Write ``folder``, completely or not at all.

    Args:
        checkpoint: what fairseq-train saved; of any method that leaves the backbone frozen, or trains parts of it.
        overwrite: replace an earlier folder to share.
        record: a JSON file with the scores of the run; default: record.json beside a checkpoint_best.pt, if any.
        paths: keep where the backbone and the encoder's files are on this machine.

    Raises:
        InputError: the checkpoint is no such one; there is something at ``folder``.
    """
    what, target = f"checkpoint {checkpoint}", Path(os.path.abspath(folder))
    check_target(target, overwrite)
    check_is_there(checkpoint, what)
    state = read_file(checkpoint, "checkpoint")
    check_is_ours(state, what)
    kept, cfg = recorded(state, what), buildable(state, what)
    sections = {section: as_options(cfg[section]) for section in SECTIONS}
    tensors = shared_tensors(state["model"], trained_method(sections["model"], what))
    run = run_facts(state, sections["task"].get("data"), cfg["dataset"] or {}, record or beside(checkpoint))
    config = description(state["model"], kept, sections, run, paths)
    with new_folder(target, overwrite) as work:
        write_shared(work, tensors, config)
        numbers = sum(value.numel() for value in tensors.values())
        (work / CARD).write_text(card_text(target.name, kept, config, numbers), encoding="utf-8")
        load_state(str(work), "folder")  # it can be read


def check_target(target: Path, overwrite: bool) -> None:
    """Raise InputError where something is in the way that must not be replaced."""
    if not os.path.lexists(target):
        return
    held = {entry.name for entry in target.iterdir()} if target.is_dir() else {""}
    if held and not {TENSORS, CONFIG} <= held <= {TENSORS, CONFIG, CARD}:
        raise InputError(f"{target} is something else than a folder to share: name another")
    if not overwrite:
        raise InputError(
            f"{target} exists already: name another folder, or replace it (--overwrite; in Python overwrite=True)"
        )


def description(
    model_state: Mapping[str, Any],
    kept: Record,
    sections: Mapping[str, dict[str, Any]],
    run: dict[str, Any],
    paths: bool,
) -> dict[str, Any]:
    """Return what config.json says; see ``export`` for ``paths``."""
    backbone, vocab = str(sections["model"]["backbone"]), kept.vocab
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


def trained_method(options: Mapping[str, Any], what: str) -> Method | None:
    """Return the method of a checkpoint, untrained; None without one.

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
    """Return method, head and the trained parts of the backbone, without what only a resumed training needs."""
    training_only = tuple(f"method.{name}" for name in (method.training_only if method else ()))

    def is_shared(name: str) -> bool:
        if name in (EXTRA_STATE, FINGERPRINT) or name.startswith(training_only):
            return False
        if not name.startswith(ENCODER):
            return True
        return name.startswith(STACK) and method is not None and method.trains(name[len(STACK) :])

    return {name: value for name, value in model_state.items() if is_shared(name)}
