"""ID-SPAM: every reading of the paper that the files have. Their weights multiply from the right."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from fairseq_idpg.backbone.injection import Origin, States
from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
from tests.golden.golden2.case import Case
from tests.golden.golden2.family import Family

OURS = {
    "W_Q": "generators.0.query.weight",
    "W_K": "generators.0.key.weight",
    "W_V": "generators.0.value.weight",
    "W_down": "generators.0.down.weight",
    "b_down": "generators.0.down.bias",
    "W_up": "generators.0.up.weight",
    "b_up": "bias",
}


def options(case: Case) -> dict[str, Any]:
    hyper = case.hyper
    late = hyper["m"] > 0 or hyper.get("late", False)
    return {
        "method": "id-spam",
        "prompt_length": hyper["t"],
        "prompt_layers": str(hyper["m"]),
        "prompt_insertion": "late" if late else "add",
        "generator_hidden_size": hyper["c"],
        "generator_input": "embeddings" if hyper.get("embout") else "words",
        "generator_bias": "true" if hyper.get("bias") else "false",
        "id_spam_output": "relu" if hyper.get("relu_up", True) else "linear",
        "id_spam_pooling": "mean" if hyper.get("meanpool") else "attention",
    }


def tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    found = {}
    for name, value in theirs.items():
        if name.endswith("_up") and case.hyper.get("shape") == "nt":  # the flat output is d x t there
            value = value.unflatten(-1, (-1, case.hyper["t"])).transpose(-1, -2).flatten(-2)
        found[f"method.{OURS[name]}"] = value.view(1, case.hyper["t"], -1) if name == "b_up" else value.t()
    return found


def prepare(model: RobertaIDPGModel, case: Case) -> None:
    """Where the file counts pads as tokens, the generator is not told of them."""
    if case.hyper.get("use_mask", True):
        return
    begin_pass = model.method.begin_pass

    def without_mask(states: States) -> States:
        return states._replace(padding=None)

    def begin_without_masks(representation):
        prompt_at = begin_pass(representation)

        def made(place: int, states: States) -> Tensor:
            if states.origin is not None:
                states = states._replace(origin=Origin(*(lambda f=f: without_mask(f()) for f in states.origin)))
            return prompt_at(place, without_mask(states))

        return made

    model.method.begin_pass = begin_without_masks


def more(model: RobertaIDPGModel, case: Case, passed: Any) -> dict[str, Tensor]:
    """What the generator read, and its one vector of all tokens."""
    padding = None if not case.hyper.get("use_mask", True) else ~case.arrays["mask"].bool()
    read = case.arrays["generator_input"]
    mean = model.method.generators[0].attended_mean(States(read.transpose(0, 1), padding))
    return {"attended_mean": mean}


FAMILIES = (Family("idspam", options, tensors, prepare, more),)
