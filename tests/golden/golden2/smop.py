"""SMoP: the table of all prompts and the router; where a file has noise, its numbers instead of drawn ones."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from fairseq_idpg.backbone.injection import States
from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
from tests.golden.golden2.case import Case
from tests.golden.golden2.family import STACK, Family


def options(case: Case) -> dict[str, Any]:
    hyper = case.hyper
    return {
        "method": "smop",
        "prompt_length": hyper["l"],
        "smop_prompts": hyper["k"],
        "smop_chosen": hyper["topk"],
        "smop_noise": "multiply" if hyper["perturb"] else "none",
    }


def tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    return {"method.table": theirs["embedding.weight"][None], "method.router": theirs["router.0.weight"]}


def prepare(model: RobertaIDPGModel, case: Case) -> None:
    if "noise" in case.arrays:
        model.method.train().draw = lambda logits: case.arrays["noise"]


def more(model: RobertaIDPGModel, case: Case, passed: Any) -> dict[str, Tensor]:
    """What the router gives, and what is chosen."""
    words = model.get_submodule(STACK.rstrip(".")).embed_tokens(case.ids).transpose(0, 1)
    logits = model.method.logits(States(words, ~case.arrays["mask"].bool()))
    perturbed = model.method.perturbed(logits)
    chosen = model.method.weights(perturbed).topk(case.hyper["topk"])
    shown = {"router_logits": logits, "router_probs": perturbed.softmax(1), "choice": chosen.indices}
    return {**shown, "gate": chosen.values}


FAMILIES = (Family("smop", options, tensors, prepare, more),)
