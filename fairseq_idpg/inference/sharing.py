"""What ``python -m fairseq_idpg.export`` writes of a checkpoint: config.json says what the folder holds."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..backbone.weights import ENCODER, STACK
from ..errors import InputError
from ..methods.registry import find_preset
from ..models.config import fill_method_options, open_options
from ..models.size import method_of
from ..saving.configuration import as_options, buildable, check_is_ours
from ..saving.reading import read_file
from ..saving.record import Record, recorded
from ..saving.shared_folder import CARD, CONFIG, FILES, ONNX, SECTIONS, TENSORS, VOCAB, card_text, write_shared
from ..saving.tensors import EXTRA_STATE, FINGERPRINT, as_digest
from ..training.run_facts import beside, run_facts, versions


def describe(checkpoint: str, record: str | None = None, paths: bool = True) -> tuple[Any, Record, Any, dict[str, Any]]:
    """Return what a checkpoint holds, its record, its options and the config.json of a folder that is made of it."""
    what = f"checkpoint {checkpoint}"
    state = read_file(checkpoint, "checkpoint")
    check_is_ours(state, what)
    kept, cfg = recorded(state, what), buildable(state, what)
    sections = {section: as_options(cfg[section]) for section in SECTIONS}
    run = run_facts(state, sections["task"].get("data"), cfg["dataset"] or {}, record or beside(checkpoint))

    # config.json has all options but those that name files; where these are, "data" and "backbone" say.
    backbone, vocab = Path(str(sections["model"]["backbone"])), kept.vocab
    options = {
        section: {n: v for n, v in values.items() if n not in FILES[section]} for section, values in sections.items()
    }
    config = {
        "method": options["model"].pop("method"),
        "data": {**asdict(kept), "vocab": vocab if paths else vocab and Path(vocab).name},
        "backbone": {
            "name": f"{backbone.parent.name or 'backbone'}/{backbone.name}",
            "path": str(sections["model"]["backbone"]) if paths else None,
            "tensors_sha256": as_digest(state["model"][FINGERPRINT]),
        },
        "run": run,
        "versions": versions(),
        "options": {**options, "model": {**options["model"], "save_full_model": False}},
    }
    return state, kept, sections, config


def write_trained(work: Path, what: str, name: str, described: Any) -> None:
    """Write what a method has trained, and the card of a folder ``name``; InputError where all is trained."""
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


def check_target(target: Path, overwrite: bool) -> None:
    """Raise InputError where something stands that must not be replaced."""
    if not os.path.lexists(target):
        return
    names = {entry.name for entry in target.iterdir()} if target.is_dir() else {""}
    held = ONNX if ONNX in names else TENSORS
    if names and not {held, CONFIG} <= names <= {held, CONFIG, CARD, VOCAB, f"{ONNX}.data"}:
        raise InputError(f"{target} is not a folder to share: name another")
    if not overwrite:
        raise InputError(
            f"{target} exists already: name another folder, or replace it (--overwrite; in Python overwrite=True)"
        )
