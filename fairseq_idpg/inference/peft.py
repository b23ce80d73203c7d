"""Folders of Hugging Face's peft, written and read without it, for its classifiers of RoBERTa, XLM-R and BERT.

peft puts prompts in front of ``<s>``, and counts a prefix among the positions of the text; this package does neither. A
table of positions in the folder makes up for it, exactly; p_i is the row of position i, p'_i that of the folder:

- LORA: A and B of each matrix, without a table.
- PREFIX_TUNING: t x 2 L d, rows of k_1, v_1, ..., k_L, v_L. The text's positions begin at t: p'_(t + i) = p_i.
- PROMPT_TUNING: attention knows rows by their positions alone, and the head reads the first row. So peft's t rows are
  word(<s>), P_1, ..., P_(t - 1), and ``<s>`` behind them becomes P_t: p'_t = p_t + P_t - word(<s>).

A backbone's positions contain segment 0, so beside such a table all segments are 0.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from safetensors.torch import load, save
from torch import Tensor

from preprocess.errors import reason_of

from ..backbone.weights import STACK, Backbone
from ..errors import InputError, refused
from ..methods.adapters.lora import LINEARS, LoRA
from ..methods.base import Method
from ..methods.prompts.task_prompts import TaskPrompts
from ..names import TASK
from ..saving.backbone_file import backbone_path, read_backbone
from ..saving.configuration import OUR_MODEL, defaults, shown
from ..saving.reading import is_finite, read_file
from ..saving.record import Record
from ..saving.shared_folder import CARD, LARGEST_CONFIG, as_state, place_of
from ..saving.tensors import HEADS, digest_of, has_digest

CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"
PEFT_FILES = (TENSORS, CONFIG, CARD)
OURS = "fairseq_idpg"  # in the metadata of TENSORS: what config.json of a folder to share says, and a checksum
LORA, PREFIX, PROMPT = "LORA", "PREFIX_TUNING", "PROMPT_TUNING"
ROWS, POSITIONS, SEGMENTS = "prompt_embeddings", "position_embeddings", "token_type_embeddings"
MODULES = {  # the Linears of a layer, as transformers calls them
    "q_proj": "attention.self.query",
    "k_proj": "attention.self.key",
    "v_proj": "attention.self.value",
    "out_proj": "attention.output.dense",
    "fc1": "intermediate.dense",
    "fc2": "output.dense",
}
# In the configuration of a LoRA that peft trained these may have any value, or are read; others must be off.
READ = set(
    "auto_mapping base_model_name_or_path inference_mode peft_type peft_version revision task_type modules_to_save r "
    "target_modules exclude_modules layers_to_transform layers_pattern lora_alpha lora_dropout use_rslora "
    "megatron_core qalora_group_size".split()
)
OFF: dict[str, Any] = {"bias": ["none"], "init_lora_weights": [True, "gaussian"]}
USE = """
peft's `PeftModel.from_pretrained` loads this folder onto `AutoModelForSequenceClassification` of the backbone, with
`num_labels` as there are answers above, in their order. Texts are as its tokenizer makes them, with pads at their ends.
"""


class Family(NamedTuple):
    """What transformers' classifiers of a family have; the head is a Linear, tanh and a Linear."""

    encoder: str
    dense: str  # of BERT the pooler
    out_proj: str
    modules: list[str]  # that hold the head
    first: int  # the row of a text's first position
    segments: int
    separator: int | None  # what its tokenizer puts in front of the second sentence, in our numbers

    def table(self, name: str) -> str:
        return f"{self.encoder}.embeddings.{name}.weight"

    def places(self, linears: Iterable[str], layers: Iterable[int], head: str) -> dict[str, list[str]]:
        """Return {our name of a tensor: theirs}: those of LoRA for each layer, those of the head."""
        of_head, places = {"dense": self.dense, "out_proj": self.out_proj}, {}
        for kind in ("weight", "bias"):
            places.update({f"{HEADS}{head}.{own}.{kind}": [f"{name}.{kind}"] for own, name in of_head.items()})
        for linear, letter in product(linears, "ab"):
            end = f"{MODULES[linear]}.lora_{letter.upper()}.weight"
            places[f"method.{letter}.{linear}"] = [f"{self.encoder}.encoder.layer.{layer}.{end}" for layer in layers]
        return places


ROBERTA = Family("roberta", "classifier.dense", "classifier.out_proj", ["classifier"], 2, 1, 2)
BERT = Family("bert", "bert.pooler.dense", "classifier", ["pooler", "classifier"], 0, 2, None)


def tables(backbone: Backbone) -> tuple[Tensor, Tensor]:
    """Return fairseq's table of positions, which may be changed, and the word ``<s>``."""
    words, positions = (backbone.weights[f"{STACK}embed_{name}.weight"] for name in ("tokens", "positions"))
    return positions.float().clone(), words[0].float()


def write_peft(
    folder: Path, method: Method | None, tensors: Mapping[str, Tensor], config: dict[str, Any], file: str
) -> None:
    """Write ``tensors`` and ``config``, as for ``write_shared``, beside whose card USE belongs.

    Raise InputError where peft cannot hold the method, or the backbone ``file`` is missing or another one.
    """
    backbone, record, options = read_backbone(backbone_path(file)), Record(**config["data"]), config["options"]
    source: Any = backbone.args.get("source") or {"model_type": record.bpe}  # older files do not say
    family, model, task = BERT if source.get("model_type") == "bert" else ROBERTA, options["model"], options["task"]
    kind = LORA if type(method) is LoRA else PROMPT if method is not None and method.prompt_length else PREFIX
    problem, separator = obstacle(method, options, tensors), task.get("separator_token")
    if record.pairs and separator != family.separator:
        problem = f"its pairs have --separator-token {separator}, unlike those of {family.encoder}'s tokenizer"
    if backbone.fingerprint() != config["backbone"]["tensors_sha256"]:
        problem = f"{file} is not its backbone, which --backbone names"
    if problem is not None:
        raise refused("--format peft", f"cannot hold this --method {config['method']}: {problem}; leave the option out")

    # The method, with a table of positions in place of the backbone's.
    own = {n: value.detach().float().cpu() for n, value in tensors.items()}
    adapter: dict[str, Any] = {"peft_type": kind, "task_type": "SEQ_CLS", "inference_mode": True}
    found, saved, (positions, word) = {}, list(family.modules), tables(backbone)
    text, width = positions[2:], word.numel()
    linears, layers = (list(method.a), method.layers) if isinstance(method, LoRA) else ([], ())
    if isinstance(method, LoRA):
        modules = "|".join(MODULES[linear] for linear in linears).replace(".", r"\.")
        adapter["target_modules"] = rf".*\.layer\.({'|'.join(map(str, layers))})\.({modules})"
        adapter |= {"r": method.rank, "lora_alpha": method.scale * method.rank}
    else:
        rows = own["method.table"]
        length = rows.size(1) // 2 if kind == PREFIX else rows.size(1)
        adapter |= {"num_virtual_tokens": length, "token_dim": width, "num_transformer_submodules": 1}
        adapter |= {"num_layers": model["encoder_layers"], "num_attention_heads": model["encoder_attention_heads"]}
        if kind == PREFIX:  # from L x (t keys, t values) x d
            found[ROWS] = rows.view(-1, 2, length, width).permute(2, 0, 1, 3).flatten(1)
            text[length:] = text[:-length].clone()
        else:
            found[ROWS] = torch.cat([word[None], rows[0, :-1]])
            text[length] += rows[0, -1] - word

    # BERT's tokenizer calls the second sentence segment 1, which is segment 0 here.
    if kind != LORA or record.pairs and family is BERT:
        saved += [POSITIONS, SEGMENTS]
        found[family.table(POSITIONS)] = positions[2 - family.first :]
        found[family.table(SEGMENTS)] = torch.zeros(source.get("type_vocab_size", family.segments), width)
    for ours, theirs in family.places(linears, layers, task["classification_head_name"]).items():
        found.update(zip(theirs, [own[ours]] if ours.startswith(HEADS) else own[ours]))

    # Names begin with those of peft's wrappers.
    start = "base_model.model." if kind == LORA else "base_model."
    named = {n if n == ROWS else start + n: value.clone().contiguous() for n, value in found.items()}
    adapter["modules_to_save"] = saved
    about = json.dumps({**config, "checksum": digest_of([adapter, config, named])}, allow_nan=False)
    (folder / TENSORS).write_bytes(save(named, metadata={"format": "pt", OURS: about}))
    (folder / CONFIG).write_text(json.dumps(adapter, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def obstacle(method: Method | None, options: Mapping[str, Any], trained: Mapping[str, Tensor]) -> str | None:
    """Return why peft cannot hold what a method does; None: it can."""
    model, position = options["model"], options["task"].get("prompt_position")
    if any(name.startswith(STACK) for name in trained):
        return "it trains weights of the backbone"
    if model.get("predict_with", "head") != "head" or model.get("pooler_activation_fn", "tanh") != "tanh":
        return "heads there are a Linear, tanh and a Linear"
    if method is not None and method.representation is not None:
        return "it makes prompts from each input, and peft has the same ones for all"
    if type(method) is LoRA:
        return None
    if not isinstance(method, TaskPrompts) or type(method) is not TaskPrompts:
        return "peft has no such method"
    if method.insertion == "key-value":
        every = len(method.places) == model["encoder_layers"]
        return None if every else "a prefix of peft enters every layer (--prompt-layers all)"
    if not method.in_input or method.places != (0,):
        return "rows of peft enter at the input alone, not at hidden states"
    return f"rows stand at the beginning there, and --prompt-position is {position}, not 0" if position else None


def reader(path: str, backbone: Any = None) -> Any:
    """Return what reads ``path``, for ``load_state``; ``backbone``: its file, if it is not where it was."""
    return partial(read_peft, backbone=backbone) if Path(path, CONFIG).is_file() else read_file


def read_peft(path: str, option: str, backbone: str | None = None) -> dict[str, Any]:
    """Return what a checkpoint would hold, see ``read_shared``, of an exported folder, or a LoRA that peft trained.

    Raise InputError for any other folder.
    """
    folder = Path(path)
    try:
        with open(folder / CONFIG, encoding="utf-8") as file:
            adapter = json.loads(file.read(LARGEST_CONFIG))
        data = (folder / TENSORS).read_bytes()  # nothing else is read: a .bin would be a pickle
        loaded = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        config = json.loads(header.get("__metadata__", {}).get(OURS, "null"))
        if config is not None:
            if not has_digest(config.pop("checksum"), digest_of, [adapter, config, loaded]):
                raise ValueError("its files are not those that were exported together")
            backbone = backbone or place_of(folder, config["backbone"]["path"], config["backbone"]["name"])
        if not all(map(is_finite, loaded.values())):
            raise ValueError("it holds NaN or infinite numbers")
        return as_ours(folder, adapter, loaded, read_backbone(backbone_path(backbone or "")), config)
    except InputError:
        raise
    except Exception as error:  # of JSON, of safetensors, and of torch over sizes and types
        raise InputError(
            f"{option} {path}: this folder of peft is not read ({reason_of(error)}): give one of "
            "python -m fairseq_idpg.export --format peft, or of peft's LoRA for RoBERTa"
        ) from None


def as_ours(
    folder: Path, adapter: dict[str, Any], loaded: dict[str, Tensor], backbone: Backbone, config: Any
) -> dict[str, Any]:
    """Return what a checkpoint would hold; ``config``: of an exported folder, None where peft trained it.

    Raise ValueError for what is not computed so here.
    """
    kind, exported, tensors = adapter["peft_type"], config is not None, {}
    left = {n.removeprefix("base_model.").removeprefix("model."): value.float() for n, value in loaded.items()}
    family = BERT if any(name.startswith("bert.") for name in left) else ROBERTA
    if kind != LORA and not exported:
        raise ValueError(
            f"{shown(kind)} of peft has prompts in front of <s> or shifts the text, as no method here does"
        )

    # The names of LoRA's tensors say what it changes.
    end = ".lora_A.weight"
    changed = [name.removesuffix(end).partition(".layer.")[2].partition(".") for name in left if name.endswith(end)]
    layers, modules = sorted({int(layer) for layer, _, _ in changed}), {module for _, _, module in changed}
    linears = [linear for linear, module in MODULES.items() if module in modules]
    if not exported:
        config = of_lora(adapter, layers, linears, len(left.get(f"{family.out_proj}.weight", ())), backbone)

    # Prompts, and what is changed or saved by name.
    if kind != LORA:
        rows, length, width = left.pop(ROWS), adapter["num_virtual_tokens"], adapter["token_dim"]
        positions, word = tables(backbone)
        if kind == PREFIX:
            table = rows.view(length, -1, 2, width).permute(1, 2, 0, 3).reshape(-1, 2 * length, width)
        else:
            last = left[family.table(POSITIONS)][family.first + length] - positions[2 + length] + word
            table = torch.cat([rows[1:], last[None]])[None]
        tensors["method.table"] = table
    for ours, theirs in family.places(linears, layers, config["options"]["task"]["classification_head_name"]).items():
        if not left.keys() >= set(theirs):
            raise ValueError(f"it lacks {min(set(theirs) - left.keys())}")
        parts = [left.pop(name) for name in theirs]
        tensors[ours] = parts[0] if ours.startswith(HEADS) else torch.stack(parts)
    other = left.keys() - ({family.table(POSITIONS), family.table(SEGMENTS)} if exported else set())
    if other:
        raise ValueError(f"this package has no place for {min(other):.80}")
    return as_state(folder, config, tensors)


def of_lora(
    adapter: dict[str, Any], layers: list[int], linears: list[str], classes: int, backbone: Backbone
) -> dict[str, Any]:
    """Return what config.json of a folder to share would say of a LoRA that peft trained.

    peft records no labels, so they get transformers' names, and texts are single sentences. Raise ValueError for a
    setting that is unknown here.
    """
    on = [n for n, value in adapter.items() if n not in READ and value not in [None, False, [], {}, *OFF.get(n, [])]]
    if on:
        raise ValueError(f"its {on[0]} is {shown(adapter[on[0]])}, which is unknown here")
    rank, scores, file = adapter["r"], classes == 1, Path(backbone.path)
    model, task = (
        {name: value for name, value in defaults(config).items() if "${" not in str(value)}
        for config in (MODEL_DATACLASS_REGISTRY[OUR_MODEL], TASK_DATACLASS_REGISTRY[TASK])
    )
    shared = {"classification_head_name": "sentence_classification_head", "regression_target": scores}
    task |= {"num_classes": classes, "init_token": 0, "update_freq": [1], **shared}
    task["max_positions"] = model["max_positions"] = len(backbone.weights[f"{STACK}embed_positions.weight"]) - 2
    model |= {name: value for name, value in backbone.sizes.items() if value is not None}
    model["lora_projections"] = ",".join(name for name, linear in LINEARS.items() if linear in linears)
    model |= {"lora_rank": rank, "lora_layers": ",".join(map(str, layers))}
    model["lora_alpha"] = float(adapter["lora_alpha"] * (rank**0.5 if adapter.get("use_rslora") else 1))
    labels = None if scores else [f"LABEL_{i}" for i in range(classes)]
    return {
        "method": "lora",
        "data": asdict(Record(regression=scores, labels=labels, pairs=False)),
        "backbone": {"name": file.name, "path": backbone.path, "tensors_sha256": backbone.fingerprint()},
        "options": {"task": task, "model": model, "criterion": {"_name": "sentence_prediction", **shared}},
    }
