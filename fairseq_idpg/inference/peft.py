"""Folders of Hugging Face's peft, written and read without it, for its classifiers of RoBERTa, XLM-R and BERT.

peft puts each prompt in front of ``<s>``, where this package has it behind ``<s>``, and counts a prefix among the
positions of the text. A table of positions in the folder makes up for both, exactly (p_i: the row of position i):

- LORA: A and B of each matrix; no table.
- PREFIX_TUNING: t x 2 L d, each row k_1, v_1, ..., k_L, v_L. The text's positions begin at t there: p'_(t + i) = p_i.
- PROMPT_TUNING: attention knows rows by their positions alone, and the head reads the first one. So the t rows are
  the word ``<s>``, P_1, ..., P_(t - 1), and ``<s>`` behind them becomes P_t: p'_t = p_t + P_t - word(<s>).

The positions of fairseq's backbones contain segment 0: beside such a table all segments are 0.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from safetensors.torch import load, save
from torch import Tensor

from preprocess.errors import reason_of

from ..backbone.weights import STACK, Backbone
from ..errors import InputError
from ..methods.adapters.lora import LINEARS, LoRA
from ..methods.base import Method
from ..methods.prompts.task_prompts import TaskPrompts
from ..names import TASK
from ..saving.backbone_file import backbone_path, read_backbone
from ..saving.configuration import OUR_MODEL, defaults, shown
from ..saving.reading import is_finite
from ..saving.record import Record
from ..saving.shared_folder import CARD, LARGEST_CONFIG, as_state, cell, place_of
from ..saving.tensors import HEADS, digest_of, has_digest

CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"
PEFT_FILES = (TENSORS, CONFIG, CARD)
OURS = "fairseq_idpg"  # in the metadata of TENSORS: what config.json of a folder to share says, and a checksum
ROWS, POSITIONS, SEGMENTS = "prompt_embeddings", "position_embeddings", "token_type_embeddings"
WORDS, TABLE = f"{STACK}embed_tokens.weight", f"{STACK}embed_positions.weight"
MODULES = {  # the Linears of a layer, as transformers calls them
    "q_proj": "attention.self.query",
    "k_proj": "attention.self.key",
    "v_proj": "attention.self.value",
    "out_proj": "attention.output.dense",
    "fc1": "intermediate.dense",
    "fc2": "output.dense",
}
# The entries of adapter_config.json that are read here, or change no prediction; others must be off.
KNOWN = set(
    "auto_mapping base_model_name_or_path inference_mode peft_type peft_version revision task_type modules_to_save "
    "target_modules exclude_modules layers_to_transform layers_pattern r lora_alpha lora_dropout use_rslora "
    "megatron_core qalora_group_size num_virtual_tokens num_transformer_submodules num_layers token_dim "
    "num_attention_heads".split()
)
OFF: list[Any] = [None, False, [], {}]
CHOICES: dict[str, list[Any]] = {"bias": ["none"], "init_lora_weights": [True, "gaussian"]}
HEAD = "sentence_classification_head"


class Family(NamedTuple):
    """How transformers calls the parts of its classifiers."""

    encoder: str
    first: int  # the row of a text's first position
    segments: int
    dense: str  # the head is a Linear, tanh and a Linear; BERT's first one is its pooler
    out_proj: str
    modules: list[str]  # those of the head
    separator: int | None  # what its tokenizer puts in front of the second sentence, in our numbers

    def head(self) -> dict[str, str]:
        """Return {our name of a tensor of the head: theirs}."""
        names = {"dense": self.dense, "out_proj": self.out_proj}
        return {f"{own}.{kind}": f"{name}.{kind}" for own, name in names.items() for kind in ("weight", "bias")}


ROBERTA = Family("roberta", 2, 1, "classifier.dense", "classifier.out_proj", ["classifier"], 2)
BERT = Family("bert", 0, 2, "bert.pooler.dense", "classifier", ["pooler", "classifier"], None)


def peft_type(method: Method | None, options: Mapping[str, Any], trained: Mapping[str, Tensor]) -> str:
    """Return peft's name of what a method does; raise ValueError, which says why, where peft cannot hold it."""
    model, position = options["model"], options["task"]["prompt_position"]
    if any(name.startswith(STACK) for name in trained):
        raise ValueError("it trains weights of the backbone")
    if model["predict_with"] != "head" or model["pooler_activation_fn"] != "tanh":
        raise ValueError("transformers' classifiers have a head with tanh")
    if method is not None and method.representation is not None:
        raise ValueError("it makes prompts from each input, where peft has the same for all")
    if type(method) is LoRA:
        return "LORA"
    if type(method) is not TaskPrompts:
        raise ValueError("peft has no such method")
    if method.insertion == "key-value" and len(method.places) == model["encoder_layers"]:
        return "PREFIX_TUNING"
    if not method.in_input or method.places != (0,):
        raise ValueError("prompts of peft enter the input, or keys and values of all layers behind their projections")
    if position != 0:
        raise ValueError(f"prompts of peft stand at the beginning, and --prompt-position is {position}, not 0")
    return "PROMPT_TUNING"


def write_peft(
    folder: Path, name: str, method: Method | None, tensors: Mapping[str, Tensor], config: dict[str, Any], file: str
) -> None:
    """Write ``folder``, which is to be called ``name``; ``tensors`` and ``config`` as for ``write_shared``.

    Raise InputError where peft cannot hold the method, or the backbone ``file`` is missing or another one.
    """
    backbone, options, record = read_backbone(backbone_path(file)), config["options"], Record(**config["data"])
    family, segments = family_of(backbone, record.bpe)
    separator = options["task"]["separator_token"]
    try:
        kind = peft_type(method, options, tensors)
        if record.pairs and separator != family.separator:
            raise ValueError(
                f"--separator-token is {separator}, and {family.encoder}'s tokenizer has {family.separator}"
            )
        if backbone.fingerprint() != config["backbone"]["tensors_sha256"]:
            raise ValueError(f"the backbone is not {file}, which --backbone names")
    except ValueError as reason:
        problem = f"--format peft cannot hold --method {config['method']}: {reason}"
        raise InputError(f"{problem}; give another checkpoint, or leave --format out") from None

    # The method, the head, and a table of positions where peft would count otherwise. BERT's tokenizer calls the second
    # sentence segment 1, which the backbone here reads as segment 0.
    own = {n: value.detach().float().cpu() for n, value in tensors.items()}
    found: dict[str, Tensor] = {}
    if isinstance(method, LoRA):
        about = lora_as_theirs(method, own, options["model"], family, found)
        table = own_positions(backbone, family) if family is BERT and record.pairs else None
    else:
        table = own_positions(backbone, family)
        about = prompts_as_theirs(kind, own["method.table"], options["model"], table[family.first :], backbone, found)
    head = HEADS + options["task"]["classification_head_name"]
    found.update({theirs: own[f"{head}.{ours}"] for ours, theirs in family.head().items()})
    if table is not None:
        found[f"{family.encoder}.embeddings.{POSITIONS}.weight"] = table
        found[f"{family.encoder}.embeddings.{SEGMENTS}.weight"] = table.new_zeros(segments, table.size(1))

    # Names begin with those of peft's wrappers.
    start = "base_model.model." if kind == "LORA" else "base_model."
    named = {n if n == ROWS else start + n: value.clone().contiguous() for n, value in found.items()}
    saved = family.modules + ([] if table is None else [POSITIONS, SEGMENTS])
    adapter = {"peft_type": kind, "task_type": "SEQ_CLS", "inference_mode": True, "modules_to_save": saved, **about}
    described = json.dumps({**config, "checksum": digest_of([adapter, config, named])}, allow_nan=False)
    (folder / TENSORS).write_bytes(save(named, metadata={"format": "pt", OURS: described}))
    (folder / CONFIG).write_text(json.dumps(adapter, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    (folder / CARD).write_text(card(name, kind, record, config, family), encoding="utf-8")


def lora_as_theirs(
    method: LoRA, own: Mapping[str, Tensor], model: Mapping[str, Any], family: Family, found: dict[str, Tensor]
) -> dict[str, Any]:
    """Put the matrices of LoRA into ``found``, and return what peft's configuration says of them."""
    for linear in method.a:
        for letter in "ab":
            for layer, value in zip(method.layers, own[f"method.{letter}.{linear}"]):
                found[lora_name(family, layer, linear, letter)] = value
    modules = "|".join(MODULES[linear].replace(".", r"\.") for linear in method.a)
    targets = rf".*\.layer\.({'|'.join(map(str, method.layers))})\.({modules})"
    return {"target_modules": targets, "r": method.rank, "lora_alpha": model["lora_alpha"], "lora_dropout": 0.0}


def lora_name(family: Family, layer: Any, linear: str, letter: str) -> str:
    return f"{family.encoder}.encoder.layer.{layer}.{MODULES[linear]}.lora_{letter.upper()}.weight"


def prompts_as_theirs(
    kind: str, rows: Tensor, model: Mapping[str, Any], table: Tensor, backbone: Backbone, found: dict[str, Tensor]
) -> dict[str, Any]:
    """Put a table of prompts into ``found``, change that of positions in place, and return peft's configuration."""
    length, width = model["prompt_length"], model["encoder_embed_dim"]
    if kind == "PREFIX_TUNING":
        # L x (t keys, t values) x d -> t x (L x (key, value) x d)
        found[ROWS] = rows.view(-1, 2, length, width).permute(2, 0, 1, 3).flatten(1)
        table[length:] = table[:-length].clone()
    else:
        word = backbone.weights[WORDS][0].float()
        found[ROWS] = torch.cat([word[None], rows[0, :-1]])
        table[length] += rows[0, -1] - word
    sizes = {"num_layers": model["encoder_layers"], "num_attention_heads": model["encoder_attention_heads"]}
    return {"num_virtual_tokens": length, "token_dim": width, "num_transformer_submodules": 1, **sizes}


def family_of(backbone: Backbone, bpe: str | None) -> tuple[Family, int]:
    """Return the family, and how many segments its table has; ``bpe``: the encoder of texts, for older backbones."""
    source = backbone.args.get("source") or {"model_type": bpe}
    family = BERT if source.get("model_type") == "bert" else ROBERTA
    return family, int(source.get("type_vocab_size") or family.segments)


def own_positions(backbone: Backbone, family: Family) -> Tensor:
    """Return the table of positions with the rows of transformers'; fairseq's has two in front of the first."""
    return backbone.weights[TABLE][2 - family.first :].float().clone()


def is_peft(path: str) -> bool:
    """Return whether a folder is one of peft."""
    return Path(path, CONFIG).is_file()


def read_peft(path: str, option: str, backbone: str | None = None) -> dict[str, Any]:
    """Return what a checkpoint would hold, see ``read_shared``, of a folder of peft: ours, or one with LoRA.

    ``backbone``: its file, unless it is where an export of ours recorded it. Raise InputError for other folders.
    """
    folder = Path(path)
    try:
        with open(folder / CONFIG, encoding="utf-8") as file:
            adapter = json.loads(file.read(LARGEST_CONFIG))
        if not (folder / TENSORS).is_file():
            raise ValueError(f"{TENSORS} is missing")
        data = (folder / TENSORS).read_bytes()
        loaded = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        config = json.loads(header.get("__metadata__", {}).get(OURS, "null"))
        if config is not None and not has_digest(config.pop("checksum"), digest_of, [adapter, config, loaded]):
            raise ValueError("its files are not those that were exported together")
        if not all(map(is_finite, loaded.values())):
            raise ValueError("it holds NaN or infinite numbers")
        if config is not None:
            backbone = backbone or place_of(folder, config["backbone"]["path"], config["backbone"]["name"])
        opened = read_backbone(backbone_path(backbone or ""))
        tensors, found = as_ours(adapter, loaded, opened, config is not None)
        return as_state(folder, config or described(opened, tensors, found), tensors)
    except InputError:
        raise
    except Exception as error:  # of JSON, of safetensors, and of torch over sizes and types
        raise InputError(
            f"{option} {path}: this folder of peft cannot be read ({reason_of(error)}): give one that "
            "python -m fairseq_idpg.export --format peft wrote, or one of peft's LoRA for RoBERTa"
        ) from None


def as_ours(
    adapter: dict[str, Any], loaded: dict[str, Tensor], backbone: Backbone, exported: bool
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors by our names, and the options of LoRA; ``exported``: by this package.

    Raise ValueError for what this package computes otherwise, or not at all.
    """
    kind = adapter["peft_type"]
    names = {n.removeprefix("base_model.").removeprefix("model."): value.float() for n, value in loaded.items()}
    family = BERT if any(name.startswith("bert.") for name in names) else ROBERTA
    tensors, options = {}, {}

    def take(name: str) -> Tensor:
        if name not in names:
            raise ValueError(f"it lacks {name}")
        return names.pop(name)

    if kind == "LORA":
        options = lora_options(adapter, names, family)
        for linear in map(LINEARS.__getitem__, options["lora_projections"].split(",")):
            for letter in "ab":
                places = [lora_name(family, layer, linear, letter) for layer in options["lora_layers"].split(",")]
                tensors[f"method.{letter}.{linear}"] = torch.stack(list(map(take, places)))
    elif not exported:
        raise ValueError(
            f"{shown(kind)} by peft has prompts in front of <s>, or counts them among the text's positions, which no "
            "method here does"
        )
    else:
        rows, length, width = take(ROWS), adapter["num_virtual_tokens"], adapter["token_dim"]
        if kind == "PREFIX_TUNING":
            table = rows.view(length, -1, 2, width).permute(1, 2, 0, 3).reshape(-1, 2 * length, width)
        else:
            start = family.first + length
            there = names[f"{family.encoder}.embeddings.{POSITIONS}.weight"][start]
            last = there - own_positions(backbone, family)[start] + backbone.weights[WORDS][0].float()
            table = torch.cat([rows[1:], last[None]])[None]
        tensors["method.table"] = table
    if exported:
        for name in (POSITIONS, SEGMENTS):
            names.pop(f"{family.encoder}.embeddings.{name}.weight", None)
    tensors.update({f"{HEADS}{HEAD}.{ours}": take(theirs) for ours, theirs in family.head().items()})
    if names:
        raise ValueError(f"this package has no place for {min(names):.80}")
    return tensors, options


def lora_options(adapter: dict[str, Any], names: Mapping[str, Tensor], family: Family) -> dict[str, Any]:
    """Return the options of LoRA that peft's configuration and the ``names`` of its tensors say."""
    on = [n for n, value in adapter.items() if n not in KNOWN and value not in [*OFF, *CHOICES.get(n, [])]]
    if on:
        raise ValueError(f"its {on[0]} is {shown(adapter[on[0]])}, which is unknown here")
    ends = ".lora_A.weight"
    places = [name.removesuffix(ends).partition(".encoder.layer.")[2].partition(".") for name in names if ends in name]
    layers = sorted({int(layer) for layer, _, _ in places})
    linears = [short for short, linear in LINEARS.items() if MODULES[linear] in {module for _, _, module in places}]
    if not linears:
        raise ValueError(f"it changes no matrix of a layer of {family.encoder}")
    rank = adapter["r"]
    return {
        "lora_rank": rank,
        "lora_alpha": float(adapter["lora_alpha"] * (rank**0.5 if adapter.get("use_rslora") else 1)),
        "lora_projections": ",".join(linears),
        "lora_layers": ",".join(map(str, layers)),
    }


def described(backbone: Backbone, tensors: Mapping[str, Tensor], lora: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a folder with LoRA that this package did not write.

    peft records no labels: they get transformers' names. Texts are single sentences.
    """
    classes, file = len(tensors[f"{HEADS}{HEAD}.out_proj.weight"]), Path(backbone.path)
    scores, head = classes == 1, {"classification_head_name": HEAD, "regression_target": classes == 1}
    labels = None if scores else [f"LABEL_{i}" for i in range(classes)]
    about_task = {"num_classes": classes, "init_token": 0, "update_freq": [1]}
    positions = {"max_positions": len(backbone.weights[TABLE]) - 2}
    sizes = {name: value for name, value in backbone.sizes.items() if value is not None}
    return {
        "method": "lora",
        "data": asdict(Record(regression=scores, labels=labels, pairs=False)),
        "backbone": {"name": file.name, "path": backbone.path, "tensors_sha256": backbone.fingerprint()},
        "options": {
            "task": {**plain(TASK_DATACLASS_REGISTRY[TASK]), **about_task, **positions, **head},
            "model": {**plain(MODEL_DATACLASS_REGISTRY[OUR_MODEL]), **sizes, **positions, **lora},
            "criterion": {"_name": "sentence_prediction", **head},
        },
    }


def plain(config: type) -> dict[str, Any]:
    """Return the defaults of a dataclass but those that refer to other options."""
    return {n: value for n, value in defaults(config).items() if "${" not in str(value)}


def card(name: str, kind: str, record: Record, config: Mapping[str, Any], family: Family) -> str:
    """Return the card in Markdown of a folder of peft."""
    labels, source = record.labels or [], cell(config["backbone"]["name"].split("/")[0])
    text = "`<s> A </s> </s> B </s>`" if record.pairs and family is ROBERTA else "`[CLS] A [SEP] B [SEP]`"
    return f"""# {cell(config["method"])} for {cell(record.task or "a task")}, as {kind} of peft

```python
from peft import PeftModel
from transformers import AutoModelForSequenceClassification

base = AutoModelForSequenceClassification.from_pretrained(BACKBONE, num_labels={len(labels) or 1})
model = PeftModel.from_pretrained(base, {json.dumps(name)}).eval()
```

BACKBONE is the Hugging Face folder of {source}. fairseq_idpg reads this folder too.

- Logits: {", ".join(map(cell, labels)) or f"a score, divided by {record.scale or 1:g}"}, in this order.
- Input: {f"pairs, {text}" if record.pairs else "single sentences"}, as its tokenizer makes them, with pads at the end.
- Modules saved beside {kind}: those that `adapter_config.json` names, the classification head among them.
"""
