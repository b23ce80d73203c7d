"""What ``python -m fairseq_idpg.export`` writes of a checkpoint: config.json says what the folder holds."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..saving.configuration import as_options, buildable, check_is_ours
from ..saving.reading import read_file
from ..saving.record import Record, recorded
from ..saving.shared_folder import CARD, CONFIG, FILES, ONNX, SECTIONS, TENSORS, VOCAB
from ..saving.tensors import FINGERPRINT, as_digest
from ..training.run_facts import beside, run_facts, versions

Described = tuple[dict[str, Any], Record, dict[str, dict[str, Any]], dict[str, Any]]


def describe(checkpoint: str, record: str | None = None, paths: bool = True) -> Described:
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
