"""Prompts of other tasks, read from their checkpoints, from which SPoT, ATTEMPT and MPT start.

A source is a task prompt, the same rows for every input: that of ``prompt-tuning``, or one that was folded into rows
(``p-tuning``, ``dpt``, …), alone or joined with adapters by +.
"""

import contextlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...errors import InputError
from ...saving.backbone_file import read_checkpoint
from ...saving.tensors import FINGERPRINT
from ..base import WordEmbeddings
from ..options import Filled, option
from .base import PromptConfig, PromptMethod, parse_places
from .initial import on_other_backbone, saved_methods


@dataclass
class SourceConfig(PromptConfig):
    source_prompts: Filled[str] = option(
        "",
        "checkpoints of other tasks' prompts, A.pt,B.pt, of as many rows at the same places and on the same backbone; "
        "read again where a training goes on, not to predict",
        changeable=True,
    )


def source_paths(text: str | None) -> list[str]:
    """Split ``A.pt,B.pt`` into paths."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def named_sources(cfg: Any) -> list[str]:
    """Return the paths of --source-prompts; raise InputError where it is empty."""
    paths = source_paths(cfg.source_prompts)
    if not paths:
        raise InputError(f"--method {cfg.method} starts from prompts of other tasks: give --source-prompts A.pt,B.pt")
    return paths


def read_sources(
    method: PromptMethod, cfg: Any, words: WordEmbeddings, paths: list[str], flag: str = "--source-prompts"
) -> Tensor:
    """Return the prompts of n checkpoints, n x places x rows x d.

    Raise InputError if one has no task prompt, other sizes, places or insertion, or was trained on another backbone.
    """
    wanted = (len(method.places), method.rows, words.embeddings.size(1))
    prompts = []
    for path in paths:
        options, tensors = read_checkpoint(path, flag)
        what = f"{flag} {path}"
        rows = _task_prompt(tensors, what)
        insertion, layers = (str(options.get(name)) for name in ("prompt_insertion", "prompt_layers"))
        places = None  # where the source has layers that this backbone lacks
        with contextlib.suppress(InputError):
            places = parse_places(layers, cfg.encoder_layers, needs_input=False)
        if rows.shape != wanted or insertion != method.insertion or places != method.places:
            raise InputError(
                f"{what} has a prompt of {rows.size(1)} x {rows.size(2)} for --prompt-insertion {insertion} "
                f"--prompt-layers {layers}, and this run's is {wanted[1]} x {wanted[2]} for {method.insertion} and "
                f"{cfg.prompt_layers}: give the same, or another"
            )
        # rows mean something only to the weights that they were trained with
        if tensors.get(FINGERPRINT) is None or on_other_backbone(options, tensors, words):
            raise InputError(f"{what} is not known to have this run's backbone and --predict-with: give one that has")
        prompts.append(rows.float())
    return torch.stack(prompts)


def _task_prompt(tensors: dict[str, Tensor], what: str) -> Tensor:
    """Return the table of the one method in a checkpoint that is a task prompt, places x rows x d."""
    for state in saved_methods(tensors):
        names = {name for name in state if not name.startswith("reparameterization.")}
        if names == {"table"} and state["table"].dim() == 3 and state["table"].is_floating_point():
            return state["table"]
    raise InputError(f"{what} holds no task prompt: give a checkpoint of --method prompt-tuning, p-tuning and the like")
