"""Folders of Hugging Face's peft, written and read without it, for its classifiers of RoBERTa, XLM-R and BERT.

peft puts prompts in front of ``<s>``, and counts a prefix among the positions of the text; this package does neither.
Attention sees the order of rows only in their position embeddings, so others make up for both, exactly. Positions count
from 0; position i has the row p_i in the backbone, p'_i in the folder. w is the word ``<s>``; the head reads row 0.

- LORA: A and B of each matrix.
- PREFIX_TUNING: t x 2 L d, rows of k_1, v_1, ..., k_L, v_L. Written with p'_(t + i) = p_i. One that peft trained is
  read as DePT, which adds p_(t + i) - p_i to word i.
- PROMPT_TUNING: peft's rows are w, P_1, ..., P_(t - 1), and its ``<s>`` becomes P_t by p'_t = p_t + P_t - w. Rows
  R_0, ..., R_(t - 1) that peft trained are read as DePT, which adds R_0 - w to ``<s>``; its prompt is R_1, ..., w.

Positions of a backbone contain segment 0, so beside a table of positions all segments are 0.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from preprocess.errors import reason_of

from ..backbone.weights import STACK, Backbone
from ..errors import InputError, refused
from ..methods.adapters.lora import LINEARS, LoRA
from ..methods.base import Method
from ..methods.prompts.task_prompts import TaskPrompts
from ..models.config import open_options
from ..saving.backbone_file import backbone_path, read_backbone
from ..saving.configuration import shown
from ..saving.reading import is_finite, read_file
from ..saving.record import Record
from ..saving.shared_folder import CARD, LARGEST_CONFIG, as_state, place_of
from ..saving.tensors import HEADS, digest_of, has_digest

CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"
PEFT_FILES = (TENSORS, CONFIG, CARD)
OURS = "fairseq_idpg"  # in the metadata of TENSORS: what config.json of a folder to share says, and a checksum
LORA, PREFIX, PROMPT = "LORA", "PREFIX_TUNING", "PROMPT_TUNING"
SEPARATORS = {"roberta": 2, "bert": None}  # in front of the second sentence, by their tokenizers
ROWS, POSITIONS, SEGMENTS = "prompt_embeddings", "position_embeddings", "token_type_embeddings"
MODULES = {  # the Linears of a layer, as transformers calls them
    "q_proj": "attention.self.query",
    "k_proj": "attention.self.key",
    "v_proj": "attention.self.value",
    "out_proj": "attention.output.dense",
    "fc1": "intermediate.dense",
    "fc2": "output.dense",
}
# What peft may say of its own folders: these are read, or change no prediction; others must be off.
READ = set(
    "auto_mapping base_model_name_or_path encoder_dropout encoder_hidden_size encoder_num_layers "
    "encoder_reparameterization_type exclude_modules inference_mode layers_pattern layers_to_transform lora_alpha "
    "lora_dropout megatron_core modules_to_save num_attention_heads num_layers num_transformer_submodules "
    "num_virtual_tokens peft_type peft_version prefix_projection prompt_tuning_init prompt_tuning_init_text "
    "qalora_group_size r revision target_modules task_type token_dim tokenizer_name_or_path use_rslora".split()
)
OFF: dict[str, Any] = {"bias": ["none"], "init_lora_weights": [True, "gaussian"]}
USE = """
peft's `PeftModel.from_pretrained` loads this folder onto `AutoModelForSequenceClassification` of the backbone, with
`num_labels` as there are answers above, in their order. Texts are as its tokenizer makes them, with pads at their ends.
"""


def places(encoder: str, head: str, linears: Iterable[str], layers: Iterable[int]) -> dict[str, list[str]]:
    """Return {our name of a tensor: transformers', of LoRA for each layer}; ``head``: our name of the head.

    Both heads are a Linear, tanh and a Linear; BERT's first one is its pooler.
    """
    parts = {"dense": "classifier.dense", "out_proj": "classifier.out_proj"}
    if encoder == "bert":
        parts = {"dense": "bert.pooler.dense", "out_proj": "classifier"}
    found = {f"{head}.{own}.{kind}": [f"{parts[own]}.{kind}"] for own in parts for kind in ("weight", "bias")}
    for linear, letter in product(linears, "ab"):
        end = f"{MODULES[linear]}.lora_{letter.upper()}.weight"
        found[f"method.{letter}.{linear}"] = [f"{encoder}.encoder.layer.{layer}.{end}" for layer in layers]
    return found


def tables(backbone: Backbone) -> tuple[Tensor, Tensor]:
    """Return fairseq's table of positions, whose first two rows are not positions, and the word ``<s>``."""
    words, positions = (backbone.weights[f"{STACK}embed_{name}.weight"] for name in ("tokens", "positions"))
    return positions.float().clone(), words[0].float()


def write_peft(
    folder: Path, method: Method | None, tensors: Mapping[str, Tensor], config: dict[str, Any], file: str
) -> None:
    """Write ``tensors`` and ``config``, as for ``write_shared``, into ``folder``; USE is for its card.

    Raise InputError where peft cannot hold the method, or the backbone ``file`` is missing or another one.
    """
    backbone, record, options = read_backbone(backbone_path(file)), Record(**config["data"]), config["options"]
    source: Any = backbone.args.get("source") or {"model_type": record.bpe}  # older files do not say
    encoder = "bert" if source.get("model_type") == "bert" else "roberta"
    task, model = options["task"], options["model"]
    kind = LORA if type(method) is LoRA else PROMPT if method is not None and method.prompt_length else PREFIX
    problem, separator = obstacle(method, options, tensors), task.get("separator_token")
    if record.pairs and separator != SEPARATORS[encoder]:
        problem = f"its pairs have --separator-token {separator}, unlike those of the backbone's tokenizer"
    if backbone.fingerprint() != config["backbone"]["tensors_sha256"]:
        problem = f"{file} is not its backbone, which --backbone names"
    if problem is not None:
        raise refused("--format peft", f"cannot hold this --method {config['method']}: {problem}; leave --format out")

    # The method, with a table of positions in place of the backbone's.
    own = {n: value.detach().float().cpu() for n, value in tensors.items()}
    bert, found, (positions, word) = encoder == "bert", {}, tables(backbone)
    saved = ["pooler", "classifier"] if bert else ["classifier"]
    adapter: dict[str, Any] = {"peft_type": kind, "task_type": "SEQ_CLS", "inference_mode": True}
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
    if kind != LORA or record.pairs and bert:
        saved += [POSITIONS, SEGMENTS]
        found[f"{encoder}.embeddings.{POSITIONS}.weight"] = text if bert else positions
        segments = torch.zeros(source.get("type_vocab_size", 2 if bert else 1), width)
        found[f"{encoder}.embeddings.{SEGMENTS}.weight"] = segments
    for ours, theirs in places(encoder, HEADS + task["classification_head_name"], linears, layers).items():
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
    if type(method) is not TaskPrompts:
        return "peft has no such method"
    if method.insertion == "key-value":
        every = len(method.places) == model["encoder_layers"]
        return None if every else "a prefix of peft enters every layer (--prompt-layers all)"
    if not method.in_input or method.places != (0,):
        return "rows of peft enter at the input alone, not at hidden states"
    return f"rows stand at the beginning there, and --prompt-position is {position}, not 0" if position else None


def reader(path: str, backbone: Any = None) -> Any:
    """Return the function that reads ``path``, for ``load_state``; ``backbone``: its file, if it has moved."""
    return partial(read_peft, backbone=backbone) if Path(path, CONFIG).is_file() else read_file


def read_peft(path: str, option: str, backbone: str | None = None) -> dict[str, Any]:
    """Return what a checkpoint would hold, as ``read_shared`` does; raise InputError for a folder it cannot read."""
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
            f"{option} {path}: this folder of peft is not read ({reason_of(error)}): give one of a LoRA, prefix or "
            "prompt for RoBERTa or BERT with a classification head"
        ) from None


def as_ours(
    folder: Path, adapter: dict[str, Any], loaded: dict[str, Tensor], backbone: Backbone, config: Any
) -> dict[str, Any]:
    """Return what a checkpoint would hold; ``config``: of an exported folder, None where peft trained it.

    Raise ValueError for what is not computed so here.
    """
    kind, exported, (positions, word) = adapter["peft_type"], config is not None, tables(backbone)
    left = {n.removeprefix("base_model.").removeprefix("model."): value.float() for n, value in loaded.items()}
    encoder, text = "bert" if "classifier.weight" in left else "roberta", positions[2:]
    table = left.pop(f"{encoder}.embeddings.{POSITIONS}.weight", None) if exported else None
    if table is not None:
        del left[f"{encoder}.embeddings.{SEGMENTS}.weight"]

    # LoRA: the names of its tensors say what it changes.
    tensors, options, linears, layers, shift = {}, {}, [], [], 0
    if kind == LORA:
        end = ".lora_A.weight"
        changed = [name.removesuffix(end).partition(".layer.")[2].partition(".") for name in left if name.endswith(end)]
        layers, modules = sorted({int(layer) for layer, _, _ in changed}), {module for _, _, module in changed}
        linears, rank = [linear for linear, module in MODULES.items() if module in modules], adapter["r"]
        alpha = float(adapter["lora_alpha"] * (rank**0.5 if adapter.get("use_rslora") else 1))
        options = {"method": "lora", "lora_rank": rank, "lora_alpha": alpha, "lora_layers": ",".join(map(str, layers))}
        options["lora_projections"] = ",".join(name for name, linear in LINEARS.items() if linear in linears)

    # Prompts, and for those that peft trained DePT's rows on words: ``added``, with a unit matrix for a factor.
    elif kind in (PREFIX, PROMPT, "P_TUNING"):
        rows, length = left.pop(ROWS), adapter["num_virtual_tokens"]
        if kind == PREFIX:
            rows, added = rows.view(length, -1, 2, len(word)).permute(1, 2, 0, 3), text[length:] - text[:-length]
            tensors["method.table"] = rows.reshape(-1, 2 * length, len(word))
            options, shift = {"prompt_insertion": "key-value", "prompt_layers": "all"}, length
        else:
            last = word if table is None else table[len(table) - len(text) + length] - text[length] + word
            tensors["method.table"], added = torch.cat([rows[1:], last[None]])[None], rows[:1] - word
        if not exported:
            tensors |= {"method.words.a": torch.eye(len(added)), "method.words.b": added}
            options |= {"words_length": len(added), "words_rank": len(added), "words_alpha": len(added) ** 0.5}
            options |= {"method": "dept", "prompt_length": length}
    else:
        raise ValueError(f"{shown(kind)} is not LORA, PREFIX_TUNING, PROMPT_TUNING or P_TUNING")

    # The head, and all that has a name.
    if not exported:
        bias = left.get("classifier.bias", left.get("classifier.out_proj.bias", ()))
        config = of_peft(adapter, options, len(bias), shift, backbone)
    head = HEADS + config["options"]["task"]["classification_head_name"]
    for ours, theirs in places(encoder, head, linears, layers).items():
        if not left.keys() >= set(theirs):
            raise ValueError(f"it lacks {min(set(theirs) - left.keys())}")
        parts = [left.pop(name) for name in theirs]
        tensors[ours] = parts[0] if ours.startswith(HEADS) else torch.stack(parts)
    if left:
        raise ValueError(f"this package has no place for {min(left):.80}")
    return as_state(folder, config, tensors)


def of_peft(
    adapter: dict[str, Any], options: dict[str, Any], classes: int, shift: int, backbone: Backbone
) -> dict[str, Any]:
    """Return the config.json that a folder trained by peft would have as a folder to share.

    peft records no labels, so they get transformers' names, and texts are single sentences. They are cut where
    positions, ``shift`` of which are a prefix's, come to their end. Raise ValueError for a setting that is unknown.
    """
    on = [n for n, value in adapter.items() if n not in READ and value not in [None, False, [], {}, *OFF.get(n, [])]]
    if on:
        raise ValueError(f"its {on[0]} is {shown(adapter[on[0]])}, which is unknown here")
    scores, file, room = classes == 1, Path(backbone.path), len(tables(backbone)[0]) - 2
    shared = {"classification_head_name": "sentence_classification_head", "regression_target": scores}
    task = {"num_classes": classes, "init_token": 0, "update_freq": [1], "max_positions": room, **shared}
    task |= {"shorten_method": "none", "shorten_data_split_list": ""}
    sizes = {name: value for name, value in backbone.sizes.items() if value is not None}
    model = vars(open_options(**sizes, **options, max_positions=room))
    record = Record(regression=scores, pairs=False, max_length=room - shift - 2 if shift else None)
    return {
        "method": model.pop("method"),
        "data": {**asdict(record), "labels": None if scores else [f"LABEL_{i}" for i in range(classes)]},
        "backbone": {"name": file.name, "path": backbone.path, "tensors_sha256": backbone.fingerprint()},
        "options": {"task": task, "model": model, "criterion": {"_name": "sentence_prediction", **shared}},
    }
