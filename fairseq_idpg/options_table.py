"""The options as a markdown table, made from the dataclasses: ``python -m fairseq_idpg.options_table``.

``fairseq-train --help`` shows no options of plugins, so OPTIONS.md holds this table; a test compares them.
"""

import re
from dataclasses import Field, fields
from enum import Enum
from typing import Any, get_args

from fairseq.criterions.sentence_prediction import SentencePredictionConfig as CriterionConfig
from fairseq.optim.adam import FairseqAdamConfig
from fairseq.tasks.sentence_prediction import SentencePredictionConfig

from preprocess.flags import flag_name

from .criterions.sentence_prediction_idpg import SentencePredictionIDPGCriterionConfig
from .errors import logged_command
from .methods.registry import PRESETS
from .models.config import METHOD_OPTIONS, RobertaIDPGConfig
from .optim.grouped_adam import GroupedAdamConfig
from .places_table import places_markdown
from .tasks.config import SentencePredictionIDPGConfig

BAR = r"\|"  # a bar inside a cell
PLACES_SAY = (
    "What a prompt is made of and where it enters (`--prompt-insertion` `--prompt-layers`) are chosen apart. A list of "
    "layers may stand where `all` does, a single one where `middle` does; `add` and `replace` need layer 0, the input. "
    "What is refused ends with the line of that number:"
)
HEADER = ["| option | default | |", "| --- | --- | --- |"]


def _default(field: Field) -> str:
    if "preset_default" in field.metadata:
        return _text(field.metadata["preset_default"])
    return "none" if str(field.default).startswith("${") else _text(field.default)


def _text(value: Any) -> str:
    return "off" if value is False else f"{value:g}" if isinstance(value, float) else str(value)


def _rows(chosen: list[Field]) -> list[str]:
    return [f"| `{flag_name(f.name)}` | {_default(f)} | {_help(f).replace('|', BAR)} |" for f in chosen]


def values_of(field: Field) -> list[str]:
    """Those that an option with a choice takes; none for others."""
    kind: Any = next(iter(get_args(field.type)), field.type)
    return [str(value.value) for value in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


def _help(field: Field) -> str:
    """The help, and the values that it leaves to be guessed."""
    said, values = field.metadata["help"], values_of(field)
    guessed = [value for value in values if value != _default(field) and not re.search(rf"\b{value}\b", said)]
    return f"{said}: {', '.join(values)}" if guessed else said


def _preset_rows() -> list[str]:
    rows = ["| `--method` | sets |", "| --- | --- |"]
    for name, preset in sorted(PRESETS.items()):
        settings = " ".join(f"`{flag_name(key)} {value}`" for key, value in preset.settings.items())
        rows.append(f"| `{name}` | {settings or 'nothing'} |")
    return rows


def options_markdown() -> str:
    """Task, criterion, model and method options, what each preset sets, and where prompts may stand."""
    inherited = {f.name for f in fields(SentencePredictionConfig)}
    scored = {f.name for f in fields(CriterionConfig)}
    helped = [f for f in fields(RobertaIDPGConfig) if "help" in f.metadata]
    parts: list[Any] = [
        "Task `sentence_prediction_idpg`, besides fairseq's `sentence_prediction`:",
        [f for f in fields(SentencePredictionIDPGConfig) if f.name not in inherited and "help" in f.metadata],
        "Criterion `sentence_prediction_idpg`, besides fairseq's `sentence_prediction`:",
        [f for f in fields(SentencePredictionIDPGCriterionConfig) if "help" in f.metadata and f.name not in scored],
        "Model `roberta_idpg` (sizes are those of `--arch roberta_idpg` and `roberta_idpg_base`):",
        [f for f in helped if f.name not in METHOD_OPTIONS],
        "Optimizer `grouped_adam`, besides those of fairseq's `adam`:",
        [f for f in fields(GroupedAdamConfig) if f.name not in {g.name for g in fields(FairseqAdamConfig)}],
        "Methods; an option that the chosen `--method` does not have is refused:",
        [f for f in helped if f.name in METHOD_OPTIONS],
    ]
    lines: list[str] = []
    for part in parts:
        lines += [part, ""] if isinstance(part, str) else [*HEADER, *_rows(part), ""]
    lines += ["Presets; an option given explicitly wins:", "", *_preset_rows(), "", PLACES_SAY, "", *places_markdown()]
    return "\n".join(lines)


if __name__ == "__main__":
    with logged_command():
        print(options_markdown())
