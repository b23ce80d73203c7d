"""Key maps from Hugging Face encoders to fairseq's RoBERTa, and the weights moved along them.

RoBERTa, XLM-R and BERT are one network under different names: post-norm Transformer layers over
word + position + segment embeddings. fairseq has no segment table and counts positions from
padding + 1 = 2, so two tables are rewritten and everything else is renamed:

    embed_tokens[j]        = word_embeddings[order[j]]
    embed_positions[2 + i] = position_embeddings[first + i] + token_type_embeddings[0]

Shapes: V vocabulary, P Hugging Face positions, S segments, C width, F inner width of the FFN.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from preprocess.errors import InputError, reason_of

State = dict[str, Tensor]
Rows = tuple[tuple[str, str, str], ...]

# (Hugging Face name, fairseq name, shape of the weight); a bias has the weight's first dimension.
EMBEDDINGS: Rows = (("embeddings.LayerNorm", "layernorm_embedding", "C"),)
LAYER: Rows = (
    ("attention.self.query", "self_attn.q_proj", "CC"),
    ("attention.self.key", "self_attn.k_proj", "CC"),
    ("attention.self.value", "self_attn.v_proj", "CC"),
    ("attention.output.dense", "self_attn.out_proj", "CC"),
    ("attention.output.LayerNorm", "self_attn_layer_norm", "C"),
    ("intermediate.dense", "fc1", "FC"),
    ("output.dense", "fc2", "CF"),
    ("output.LayerNorm", "final_layer_norm", "C"),
)


class LMHead(NamedTuple):
    """Where a family keeps its masked-LM head: bias(V) + E . norm(act(dense(x)))."""

    modules: Rows
    biases: tuple[str, ...]  # one tensor that files store under either name
    decoder: str  # absent from most files, because it is the embedding table


ROBERTA_HEAD = LMHead(
    (("lm_head.dense", "dense", "CC"), ("lm_head.layer_norm", "layer_norm", "C")),
    ("lm_head.bias", "lm_head.decoder.bias"),
    "lm_head.decoder.weight",
)
BERT_HEAD = LMHead(
    (
        ("cls.predictions.transform.dense", "dense", "CC"),
        ("cls.predictions.transform.LayerNorm", "layer_norm", "C"),
    ),
    ("cls.predictions.bias", "cls.predictions.decoder.bias"),
    "cls.predictions.decoder.weight",
)


class Family(NamedTuple):
    """What differs between the supported values of `model_type`."""

    lm_head: LMHead
    positions_follow_padding: bool  # the first token's position is the padding's id + 1, not 0


FAMILIES = {
    "roberta": Family(ROBERTA_HEAD, True),
    "xlm-roberta": Family(ROBERTA_HEAD, True),
    "bert": Family(BERT_HEAD, False),
}

PREFIXES = ("", "roberta.", "bert.")
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
WORDS = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
SEGMENTS = "embeddings.token_type_embeddings.weight"
BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
# The first BERT files call the parameters of a LayerNorm by its paper's letters.
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def read_weights(folder: Path) -> State:
    """Load the tensors of a Hugging Face folder; no pickled code is executed.

    Raises:
        InputError: there is no such file, or it is damaged.
    """
    path = next((folder / name for name in WEIGHT_FILES if (folder / name).is_file()), folder)
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state = load_file(str(path))
        elif path != folder:
            from fairseq_idpg.saving.torch_files import read_saved

            state = read_saved(str(path))
        else:
            raise FileNotFoundError(f"neither {' nor '.join(WEIGHT_FILES)} there; sharded weights are not read")
        for name, tensor in state.items():
            if not isinstance(name, str) or not isinstance(tensor, Tensor) or tensor.layout != torch.strided:
                raise ValueError(f"{name} is not a tensor")
            if tensor.is_floating_point() and not tensor.isfinite().all():
                raise ValueError(f"{name} has a number that is not finite")
    except Exception as error:  # readers raise half a dozen types on a damaged file
        raise InputError(f"{path}: unreadable, fetch it again ({reason_of(error)})") from error
    return {_modern(name): tensor for name, tensor in state.items()}


def _modern(name: str) -> str:
    for old, new in OLD_NAMES.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


class Reader:
    """Takes tensors from a Hugging Face state, checks their shapes, remembers what was taken."""

    def __init__(self, state: State, sizes: dict[str, int]):
        self.state, self.sizes = state, sizes
        self.taken: set[str] = set()

    def __call__(self, name: str, shape: str) -> Tensor:
        """Return tensor `name` as float32; `shape` spells its dimensions, such as "FC"."""
        tensor, expected = self.state.get(name), tuple(self.sizes[letter] for letter in shape)
        if tensor is None or tuple(tensor.shape) != expected or not tensor.is_floating_point():
            found = "missing" if tensor is None else f"{tuple(tensor.shape)} of {tensor.dtype}"
            raise ValueError(f"{name} is {found}, but config.json says {expected}; take both files from the same model")
        self.taken.add(name)
        # A copy of its own: torch.save would write the whole file behind a view.
        return tensor.to(torch.float32, copy=True).contiguous()

    def modules(self, source: str, target: str, rows: Rows) -> State:
        """Rename the weight and bias of every module in `rows` below the two roots."""
        state = {}
        for hf_name, fairseq_name, shape in rows:
            state[f"{target}{fairseq_name}.weight"] = self(f"{source}{hf_name}.weight", shape)
            state[f"{target}{fairseq_name}.bias"] = self(f"{source}{hf_name}.bias", shape[0])
        return state


def sizes_of(config: dict[str, Any]) -> dict[str, int]:
    """Map the shape letters to a configuration's numbers."""
    return {
        "V": config["vocab_size"],
        "P": config["max_position_embeddings"],
        "S": config.get("type_vocab_size", 2),
        "C": config["hidden_size"],
        "F": config["intermediate_size"],
    }


def convert_weights(weights: State, config: dict[str, Any], order: list[int]) -> State:
    """Return fairseq's RoBERTa state; `order[j]` is the source id of fairseq's id j.

    The masked-LM head is converted if the source has one that is tied to the embeddings, as
    fairseq's is; otherwise the state has no `encoder.lm_head.*` at all.
    """
    family = FAMILIES[config["model_type"]]
    prefix = next((p for p in PREFIXES if p + WORDS in weights), None)
    if prefix is None:
        raise ValueError(f"the weights lack {WORDS} (with prefix {', '.join(PREFIXES[1:])} or none)")
    take = Reader(weights, sizes_of(config))
    first = order[1] + 1 if family.positions_follow_padding else 0
    segment = take(prefix + SEGMENTS, "SC")[0] if prefix + SEGMENTS in weights else None

    root = "encoder.sentence_encoder."
    words = take(prefix + WORDS, "VC")
    state = {
        f"{root}version": torch.tensor([3.0]),  # fairseq's layout without a final layer norm
        f"{root}embed_tokens.weight": words[torch.tensor(order)],
        f"{root}embed_positions.weight": fold_positions(take(prefix + POSITIONS, "PC"), segment, first),
    }
    state.update(take.modules(prefix, root, EMBEDDINGS))
    for i in range(config["num_hidden_layers"]):
        state.update(take.modules(f"{prefix}encoder.layer.{i}.", f"{root}layers.{i}.", LAYER))
    _refuse_leftovers(weights, prefix, take.taken)
    state.update(convert_lm_head(take, family.lm_head, words, order))
    if "encoder.lm_head.bias" in state:  # one storage, so the file holds the table once
        state["encoder.lm_head.weight"] = state[f"{root}embed_tokens.weight"]
    return state


def fold_positions(rows: Tensor, segment: Tensor | None, first: int) -> Tensor:
    """Return fairseq's position table.

    rows: P x C, segment: C or None, first: row of the first token -> (2 + P - first) x C.
    Rows 0 and 1 (unused, padding) are never read: kept where the tables agree, else zero.
    """
    unused = rows[:2] if first == 2 else rows.new_zeros(2, rows.size(1))
    used = rows[first:] if segment is None else rows[first:] + segment
    return torch.cat([unused, used])


def convert_lm_head(take: Reader, head: LMHead, words: Tensor, order: list[int]) -> State:
    """Return `encoder.lm_head.*` without its tied weight, or {} if there is no such head."""
    source = take.state
    bias = next((name for name in head.biases if name in source), None)
    if bias is None or any(f"{name}.weight" not in source for name, _, _ in head.modules):
        return {}
    if head.decoder in source and not torch.equal(take(head.decoder, "VC"), words):
        return {}  # fairseq would load this table over the embeddings
    state = take.modules("", "encoder.lm_head.", head.modules)
    state["encoder.lm_head.bias"] = take(bias, "V")[torch.tensor(order)]
    return state


def _refuse_leftovers(weights: State, prefix: str, taken: set) -> None:
    """Raise if the encoder has weights (adapters, relative positions ...) that would be lost."""
    for name in weights:
        inside = name.startswith((f"{prefix}encoder.", f"{prefix}embeddings."))
        if inside and name not in taken and name[len(prefix) :] not in BUFFERS:
            raise ValueError(f"no place for {name} in fairseq's RoBERTa: not a plain encoder")
