"""A folder to share: what was trained, as ``prompt.safetensors``, ``config.json``, which says what it is, and a card.

It is read as the checkpoint that it was made from, and checked as a stranger's: see ``reading.py``. Neither file can
hold code. The checksum covers both; README.md, the card, is for people alone. With ``model.onnx``, which holds the
backbone too, the folder has the encoder's files in ``vocab`` and no tensors.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from preprocess.checksums import sha256
from preprocess.errors import reason_of

from ..errors import InputError
from ..names import TASK
from .configuration import OUR_MODEL, PATHS, shown
from .record import SECTION, Record
from .tensors import EXTRA_STATE, FINGERPRINT, as_fingerprint, carry_checksum, digest_of, has_digest

TENSORS, CONFIG, CARD = "prompt.safetensors", "config.json", "README.md"
SHARED_FILES = (TENSORS, CONFIG, CARD)
ONNX, VOCAB = "model.onnx", "vocab"
FORMAT = 1
LARGEST_CONFIG = 10**6  # characters
REMEDY = "give one that python -m fairseq_idpg.export wrote"
# Options that are left out: files of the training, and names that are the same in every folder.
FILES: dict[str, tuple[str, ...]] = {name: ("_name", *PATHS[name]) for name in ("task", "model")} | {"criterion": ()}
SECTIONS = tuple(FILES)
# The keys of config.json. "run" (scores, seed and the like) and "versions" are for people: nothing is built from them.
KEYS = {"format", "method", "data", "backbone", "run", "versions", "options", "checksum"}

Rows = list[list[Any]]


def write_shared(folder: Path, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
    """Write what was trained, by its names in the checkpoint, and ``config``: ``KEYS`` but format and checksum."""
    # safetensors takes no tensors that share memory.
    own = {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}
    (folder / TENSORS).write_bytes(save(own, metadata={"format": "pt"}))
    write_config(folder, own, config)


def write_config(folder: Path, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
    """Write config.json; its checksum covers ``tensors``, what ``_read_both`` will find."""
    whole = {"format": FORMAT, **config}
    whole["checksum"] = _checksum(whole, tensors)
    text = json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / CONFIG).write_text(f"{text}\n", encoding="utf-8")


def onnx_digests(folder: Path) -> dict[str, Tensor]:
    """Return the SHA-256 of the ONNX file, and of the file of weights that stands beside one above 1.5 GB."""
    return {file.name: as_fingerprint(sha256(file)) for file in folder.glob(f"{ONNX}*")}


def shared_folder(path: str) -> Path | None:
    """Return the folder at ``path``, or around the ONNX file there; None for a file of another name."""
    if os.path.isdir(path):
        return Path(path)
    return Path(path).parent if os.path.basename(path) == ONNX else None


def onnx_file(path: str) -> Path | None:
    """Return the ONNX file at ``path``, or in the folder there; None without one."""
    folder = shared_folder(path)
    return folder / ONNX if folder and (folder / ONNX).is_file() else None


def read_shared(folder: Path, what: str) -> dict[str, Any]:
    """Return what a checkpoint would hold: "model", "cfg" and no progress; InputError calls the folder ``what``."""
    return as_state(folder, *_read_both(folder, what))


def as_state(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return what a checkpoint would hold, from the ``config`` and tensors of a folder to share."""
    data, backbone, inside = dict(config["data"]), config["backbone"], folder / VOCAB
    data["vocab"] = str(inside) if inside.is_dir() else place_of(folder, data.get("vocab"), data.get("vocab"))
    options = {name: {**config["options"][name], **dict.fromkeys(FILES[name])} for name in SECTIONS}
    options["task"].update(_name=TASK, data=str(folder))
    place = place_of(folder, backbone["path"], backbone["name"])
    options["model"].update(_name=OUR_MODEL, method=config["method"], backbone=place)
    model: dict[str, Any] = {**tensors, EXTRA_STATE: {SECTION: data}}
    model[FINGERPRINT] = as_fingerprint(backbone["tensors_sha256"])
    carry_checksum(model)
    return {
        "model": model,
        "cfg": options,
        "optimizer_history": [{"optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}],
        "extra_state": {"train_iterator": {"epoch": 0, "iterations_in_epoch": 0}},
    }


def _read_both(folder: Path, what: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    held = ONNX if (folder / ONNX).is_file() else TENSORS
    for name in (CONFIG, held):
        if not (folder / name).is_file():
            raise InputError(f"{what} is a folder without {name}: give a checkpoint in it, or a folder to share")
    name, tensors = CONFIG, {}
    try:
        with open(folder / CONFIG, encoding="utf-8") as file:
            config = json.loads(file.read(LARGEST_CONFIG))
        if config["format"] != FORMAT:
            raise ValueError(f"of format {shown(config['format'])}, and this version reads {FORMAT}")
        if config.keys() != KEYS or config["options"].keys() != FILES.keys():
            raise ValueError("it has other keys")
        name = held
        # not mapped: others may change the file
        tensors = onnx_digests(folder) if held == ONNX else load((folder / TENSORS).read_bytes())
    except Exception as error:  # of JSON, of safetensors, and of torch over sizes and types
        raise InputError(f"{what}: {name} is damaged or of another kind ({reason_of(error, 100)}): {REMEDY}") from None
    if not has_digest(config["checksum"], _checksum, config, tensors):
        raise InputError(f"{what}: {CONFIG} and {held} are not those that were exported together: {REMEDY}")
    return config, tensors


def _checksum(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    return digest_of([{name: part for name, part in config.items() if name != "checksum"}, dict(tensors)])


def place_of(folder: Path, recorded: Any, name: Any) -> Any:
    """Return the recorded place if it exists, else what has the end of ``name`` beside the folder or in it."""
    places = [recorded] if isinstance(recorded, str) else []
    ends = Path(name).parts[-2:] if isinstance(name, str) else ()
    for last in filter(None, (ends, ends[-1:])):
        places += [str(top.joinpath(*last)) for top in (folder.absolute().parent, folder.absolute())]
    return next((place for place in places if os.path.exists(place)), next(iter(places), name))


def use_lines(folder: str, pairs: bool) -> dict[str, str]:
    """Return {"python": line, "bash": line} that use what ``folder`` holds."""
    text = '("first sentence", "second sentence")' if pairs else '"a sentence"'
    shell = re.sub(r"([^\w./~+-])", r"\\\1", folder, flags=re.ASCII)
    return {
        "python": f"from fairseq_idpg import load; print(load({json.dumps(folder)}).predict([{text}]))",
        "bash": f"python -m fairseq_idpg.predict --path {shell} --text FILE{' --pairs tab' if pairs else ''}",
    }


def card_text(name: str, record: Record, config: Mapping[str, Any], trained: int, licence: str | None = None) -> str:
    """Return the card in Markdown of what ``config.json`` says; ``trained``: how many numbers the folder has.

    In front stands what the Hugging Face hub reads, YAML of JSON values.
    """
    run, backbone, of_model = dict(config["run"]), config["backbone"], config["options"]["model"]
    by_words = of_model.get("predict_with") == "mlm"  # the backbone's LM head predicts
    scores = [(split, score, value) for split, of in run.pop("scores", {}).items() for score, value in of.items()]
    task, data = {"type": "text-classification"}, dict.fromkeys(("name", "type"), record.task or "own data")
    results: list[dict[str, Any]] = [
        {"task": task, "dataset": {**data, "split": split}, "metrics": [{"type": score, "value": value}]}
        for split, score, value in scores
    ]
    front: dict[str, Any] = {
        **({"license": licence} if licence else {}),
        "pipeline_tag": task["type"],
        "tags": ["fairseq_idpg", config["method"]],
        **({"model-index": [{"name": name, "results": results}]} if results else {}),
    }
    shown_scores = [[*of, f"{value:.2f}"] for *of, value in scores]
    settings = [[setting.replace("_", " "), value] for setting, value in run.items() if value is not None]
    divided = record.scale is not None and record.scale != 1
    facts = {
        "method": config["method"],
        "reads": "pairs of sentences" if record.pairs else "single sentences",
        "answers": ", ".join(record.labels or ()) or f"scores{f', divided by {record.scale:g} in training' * divided}",
        "backbone": f"{backbone['name']}, SHA-256 of its tensors {backbone['tensors_sha256']}",
        "encoder": f"{record.bpe or 'not recorded'}, SHA-256 of its files {record.bpe_sha256 or 'not recorded'}",
        "dictionary": f"SHA-256 of its symbols {record.dictionary}",
        "prompt position": record.prompt_position,
        **({option: of_model.get(option) for option in ("template", "verbalisers")} if by_words else {}),
    }
    parts = [
        "\n".join(["---", *(f"{key}: {json.dumps(value)}" for key, value in front.items()), "---"]),
        f"# {cell(config['method'])} for {cell(record.task or 'a task of its own')}",
        f"What was trained beside a frozen {cell(backbone['name'].split('/')[0])}, which is not in this folder: "
        f"{trained:,} numbers of the method{'' if by_words else ' and the classification head'}, for fairseq_idpg. No "
        "file of the folder can hold code.",
        "## Use it",
        *(f"```{language}\n{line}\n```" for language, line in use_lines(name, bool(record.pairs)).items()),
        f"The backbone is looked for where it was, and as `{cell(backbone['name'])}` beside this folder; else "
        '`backbone="NEW/model.pt"` or `--backbone NEW/model.pt` says where it is. Any other is refused. '
        '`vocab="DIR"` or `--vocab DIR` says where its tokenizer is.',
        *(["## Scores", table([["split", "score", "value"], *shown_scores])] if scores else []),
        "## What was trained",
        table([["", ""], *map(list, facts.items())]),
        *(["## How", table([["", ""], *settings])] if run else []),
        f"Made with {', '.join(f'{cell(each)} {cell(version)}' for each, version in config['versions'].items())}.",
    ]
    return "\n\n".join(parts) + "\n"


def table(rows: Rows) -> str:
    """Return a table of Markdown, the first row its header."""
    lines = [f"| {' | '.join(map(cell, row))} |" for row in rows]
    return "\n".join([lines[0], f"| {' | '.join('---' for _ in rows[0])} |", *lines[1:]])


def cell(text: Any) -> str:
    """Return a text that ends no line, cell or piece of code, and begins no tag or link."""
    return re.sub(r"([\\`|<>\[\]*])", r"\\\1", " ".join(str(text).split()))
