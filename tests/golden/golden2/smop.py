"""SMoP: the table of all prompts and the router; where a file has noise, its numbers instead of drawn ones."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from fairseq_idpg.backbone.injection import States
from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
from tests.golden.golden2.case import Case
from tests.golden.golden2.family import Family, options_from, word_embeddings


def options(case: Case) -> dict[str, Any]:
    given = options_from("smop", prompt_length="l", smop_prompts="k", smop_chosen="topk")(case)
    return {**given, "smop_noise": "multiply" if case.hyper["perturb"] else "none"}


def tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    return {"method.table": theirs["embedding.weight"][None], "method.router": theirs["router.0.weight"]}


def prepare(model: RobertaIDPGModel, case: Case) -> None:
    if "noise" in case.arrays:
        model.method.train().draw = lambda logits: case.arrays["noise"]


def more(model: RobertaIDPGModel, case: Case, passed: Any) -> dict[str, Tensor]:
    """What the router gives, and what is chosen."""
    logits = model.method.logits(States(word_embeddings(model, case).transpose(0, 1), ~case.arrays["mask"].bool()))
    perturbed = model.method.perturbed(logits)
    chosen = model.method.weights(perturbed).topk(case.hyper["topk"])
    shown = {"router_logits": logits, "router_probs": perturbed.softmax(1), "choice": chosen.indices}
    return {**shown, "gate": chosen.values}


FAMILIES = (Family("smop", options, tensors, prepare, more),)
