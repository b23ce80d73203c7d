"""What a family of cases is: the settings of its files as our options, its tensors as our parameters."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from checkpoints.convert_hf import EMBEDDINGS, LAYER
from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
from tests.golden.golden2.case import Case

STACK = "encoder.sentence_encoder."
OURS = {theirs: ours for theirs, ours, _ in (*LAYER, *EMBEDDINGS)}  # modules of a layer, and those of the embedding
OURS |= {
    f"embeddings.{kind}_embeddings": ours for kind, ours in (("word", "embed_tokens"), ("position", "embed_positions"))
}


@dataclass(frozen=True)
class Family:
    """How cases whose names begin with ``prefix`` are built here; the longest fitting prefix counts.

    Attributes:
        options: the case -> options of the model, ``method`` among them.
        tensors: (names in the file -> tensors, the case) -> names of our parameters -> tensors. Used for ``train/*``
            and for ``grad/*``, so it may rename, stack, transpose and reshape, nothing else.
        prepare: what else must be set in the model before its pass, such as noise that the file recorded.
    """

    prefix: str
    options: Callable[[Case], dict[str, Any]]
    tensors: Callable[[dict[str, Tensor], Case], dict[str, Tensor]]
    prepare: Callable[[RobertaIDPGModel, Case], None] = lambda model, case: None


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


def renamed(theirs: dict[str, Tensor], modules: dict[str, str]) -> dict[str, Tensor]:
    """Parameters of the method's modules: the module's name in the file -> ours."""
    parts = ((*name.rpartition("."), value) for name, value in theirs.items())
    return {f"method.{modules[module]}.{kind}": value for module, _, kind, value in parts if module in modules}


def train_method(model: RobertaIDPGModel, case: Case) -> None:
    """In evaluation the folded prompt is read, which has no gradient."""
    model.method.train()
