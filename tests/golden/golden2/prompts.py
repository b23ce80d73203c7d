"""DePT, EPT, LPT and SMoP."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fairseq_idpg.backbone.injection import States
from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
from tests.golden.golden2.case import Case
from tests.golden.golden2.family import Family, options_from, train_method, word_embeddings

# --- DePT: a table and the pair that is added to the words

dept_options = options_from("dept", prompt_length="s", words_rank="r", words_length="M", words_alpha="alpha")


def dept_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    pair = {f"method.words.{which.lower()}": theirs[f"lora_embedding_{which}"] for which in "AB"}
    return {"method.table": theirs["embedding.weight"][None], **pair}


def updated_words(model: RobertaIDPGModel, case: Case, passed: Any) -> dict[str, Tensor]:
    """B x T x d, the word embeddings with what is added to them."""
    words = word_embeddings(model, case)
    return {"updated_word_embeddings": words + model.method.words()[: words.size(1)]}


# --- EPT: both readings. Its network is there in training alone, so the method is in training mode

NETWORK = "method.reparameterization."

ept_options = options_from(
    "ept",
    prompt_length="s",
    words_rank="r",
    words_length="M",
    ept_hidden_size="h",
    ept_experts="N_e",
    ept_fusion="reading",
)


def ept_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    def of_experts(name: str) -> list[Tensor]:
        return [theirs[name.format(i)] for i in range(case.hyper["N_e"])]

    ours = {"method.words.a": theirs["A"], "method.words.b": theirs["B"], NETWORK + "rows": theirs["P_s"][None]}
    for part in ("down", "up"):
        ours[f"{NETWORK}experts.{part}"] = torch.stack(of_experts(f"expert.{{}}.{part}.weight")).transpose(1, 2)
        ours[f"{NETWORK}experts.{part}_bias"] = torch.stack(of_experts(f"expert.{{}}.{part}.bias"))[:, None]
    for part in ("weight", "bias"):
        ours[f"{NETWORK}experts.gate.{part}"] = torch.cat(of_experts(f"gate.{{}}.{part}"))
    return ours


def ept_more(model: RobertaIDPGModel, case: Case, passed: Any) -> dict[str, Tensor]:
    """The parts of the prompt, folded and not, and the words."""
    method = model.method
    network, added = method.reparameterization, method.words()
    shown = {"P_f": network.fused(added)[0], "P_amend": network.experts(network.rows)[0], "AB": added}
    shown["gate"] = network.experts.gate(network.rows)[0].softmax(-1)
    method.fold()
    return {**shown, "P_new": method.table[0], **updated_words(model, case, passed)}


# --- LPT: a table, or a generator that reads the states below, whose rows join after layer k (our place k)


def lpt_options(case: Case) -> dict[str, Any]:
    hyper = case.hyper
    given = {"prompt_length": hyper["t"], "prompt_layers": str(hyper["k"])}
    if hyper["generator"] is None:
        return {"method": "lpt-naive", **given}
    return {"method": f"lpt-{hyper['generator'].lower()}", "generator_hidden_size": hyper["m"], **given}


def lpt_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    if case.hyper["generator"] is None:
        return {"method.table": theirs["prompt_embedding.weight"][None]}
    generator = {name.removeprefix("prompt_generator.proj_"): value for name, value in theirs.items()}
    bias = generator.pop("up.bias").view(1, -1, generator["down.weight"].size(1))
    return {"method.bias": bias, **{f"method.generators.0.{name}": value for name, value in generator.items()}}


# --- SMoP: the table of all prompts and the router; where a file has noise, its numbers instead of drawn ones


def smop_options(case: Case) -> dict[str, Any]:
    given = options_from("smop", prompt_length="l", smop_prompts="k", smop_chosen="topk")(case)
    return {**given, "smop_noise": "multiply" if case.hyper["perturb"] else "none"}


def smop_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    return {"method.table": theirs["embedding.weight"][None], "method.router": theirs["router.0.weight"]}


def take_noise(model: RobertaIDPGModel, case: Case) -> None:
    if "noise" in case.arrays:
        model.method.train().draw = lambda logits: case.arrays["noise"]


def smop_more(model: RobertaIDPGModel, case: Case, passed: Any) -> dict[str, Tensor]:
    """What the router gives, and what is chosen."""
    logits = model.method.logits(States(word_embeddings(model, case).transpose(0, 1), ~case.arrays["mask"].bool()))
    perturbed = model.method.perturbed(logits)
    chosen = model.method.weights(perturbed).topk(case.hyper["topk"])
    shown = {"router_logits": logits, "router_probs": perturbed.softmax(1), "choice": chosen.indices}
    return {**shown, "gate": chosen.values}


FAMILIES = (
    Family("dept", dept_options, dept_tensors, more=updated_words),
    Family("ept", ept_options, ept_tensors, train_method, ept_more),
    Family("lpt", lpt_options, lpt_tensors),
    Family("smop", smop_options, smop_tensors, take_noise, smop_more),
)
