"""Cases of prompts, the newest papers last."""

from typing import Any

import torch
from torch import Tensor

from fairseq_idpg.backbone.injection import Origin, States
from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
from tests.golden.golden2.case import Case
from tests.golden.golden2.family import STACK, Family, of_backbone, options_from, renamed, train_method

# --- DePT: a table and the pair that is added to the words

dept_options = options_from("dept", prompt_length="s", words_rank="r", words_length="M", words_alpha="alpha")


def dept_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    pair = {f"method.words.{which.lower()}": theirs[f"lora_embedding_{which}"] for which in "AB"}
    return {"method.table": theirs["embedding.weight"][None], **pair}


# --- EPT: both readings. Its network is there in training alone, so the method is in training mode

FUSED = "method.reparameterization."

EPT = {"prompt_length": "s", "words_rank": "r", "words_length": "M", "ept_hidden_size": "h", "ept_experts": "N_e"}
ept_options = options_from("ept", **EPT, ept_fusion="reading")


def ept_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    def of_experts(name: str) -> list[Tensor]:
        return [theirs[name.format(i)] for i in range(case.hyper["N_e"])]

    ours = {"method.words.a": theirs["A"], "method.words.b": theirs["B"], FUSED + "rows": theirs["P_s"][None]}
    for part in ("down", "up"):
        ours[f"{FUSED}experts.{part}"] = torch.stack(of_experts(f"expert.{{}}.{part}.weight")).transpose(1, 2)
        ours[f"{FUSED}experts.{part}_bias"] = torch.stack(of_experts(f"expert.{{}}.{part}.bias"))[:, None]
    for part in ("weight", "bias"):
        ours[f"{FUSED}experts.gate.{part}"] = torch.cat(of_experts(f"gate.{{}}.{part}"))
    return ours


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


# --- ID-SPAM: every reading of the paper that the files have. Their weights multiply from the right

LINEARS = {"Q": "query", "K": "key", "V": "value", "down": "down", "up": "up"}
ID_SPAM = {f"W_{theirs}": f"generators.0.{ours}.weight" for theirs, ours in LINEARS.items()}
ID_SPAM |= {"b_down": "generators.0.down.bias", "b_up": "bias"}


def id_spam_options(case: Case) -> dict[str, Any]:
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


def id_spam_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    found = {}
    for name, value in theirs.items():
        if name.endswith("_up") and case.hyper.get("shape") == "nt":  # the flat output is d x t there
            value = value.unflatten(-1, (-1, case.hyper["t"])).transpose(-1, -2).flatten(-2)
        found[f"method.{ID_SPAM[name]}"] = value.view(1, case.hyper["t"], -1) if name == "b_up" else value.t()
    return found


def count_pads(model: RobertaIDPGModel, case: Case) -> None:
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


# --- LoPA: the table and the four layers of the gate; in training the two masks that the file has

LOPA = {f"{side[:3]}_{way}_proj": f"gates.0.{side}_{way}" for side in ("row", "column") for way in ("down", "up")}


def lopa_options(case: Case) -> dict[str, Any]:
    given = options_from("lopa", prompt_length="t", lopa_rank="r", generator_hidden_size="h")(case)
    return {**given, "representation_trained": "true" if "trained" in case.name else "false"}


def lopa_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    encoder = {name.removeprefix("encoder."): value for name, value in theirs.items() if name.startswith("encoder.")}
    copied = {f"method.{of_backbone(name)}": value for name, value in encoder.items()}
    return {"method.table": theirs["prompt"][None], **renamed(theirs, LOPA), **copied}


def take_masks(model: RobertaIDPGModel, case: Case) -> None:
    if "drop_u" in case.arrays:
        masks = iter((case.arrays["drop_u"], case.arrays["drop_v"]))
        model.method.gates[0].dropout.forward = lambda c: c * next(masks)


# --- ADePT: the table and the network of the words; in training the mask that the file has

ADEPT = {"A": "down", "a": "down_bias", "B": "up", "b": "up_bias"}

adept_options = options_from("adept", prompt_length="t", adept_rank="r")


def adept_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    ours = {f"method.{ADEPT[which]}": theirs[f"lora_embedding_{which}"] for which in ADEPT}
    return {"method.table": theirs["embedding.weight"][None], **ours}


def take_mask(model: RobertaIDPGModel, case: Case) -> None:
    if "drop" in case.arrays:
        mask = torch.zeros(case.ids.size(0), case.ids.size(1) + len(case.prompt_slots), case.hyper["r"])
        mask[:, case.text_slots] = case.arrays["drop"]
        model.method.dropout.forward = lambda hidden: hidden * mask.transpose(0, 1)


# --- IPL: the table, its network, queries and keys

IPL = {"mlp.0": "mlp.0", "mlp.2": "mlp.2", "prompt_query": "query", "prompt_key": "key"}


def ipl_options(case: Case) -> dict[str, Any]:
    given = options_from("ipl", prompt_length="t", ipl_hidden_size="h")(case)
    return {**given, "ipl_pads": "left-out" if case.hyper["mean_over"] == "real tokens" else "counted"}


def ipl_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    return {"method.table": theirs["prompt_embeddings.weight"][None], **renamed(theirs, IPL)}


# --- prefix propagation: their prompt has the positions 0 to t - 1, which a sentence of ours never has

prefix_propagation_options = options_from("prefix-propagation", prompt_length="t")


def propagated_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    table = theirs["embedding.weight"].unflatten(1, (-1, case.arrays["random"].size(1)))
    return {"method.table": table.transpose(0, 1)}


def take_positions_and_masks(model: RobertaIDPGModel, case: Case) -> None:
    with torch.no_grad():
        positions = model.get_parameter(f"{STACK}embed_positions.weight")
        positions[2 : 2 + case.hyper["t"]] = positions[: case.hyper["t"]].clone()
    if "drop" in case.arrays:
        masks = iter(case.arrays["drop"].unbind(2))
        model.method.train().dropout.forward = lambda rows: rows * next(masks)


# --- PT-MoE

moe_options = options_from("pt-moe", prompt_length="t", moe_experts="experts", moe_rank="r", moe_chosen="top_k")


def moe_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    return {"method.a": theirs["A"][None], "method.b": theirs["B"][None], **renamed(theirs, {"router": "router"})}


# --- dynamic prompting

DYNAMIC = {"pos_transform.layers.0": "position", "vec_emb.layers.0": "pool"}


def dynamic_options(case: Case) -> dict[str, Any]:
    given = options_from("dynamic-prompt", prompt_length="t", dynamic_temperature="temperature")(case)
    return {**given, "dynamic_pool": case.hyper.get("k", 1)}


def dynamic_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    (table,) = (value for name, value in theirs.items() if "layers" not in name)
    return {"method.table": table.reshape(1, -1, table.size(-1)), **renamed(theirs, DYNAMIC)}


FAMILIES = (
    Family("dept", dept_options, dept_tensors),
    Family("ept", ept_options, ept_tensors, train_method),
    Family("lpt", lpt_options, lpt_tensors),
    Family("smop", smop_options, smop_tensors, take_noise),
    Family("idspam", id_spam_options, id_spam_tensors, count_pads),
    Family("lopa", lopa_options, lopa_tensors, take_masks),
    Family("adept", adept_options, adept_tensors, take_mask),
    Family("ipl", ipl_options, ipl_tensors),
    Family("prefix_propagation", prefix_propagation_options, propagated_tensors, take_positions_and_masks),
    Family("dp", dynamic_options, dynamic_tensors, take_noise),
    Family("ptmoe", moe_options, moe_tensors, take_noise),
)
