"""README.md of a folder to share: how to use it, its scores, what was trained."""

import json
import re
from collections.abc import Mapping
from typing import Any

from .record import Record

Rows = list[list[str]]


def use_lines(folder: str, pairs: bool) -> dict[str, str]:
    """Return {"python": line, "bash": line} that use what ``folder`` holds."""
    text = '("first sentence", "second sentence")' if pairs else '"a sentence"'
    shell = re.sub(r"([^\w./~+-])", r"\\\1", folder, flags=re.ASCII)
    return {
        "python": f"from fairseq_idpg import load; print(load({json.dumps(folder)}).predict([{text}]))",
        "bash": f"python -m fairseq_idpg.predict --path {shell} --text FILE{' --pairs tab' if pairs else ''}",
    }


def card_text(name: str, record: Record, config: Mapping[str, Any], trained: int) -> str:
    """Return Markdown.

    Args:
        name: of the folder.
        config: what ``config.json`` says, see ``shared_folder.py``.
        trained: numbers that the tensors hold.
    """
    run, backbone = config["run"], config["backbone"]
    uses = (f"```{language}\n{line}\n```" for language, line in use_lines(name, bool(record.pairs)).items())
    model = backbone["name"].split("/")[0]
    parts = [
        f"# {cell(config['method'])} for {cell(record.task or 'a task of its own')}",
        f"What was trained beside a frozen {cell(model)}, which is not in this folder: {trained:,} numbers of the "
        f"method{'' if by_words(config) else ' and the classification head'}, for fairseq_idpg. No file of the folder "
        "can hold code.",
        "## Use it",
        *uses,
        f"The backbone is looked for where it was, and as `{cell(backbone['name'])}` beside this folder; else "
        '`backbone="NEW/model.pt"` or `--backbone NEW/model.pt` says where it is. Any other is refused.',
        *([] if not run.get("scores") else ["## Scores", table(score_rows(run["scores"]))]),
        "## What was trained",
        table(fact_rows(record, config)),
        *([] if not run else ["## How", table(run_rows(run))]),
        f"Made with {', '.join(f'{cell(name)} {cell(version)}' for name, version in config['versions'].items())}.",
    ]
    return "\n\n".join(parts) + "\n"


def score_rows(scores: Mapping[str, Any]) -> Rows:
    rows = [["split", "score", "value"]]
    return rows + [[split, name, f"{value:.2f}"] for split, found in scores.items() for name, value in found.items()]


def fact_rows(record: Record, config: Mapping[str, Any]) -> Rows:
    """Return what a reader must know before the first prediction."""
    backbone = config["backbone"]
    divided = record.scale is not None and record.scale != 1
    labels = f"scores, divided by {record.scale:g} in training" if divided else "scores"
    facts = {
        "method": config["method"],
        "reads": "pairs of sentences" if record.pairs else "single sentences",
        "answers": ", ".join(record.labels) if record.labels else labels,
        "backbone": f"{backbone['name']}, SHA-256 of its tensors {backbone['tensors_sha256']}",
        "encoder": f"{record.bpe or 'not recorded'}, SHA-256 of its files {record.bpe_sha256 or 'not recorded'}",
        "dictionary": f"SHA-256 of its symbols {record.dictionary}",
        "prompt position": record.prompt_position,
    }
    if by_words(config):
        facts.update({name: config["options"]["model"].get(name) for name in ("template", "verbalisers")})
    return [["", ""], *([name, str(value)] for name, value in facts.items())]


def by_words(config: Mapping[str, Any]) -> bool:
    """Return whether the backbone's LM head predicts, with no head of the model's own."""
    return config["options"]["model"].get("predict_with") == "mlm"


def run_rows(run: Mapping[str, Any]) -> Rows:
    known = ((name, value) for name, value in run.items() if name != "scores" and value is not None)
    return [["", ""], *([name.replace("_", " "), str(value)] for name, value in known)]


def table(rows: Rows) -> str:
    """Return a table of Markdown, the first row its header."""
    lines = [f"| {' | '.join(map(cell, row))} |" for row in rows]
    return "\n".join([lines[0], f"| {' | '.join('---' for _ in rows[0])} |", *lines[1:]])


def cell(text: str) -> str:
    """Return a text that ends no line, cell or piece of code, and begins no tag or link."""
    return re.sub(r"([\\`|<>\[\]*])", r"\\\1", " ".join(str(text).split()))
