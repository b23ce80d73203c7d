"""What a family of cases is: the settings of its files as our options, its tensors as our parameters."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from checkpoints.convert_hf import EMBEDDINGS, LAYER
from fairseq_idpg.backbone.injection import Origin, States
from fairseq_idpg.methods.adapters.lora import LINEARS
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


def train_method(model: RobertaIDPGModel, case: Case) -> None:
    """In evaluation the folded prompt is read, which has no gradient."""
    model.method.train()


# --- the backbone alone, BitFit, LoRA and parallel adapters


def backbone_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    return {of_backbone(name): value for name, value in theirs.items()}


def by_layer(theirs: dict[str, Tensor], ending: str) -> list[Tensor]:
    """The tensors of layer 0, 1, … whose names are ``layer.i.`` and ``ending``."""
    found = {
        int(name.split(".")[1]): value for name, value in theirs.items() if re.sub(r"^layer\.\d+\.", "", name) == ending
    }
    return [found[i] for i in sorted(found)]


def modules_of(theirs: dict[str, Tensor]) -> set[str]:
    """Modules of a layer that have an A and a B, by their names in the file."""
    return {re.sub(r"^layer\.\d+\.|\.lora_[AB]\.weight$", "", name) for name in theirs}


def linear_of(module: str) -> str:
    return OURS[module].split(".")[-1]


def lora_options(case: Case) -> dict[str, Any]:
    short = {linear: name for name, linear in LINEARS.items()}
    projections = ",".join(sorted(short[linear_of(module)] for module in modules_of(case.below("train/"))))
    layers = sorted({int(name.split(".")[1]) for name in case.below("train/")})
    return {
        "method": "lora",
        "lora_rank": case.hyper["r"],
        "lora_alpha": float(case.hyper["alpha"]),
        "lora_projections": projections,
        "lora_layers": ",".join(map(str, layers)),
    }


def lora_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    ours = {}
    for module in modules_of(theirs):
        for which in "AB":
            stack = torch.stack(by_layer(theirs, f"{module}.lora_{which}.weight"))
            ours[f"method.{which.lower()}.{linear_of(module)}"] = stack
    return ours


def bitfit_options(case: Case) -> dict[str, Any]:
    norms = any("LayerNorm" in name for name in case.below("train/"))
    return {"method": "bitfit", "bitfit_layer_norms": str(norms).lower()}


ADAPTER = "ef_ffn_adapter"


def parallel_options(case: Case) -> dict[str, Any]:
    scale = case.hyper["ffn_adapter_scalar"]
    return {
        "method": "adapter-parallel",
        "adapter_hidden_size": case.hyper["ffn_bn"],
        "adapter_scale": "learned" if scale == "learnable_scalar" else scale,
    }


def parallel_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    part = lambda name: by_layer(theirs, f"{ADAPTER}.{name}")  # noqa: E731
    ours = {
        "method.down": torch.stack(part("down_proj.weight")).transpose(1, 2),
        "method.down_bias": torch.stack(part("down_proj.bias")),
        "method.up": torch.stack(part("up_proj.weight")).transpose(1, 2),
        "method.up_bias": torch.stack(part("up_proj.bias")),
    }
    return {**ours, "method.scale": torch.cat(part("scale"))} if part("scale") else ours


# --- prefix tuning, by a network or as a table, and MAM: a network's row is key and value of layer 0, 1, …

NETWORK = {
    "wte.weight": "embedding",
    **{f"control_trans.{layer}": f"mlp.{layer}" for layer in ("0.weight", "0.bias", "2.weight", "2.bias")},
}
PREFIX, ADAPTERS = 0, 1  # parts of mam


def prefix_options(case: Case) -> dict[str, Any]:
    by_network = case.hyper["attn_mode"] == "prefix"
    given = {"method": "prefix-tuning", "prompt_length": case.hyper["attn_bn"]}
    network = {"reparameterization_hidden_size": case.hyper["mid_dim"]}
    return {**given, **(network if by_network else {"prompt_reparameterization": "none"})}


def network_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    return {f"method.reparameterization.{ours}": theirs[f"prefix.{name}"] for name, ours in NETWORK.items()}


def table_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    kinds = ([theirs[f"prefix.decoder_self_attn_{kind}.{i}.weight"] for i in range(len(theirs) // 2)]
             for kind in ("key", "value"))  # fmt: skip
    return {"method.table": torch.stack([torch.cat(pair) for pair in zip(*kinds)])}


def mam_options(case: Case) -> dict[str, Any]:
    return {**prefix_options(case), **parallel_options(case), "method": "mam", "adapter_dropout": 0.0}


def mam_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    parts = {PREFIX: network_tensors(theirs, case), ADAPTERS: parallel_tensors(theirs, case)}
    return {
        name.replace("method.", f"method.parts.{i}.", 1): value
        for i, tensors in parts.items()
        for name, value in tensors.items()
    }


# --- DePT: a table and the pair that is added to the words

dept_options = options_from("dept", prompt_length="s", words_rank="r", words_length="M", words_alpha="alpha")


def dept_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    pair = {f"method.words.{which.lower()}": theirs[f"lora_embedding_{which}"] for which in "AB"}
    return {"method.table": theirs["embedding.weight"][None], **pair}


# --- EPT: both readings. Its network is there in training alone, so the method is in training mode

FUSED = "method.reparameterization."

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

ID_SPAM = {
    "W_Q": "generators.0.query.weight",
    "W_K": "generators.0.key.weight",
    "W_V": "generators.0.value.weight",
    "W_down": "generators.0.down.weight",
    "b_down": "generators.0.down.bias",
    "W_up": "generators.0.up.weight",
    "b_up": "bias",
}


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

LOPA = {
    "row_down_proj": "row_down",
    "row_up_proj": "row_up",
    "col_down_proj": "column_down",
    "col_up_proj": "column_up",
}


def lopa_options(case: Case) -> dict[str, Any]:
    given = options_from("lopa", prompt_length="t", lopa_rank="r", generator_hidden_size="h")(case)
    return {**given, "representation_trained": "true" if "trained" in case.name else "false"}


def lopa_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    layers = {name: name.partition(".") for name in theirs if name.partition(".")[0] in LOPA}
    ours = {f"method.gates.0.{LOPA[layer]}.{part}": theirs[name] for name, (layer, _, part) in layers.items()}
    encoder = {name.removeprefix("encoder."): value for name, value in theirs.items() if name.startswith("encoder.")}
    ours |= {f"method.{of_backbone(name)}": value for name, value in encoder.items()}
    return {"method.table": theirs["prompt"][None], **ours}


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
    layers = {name: name.rpartition(".") for name in theirs if name != "prompt_embeddings.weight"}
    ours = {f"method.{IPL[layer]}.{part}": theirs[name] for name, (layer, _, part) in layers.items()}
    return {"method.table": theirs["prompt_embeddings.weight"][None], **ours}


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


def moe_options(case: Case) -> dict[str, Any]:
    names = {"prompt_length": "t", "moe_experts": "experts", "moe_rank": "r", "moe_chosen": "top_k"}
    return options_from("pt-moe", **names)(case)


def moe_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    factors = {"method.a": theirs["A"][None], "method.b": theirs["B"][None]}
    return {**factors, **{f"method.{name}": theirs[name] for name in ("router.weight", "router.bias")}}


# --- dynamic prompting

DYNAMIC = {"pos_transform.layers.0": "position", "vec_emb.layers.0": "pool"}


def dynamic_options(case: Case) -> dict[str, Any]:
    given = options_from("dynamic-prompt", prompt_length="t", dynamic_temperature="temperature")(case)
    return {**given, "dynamic_pool": case.hyper.get("k", 1)}


def dynamic_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    layers = {name: name.rpartition(".") for name in theirs if "layers" in name}
    ours = {f"method.{DYNAMIC[layer]}.{part}": theirs[name] for name, (layer, _, part) in layers.items()}
    (table,) = (value for name, value in theirs.items() if name not in layers)
    return {"method.table": table.reshape(1, -1, table.size(-1)), **ours}


FAMILIES = (
    Family("plain", lambda case: {"method": "head-only"}, backbone_tensors),
    Family("lora", lora_options, lora_tensors),
    Family("bitfit", bitfit_options, backbone_tensors),
    Family("parallel", parallel_options, parallel_tensors),
    Family("prefix_mlp", prefix_options, network_tensors, train_method),
    Family("prefix_table", prefix_options, table_tensors),
    Family("mam", mam_options, mam_tensors, train_method),
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


def family_of(name: str) -> Family | None:
    fitting = [family for family in FAMILIES if name.startswith(family.prefix)]
    return max(fitting, key=lambda family: len(family.prefix), default=None)
