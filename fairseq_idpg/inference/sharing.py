"""What ``python -m fairseq_idpg.export`` writes of a checkpoint, and folders of it on the Hugging Face hub."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from preprocess.errors import reason_of

from ..backbone.weights import ENCODER, STACK
from ..errors import HUB_NAME, InputError, is_hub_name
from ..methods.registry import find_preset
from ..models.config import fill_method_options, open_options
from ..models.size import method_of
from ..saving.configuration import as_options, buildable, check_is_ours
from ..saving.reading import read_file
from ..saving.record import Record, recorded
from ..saving.shared_folder import (
    CARD,
    CONFIG,
    FILES,
    ONNX,
    SECTIONS,
    SHARED_FILES,
    TENSORS,
    VOCAB,
    card_text,
    write_shared,
)
from ..saving.tensors import EXTRA_STATE, FINGERPRINT, as_digest
from ..training.run_facts import beside, run_facts, versions
from .peft import PEFT_FILES, USE, write_peft


class Described(NamedTuple):
    """What a checkpoint holds, its record, its options, the config.json of a folder of it, its backbone's file."""

    state: dict[str, Any]
    kept: Record
    sections: dict[str, Any]
    config: dict[str, Any]
    backbone: str


def describe(checkpoint: str, record: str | None = None, paths: bool = True, backbone: str | None = None) -> Described:
    """Return what ``export`` writes of a checkpoint."""
    what = f"checkpoint {checkpoint}"
    state = read_file(checkpoint, "checkpoint")
    check_is_ours(state, what)
    kept, cfg = recorded(state, what), buildable(state, what)
    sections = {section: as_options(cfg[section]) for section in SECTIONS}
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
    return Described(state, kept, sections, config, file)


def write_trained(
    work: Path, what: str, name: str, described: Described, licence: str | None = None, peft: bool = False
) -> None:
    """Write what a method has trained, and the card of a folder ``name``; raise InputError if all is trained."""
    # The method, built without weights, says which of its tensors only a resumed training needs, and which weights of
    # the backbone it trains.
    state, kept, sections, config, file = described
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
    if peft:
        write_peft(work, method, tensors, config, file)
    else:
        write_shared(work, tensors, config)
    numbers = sum(value.numel() for value in tensors.values())
    card = card_text(name, kept, config, numbers, licence) + (USE if peft else "")
    (work / CARD).write_text(card, encoding="utf-8")


def check_target(target: Path, overwrite: bool, files: tuple[str, ...] = ()) -> None:
    """Raise InputError where something stands that must not be replaced; ``files``: of a folder of another kind."""
    if not os.path.lexists(target):
        return
    names = {entry.name for entry in target.iterdir()} if target.is_dir() else {""}
    held, *more = files or (ONNX if ONNX in names else TENSORS, CONFIG, CARD, VOCAB, f"{ONNX}.data")
    # empty, or a folder to share and nothing else
    replaceable = not names or {held, more[0]} <= names <= {held, *more}
    if not overwrite or not replaceable:
        remedy = ", or replace it (--overwrite; in Python overwrite=True)" if replaceable else ""
        raise InputError(
            f"{target} exists and is {'' if replaceable else 'not '}a folder to share: name another{remedy}"
        )


# --- the hub, with the optional package huggingface_hub ----------------------------------------


def find_folder(path: str) -> str:
    """Return ``path``, or the folder that a name on the hub was fetched to, with nothing but what is read."""
    if not is_hub_name(path):
        return path
    files = [*SHARED_FILES, *PEFT_FILES, f"{ONNX}*", f"{VOCAB}/*"]
    return call_hub(f"{path} is not a file or folder", "snapshot_download", path, allow_patterns=files)


def push_folder(folder: str, name: str, private: bool = False, token: str | None = None) -> str:
    """Put a folder to share on the hub as ``USER/NAME``, and return where it can be seen."""
    if not HUB_NAME.fullmatch(name):
        raise InputError(f"--push-to-hub {name}: give USER/NAME")
    what, options = f"--push-to-hub {name}", {"repo_id": name, "token": token}
    call_hub(what, "create_repo", private=private, exist_ok=True, **options)
    call_hub(what, "upload_folder", folder_path=folder, commit_message="fairseq_idpg", **options)
    return str(call_hub(what, "hf_hub_url", name, "")).partition("/resolve/")[0]


def call_hub(what: str, function: str, *args: Any, **options: Any) -> Any:
    """Call a function of ``huggingface_hub``; raise InputError, which begins with ``what``, where it fails."""
    try:
        import huggingface_hub

        return getattr(huggingface_hub, function)(*args, **options)
    except ModuleNotFoundError as error:
        raise InputError(f"{what}, and the hub needs {error.name}: pip install huggingface_hub") from None
    except (OSError, ValueError, RuntimeError) as error:  # of the network, of names and answers
        raise InputError(f"{what}; the Hugging Face hub says: {reason_of(error)}") from None
