"""Convert a checkpoint of the paper's released code (CSerxy/IDPG) into one of fairseq_idpg.

    python checkpoints/convert_released.py SRC.pt DST.pt [--backbone roberta.large/model.pt] [--force]

DST loads with fairseq-validate, --prompt-init saved --prompt-init-from DST.pt, and --restore-file (with
--reset-optimizer --reset-dataloader --reset-meters). With --backbone, whose weights must be those that SRC was trained
on, DST holds the method and the head only; without, the whole model. Code in a pickle does not run.

Layouts: W1 and W2 of their DNN are Linear weights (out x in), and ours are in x out. Their PHM factors are lists of
matrices, ours one tensor. Their rows of all layers are one table, ours have one for each layer. Left aside is what the
released code trains by accident or never reads: LM head, two LayerNorms, the last rows of a table.
"""

# ruff: noqa: E402
import argparse
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

if not __package__:  # run as a script, from anywhere, installed or not
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from preprocess.errors import InputError, command_line
from preprocess.flags import named_path


def build_parser() -> argparse.ArgumentParser:
    description, _, example = (__doc__ or "").split("\n")[:3]
    parser = argparse.ArgumentParser("convert_released", description=description, epilog=f"example: {example.strip()}")
    parser.add_argument("source", metavar="SRC.pt", type=named_path)
    parser.add_argument("target", metavar="DST.pt", type=named_path)
    parser.add_argument("--backbone", type=named_path, metavar="FILE", help="model.pt that SRC was trained on")
    parser.add_argument("--force", action="store_true", help="replace DST.pt")
    return parser


if __name__ == "__main__":  # --help and a slip come before torch and fairseq, which take seconds
    build_parser().parse_args()

import fairseq_idpg  # noqa: F401  before fairseq, whose messages it keeps off

# isort: split
import torch
from fairseq import options as fairseq_options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import DictConfig, OmegaConf, open_dict
from torch import Tensor

from fairseq_idpg.backbone.encoder import OpenRobertaEncoder
from fairseq_idpg.backbone.weights import SHAPE, STACK
from fairseq_idpg.models.config import RobertaIDPGConfig, fill_method_options
from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
from fairseq_idpg.models.size import check_size
from fairseq_idpg.saving.backbone_file import NO_BACKBONE, backbone_path, read_backbone, read_checkpoint
from fairseq_idpg.saving.configuration import declared, typed
from fairseq_idpg.saving.tensors import HEADS, with_progress_checksums
from fairseq_idpg.tasks.config import SentencePredictionIDPGConfig
from preprocess.writing import check_replaces_nothing, new_file

HEAD = "sentence_classification_head"
ENCODER = re.compile(r"^encoder\.(sentence_encoder\.(layers|emb\w+|layernorm_embedding)\.|lm_head)")
STRAY = ".middle_layer_norm."  # of an adapter variant; in every released file
SHARING = {"shared": "S", "layerb": "M", "none": "L"}
RATES = ("dropout", "attention_dropout", "activation_dropout", "pooler_dropout")
NOWHERE = 25  # the first layer that gets prompts or adapters: behind the 24 of RoBERTa-large
# their options without an equal here, and the only value that converts
UNSUPPORTED = {"lphm": None, "lstm": False, "sbert": False, "reparameterization": "None"}

Tensors = Mapping[str, Tensor]
Options = Mapping[str, Any]
FACTORS = {  # of a PHM layer, theirs: ours
    **{"generation_shared_w1": "down_a", "generation_dense_w": "down_b"},
    **{"generation_shared_w2": "up_a", "generation_out_proj_w": "up_b"},
}


def our_options(args: Options) -> dict[str, Any]:
    """Return the released code's arguments as options of ``roberta_idpg``; raise ValueError for one without equal."""
    for name, value in UNSUPPORTED.items():
        if args.get(name, value) not in (value, None):
            raise ValueError(f"trained with --{name.replace('_', '-')} {args[name]}, which has no equal here")
    layers = args.get("encoder_layers")
    last = layers if isinstance(layers, int) else NOWHERE - 1  # another type is refused with the other options
    for name in ("adapter_insert_layer", "middle_prompt_insert_layer"):
        if 1 < args.get(name, NOWHERE) <= last:
            raise ValueError(f"trained with --{name.replace('_', '-')} {args[name]}, only 1 and {NOWHERE} convert")
    options = {name: args[name] for name in (*SHAPE, *RATES) if name in args}
    if args.get("adapter_insert_layer", NOWHERE) == 1:
        return {**options, **_adapter_options(args)}
    if not args.get("add_suffix"):
        return {**options, "method": "head-only"}
    everywhere = args["middle_prompt_insert_layer"] == 1
    options["prompt_length"] = args["suffix_len"]
    options["prompt_layers"] = "all" if everywhere else "first"
    if args.get("prompt_insert_mode", 1) == 2:
        options["prompt_insertion"] = "key-value-input"
    if not args["prompt_generation"]:
        return {**options, "method": "p-tuning-v2" if everywhere else "prompt-tuning"}
    return {**options, **_generator_options(args, everywhere)}


def _adapter_options(args: Options) -> dict[str, Any]:
    arch = args["adapter_arch"]
    if args.get("add_suffix") or arch not in ("houlsby", "compacter"):
        beside = " beside prompts" if args.get("add_suffix") else ""
        raise ValueError(f"trained with --adapter-arch {arch}{beside}, which has no equal here")
    sizes = {"adapter_hidden_size": args["adapter_bottleneck_dim"], "adapter_dropout": args["dropout"]}
    kind = {"method": "adapter"} if arch == "houlsby" else {"method": arch, "compacter_n": args["compacter_n"]}
    return {**sizes, **kind}


def _generator_options(args: Options, everywhere: bool) -> dict[str, Any]:
    if args["generation_layer"] != 2:
        raise ValueError(f"trained with --generation-layer {args['generation_layer']}, only 2 converts")
    phm, glove = args["generation_quaternions"] is not None, args.get("glove")
    kind = "phm" if phm else "dnn"
    ours = {
        "method": f"{'m' if everywhere else 's'}-idpg-{kind}",
        "generator_hidden_size": args["phm_bottleneck_dim"],
        "generator_sharing": SHARING[args["middle_prompt_mode"]] if everywhere else "M",
        "generator_dropout": 0.1,  # hard-coded there
        "representation": "glove" if glove else "previous-layer" if args["middle_previous"] else "backbone",
        "generator_residual": bool(args.get("generator_residual")),
        "generator_layer_norm": bool(args.get("generator_layer_norm")),
    }
    if ours["generator_residual"]:
        ours["generator_residual_norm"] = "released"
    if glove:  # the width stands in the file's name: glove.6B.300d.txt
        ours["representation_width"] = int(re.findall(r"(\d+)d", Path(glove).name)[-1])
    return {**ours, "phm_n": args["generation_quaternions"], "phm_shared_a": "false"} if phm else ours


def _rows(table: Tensor, options: Options) -> Tensor:
    """Return a table of all layers' rows as places x rows x d."""
    rows = options["prompt_length"] * (2 if options.get("prompt_insertion") == "key-value-input" else 1)
    return table.reshape(-1, rows, options["encoder_embed_dim"])


def task_prompts(flat: Tensors, options: Options) -> dict[str, Tensor]:
    """Prompt tuning and P-tuning v2, of whose table the last rows are never read."""
    table = flat["suffix_embed.weight"]
    if options["prompt_layers"] == "all":
        read = len(flat["middle_prompt.weight"]) - len(table)
        table = torch.cat([table, flat["middle_prompt.weight"][:read]])
    return {"table": _rows(table, options)}


def dense_generator(flat: Tensors, options: Options) -> dict[str, Tensor]:
    biases = ("generation_out_proj.bias", "middle_generation_out_proj_b.weight")  # of one layer, or of all
    return {
        "generators.0.down": flat["generation_dense.weight"].T,
        "generators.0.up": flat["generation_out_proj.weight"].T,
        "generators.0.hidden_bias": flat["generation_dense.bias"],
        "bias": _rows(flat[next(name for name in biases if name in flat)], options),
        **_layer_norms(flat, options),
    }


def phm_generator(flat: Tensors, options: Options) -> dict[str, Tensor]:
    """One generator, or with sharing L one for each layer."""
    n, ours = options["phm_n"], {}
    hidden_biases = ["generation_dense_b"]
    if options["generator_sharing"] == "L":
        hidden_biases += [f"middle_generation_dense_b.{i}" for i in range(options["encoder_layers"] - 1)]
    for number, hidden_bias in enumerate(hidden_biases):
        prefix, start = ("middle_", (number - 1) * n) if number else ("", 0)
        for name, our_name in FACTORS.items():
            parts = [flat[f"{prefix}{name}.{start + i}"] for i in range(n)]
            ours[f"generators.{number}.{our_name}"] = torch.stack(parts)
        ours[f"generators.{number}.hidden_bias"] = flat[hidden_bias]
    bias = flat["generation_out_proj_b.weight"]
    if options["prompt_layers"] == "all" and options["generator_sharing"] != "S":
        bias = torch.cat([bias, flat["middle_generation_out_proj_b.weight"]])
    return {**ours, "bias": _rows(bias, options), **_layer_norms(flat, options)}


def _layer_norms(flat: Tensors, options: Options) -> dict[str, Tensor]:
    """Those of Table 7 that an option switches on; the file has them always."""
    read = {"residual_layer_norm": "residual_layer_norm"} if options["generator_residual"] else {}
    if options["generator_layer_norm"]:
        read["generator_layer_norm"] = "prompt_layer_norm"
    return {f"{ours}.{part}": flat[f"{theirs}.{part}"] for theirs, ours in read.items() for part in ("weight", "bias")}


def houlsby_adapters(flat: Tensors, options: Options) -> dict[str, Tensor]:
    """Stack their entries of each layer, attention's adapter before the feed-forward's."""
    layers = range(options["encoder_layers"])
    modules = [f"middle_adapter_MLP{which}.{layer}" for layer in layers for which in ("2", "")]
    parts = {"down": "0.weight", "up": "2.weight", "down_bias": "0.bias", "up_bias": "2.bias"}
    ours = {name: torch.stack([flat[f"{module}.{part}"] for module in modules]) for name, part in parts.items()}
    return {**ours, "down": ours["down"].transpose(1, 2), "up": ours["up"].transpose(1, 2)}


def compacters(flat: Tensors, options: Options) -> dict[str, Tensor]:
    """Stack their n entries of each adapter, of which the feed-forward's come before attention's."""
    n = options["compacter_n"]
    order = [2 * layer + which for layer in range(options["encoder_layers"]) for which in (1, 0)]

    def entries(part: str) -> Tensor:
        return torch.stack([torch.stack([flat[f"compacter_{part}.{k * n + i}"] for i in range(n)]) for k in order])

    ours = {"a": entries("shared_A")}
    for name in ("down_s", "down_t", "up_s", "up_t"):
        ours[name] = entries(name.replace("_", "_proj_")).flatten(2)
    ours["down_bias"] = torch.stack([flat[f"compacter_down_proj_b.{k}"] for k in order])
    return {**ours, "up_bias": flat["compacter_up_proj_b.weight"][order]}


KINDS: dict[str, Callable[[Tensors, Options], dict[str, Tensor]]] = {  # by a tensor that only this kind has
    "suffix_embed.weight": task_prompts,
    "generation_dense.weight": dense_generator,
    "generation_shared_w1.0": phm_generator,
    "middle_adapter_MLP.0.0.weight": houlsby_adapters,
    "compacter_shared_A.0": compacters,
}


def method_tensors(theirs: Tensors, options: Options) -> dict[str, Tensor]:
    """Return the method's parameters (or their gradients) under our names."""
    flat = {name[len(STACK) :]: value for name, value in theirs.items() if name.startswith(STACK)}
    for name, convert_kind in KINDS.items():
        if name in flat:
            return convert_kind(flat, options)
    if options["method"] != "head-only":
        raise ValueError(f"it has no tensors of {options['method']}")
    return {}


def configuration(args: dict[str, Any], classes: int, backbone: str | None, what: str) -> DictConfig:
    """Return the configuration of a run that would train SRC, which errors name as ``what``."""
    options = typed(our_options(args), declared(RobertaIDPGConfig), what)
    task_options = {name: args[name] for name in ("init_token", "separator_token", "max_positions")}
    task_options["prompt_position"] = args.get("insert_position", 0)
    task = typed(task_options, declared(SentencePredictionIDPGConfig), what)
    parser = fairseq_options.get_training_parser()
    command = ". --task sentence_prediction_idpg --arch roberta_idpg --criterion sentence_prediction"
    cfg = convert_namespace_to_omegaconf(fairseq_options.parse_args_and_arch(parser, command.split()))
    with open_dict(cfg):
        cfg.model.update(options)
        fill_method_options(cfg.model)
        cfg.model.backbone = backbone or NO_BACKBONE
        cfg.model.save_full_model = backbone is None
        cfg.task.update(num_classes=classes, **task)
        cfg.criterion.regression_target = bool(args.get("regression_target"))
    return cfg


def build_model(cfg: DictConfig, symbols: int, classes: int) -> RobertaIDPGModel:
    """Build the model, with random weights and a dictionary of the right size."""
    dictionary = Dictionary()
    for number in range(symbols - len(dictionary)):
        dictionary.add_symbol(f"symbol{number}")
    options: Any = OmegaConf.to_container(cfg.model, resolve=True)
    args = argparse.Namespace(**options)
    args.max_positions = cfg.task.max_positions
    model = RobertaIDPGModel(args, OpenRobertaEncoder(args, dictionary))
    model.register_classification_head(HEAD, num_classes=classes)
    return model


def convert(source: Path, backbone: Path | None = None) -> dict[str, Any]:
    """Return the checkpoint that fairseq would load."""
    args, theirs = read_checkpoint(str(source), "SRC")
    path = None if backbone is None else backbone_path(str(backbone))
    try:
        classes, symbols = len(theirs[f"{HEADS}{HEAD}.out_proj.weight"]), len(theirs[f"{STACK}embed_tokens.weight"])
        cfg = configuration(args, classes, path, f"SRC {source}")
        # fairseq itself renames its older tensors
        copied = [name for name in theirs if ENCODER.match(name) and STRAY not in name or name.startswith(HEADS)]
        state = {name: theirs[name] for name in copied}
        state |= {f"method.{name}": value for name, value in method_tensors(theirs, cfg.model).items()}
        options: Any = OmegaConf.to_container(cfg, resolve=True)
        check_size(options["model"], options["task"], theirs, f"SRC {source}")
        model = build_model(cfg, symbols, classes)
        # fairseq fills what a head lacks with random numbers
        if lacking := [name for name in model.state_dict() if name.startswith(HEADS) and name not in state]:
            raise ValueError(f"it lacks {lacking[0]}")
        if path is not None:
            model.load_backbone(read_backbone(path))
        model.load_state_dict(state, strict=True)
    except (InputError, LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise InputError(f"SRC {source} cannot be converted: {error}; give a checkpoint of the released code") from None
    names = {"criterion_name": "SentencePredictionCriterion", "optimizer_name": "FairseqAdam"}
    checkpoint = {
        "args": None,
        "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True),
        "model": model.state_dict(),
        "criterion": None,
        "optimizer_history": [{**names, "lr_scheduler_state": {"best": None}, "num_updates": 0}],
        "task_state": {},
        "extra_state": {},
        "last_optimizer_state": None,
    }
    return with_progress_checksums(checkpoint)


@command_line("fairseq_idpg")
def main(argv: list[str] | None = None) -> None:
    args = build_parser().parse_args(argv)
    if args.target.exists() and not args.force:
        raise InputError(f"{args.target} exists already: remove it or give --force")
    check_replaces_nothing(args.target, "DST", {"SRC": [args.source], "--backbone": [args.backbone]})
    checkpoint = convert(args.source, args.backbone)
    with new_file(args.target) as work:
        torch.save(checkpoint, work)
    model = checkpoint["cfg"]["model"]
    values = sum(value.numel() for name, value in checkpoint["model"].items() if name.startswith("method."))
    print(f"{args.target}: method {model['method']}, {values:,} parameters, {args.target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
