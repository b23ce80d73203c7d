"""What a family of cases is: the settings of its files as our options, its tensors as our parameters.

A builder file in this folder holds ``FAMILIES``, a tuple of ``Family``; it is found by being here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor

from checkpoints.convert_hf import EMBEDDINGS, LAYER
from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
from tests.golden.golden2.case import Case

STACK = "encoder.sentence_encoder."
OURS = {theirs: ours for theirs, ours, _ in (*LAYER, *EMBEDDINGS)}  # modules of a layer, and the embedding's LayerNorm


@dataclass(frozen=True)
class Family:
    """How cases whose names begin with ``prefix`` are built here; the longest fitting prefix counts.

    Attributes:
        options: the case -> options of the model, ``method`` among them.
        tensors: (names in the file -> tensors, the case) -> names of our parameters -> tensors. Used for ``train/*``
            and for ``grad/*``, so it may rename, stack, transpose and reshape, nothing else.
        prepare: what else must be set in the model before its pass, such as noise that the file recorded.
        more: (model, case, its pass) -> other arrays of the file that we can show; of B x T ones real tokens count.
    """

    prefix: str
    options: Callable[[Case], dict[str, Any]]
    tensors: Callable[[dict[str, Tensor], Case], dict[str, Tensor]]
    prepare: Callable[[RobertaIDPGModel, Case], None] = lambda model, case: None
    more: Callable[[RobertaIDPGModel, Case, Any], dict[str, Tensor]] = lambda model, case, passed: {}


def of_backbone(name: str) -> str:
    """Our name of a tensor of the backbone: ``encoder.layer.3.output.dense.bias`` -> ``….layers.3.fc2.bias``."""
    module, _, kind = name.rpartition(".")
    layer = re.match(r"(?:encoder\.)?layer\.(\d+)\.", module)
    if layer is None:
        return f"{STACK}{OURS[module]}.{kind}"
    return f"{STACK}layers.{layer[1]}.{OURS[module[layer.end() :]]}.{kind}"


def options_from(method: str, **theirs: str) -> Callable[[Case], dict[str, Any]]:
    """``Family.options`` of settings that go over as they are: our option -> their name in the file."""
    return lambda case: {"method": method, **{option: case.hyper[name] for option, name in theirs.items()}}


def word_embeddings(model: RobertaIDPGModel, case: Case) -> Tensor:
    """B x T x d, the backbone's own, nothing added."""
    return model.get_submodule(STACK.rstrip(".")).embed_tokens(case.ids)


def train_method(model: RobertaIDPGModel, case: Case) -> None:
    """In evaluation the folded prompt is read, which has no gradient."""
    model.method.train()


def families() -> dict[str, Family]:
    """Prefix -> family, of every file in this folder."""
    files = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))
    modules = [import_module(f"{__package__}.{name}") for name in files if name != "__init__"]
    return {family.prefix: family for module in modules for family in getattr(module, "FAMILIES", ())}


def family_of(name: str) -> Family | None:
    fitting = [family for prefix, family in families().items() if name.startswith(prefix)]
    return max(fitting, key=lambda family: len(family.prefix), default=None)
