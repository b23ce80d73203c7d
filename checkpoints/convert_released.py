"""Convert a checkpoint of the paper's released code (CSerxy/IDPG) into one of fairseq_idpg.

    python checkpoints/convert_released.py SRC.pt DST.pt [--backbone roberta.large/model.pt] [--force]

DST loads with fairseq-validate, --prompt-init saved --prompt-init-from DST.pt, and --restore-file (with
--reset-optimizer --reset-dataloader --reset-meters). With --backbone, whose weights must be those that SRC was trained
on, DST holds the method and the head only; without, the whole model. No pickled code runs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

if not __package__:  # run as a script, from anywhere, installed or not
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from fairseq import options as fairseq_options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import DictConfig, OmegaConf, open_dict

from checkpoints.released import STACK, our_options, our_state
from fairseq_idpg.backbone.encoder import OpenRobertaEncoder
from fairseq_idpg.backbone.loading import NO_BACKBONE, backbone_path, read_backbone, read_checkpoint
from fairseq_idpg.models.config import RobertaIDPGConfig, fill_method_options
from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
from fairseq_idpg.models.size import check_size
from fairseq_idpg.saving.checksum import with_progress_checksums
from fairseq_idpg.saving.configuration import declared, typed
from fairseq_idpg.saving.tensors import HEADS
from fairseq_idpg.tasks.config import SentencePredictionIDPGConfig
from preprocess.errors import InputError, command_line
from preprocess.flags import named_path
from preprocess.writing import check_replaces_nothing, new_file

HEAD = "sentence_classification_head"
HEAD_OUTPUT = f"{HEADS}{HEAD}.out_proj.weight"

HISTORY = {
    "criterion_name": "SentencePredictionCriterion",
    "optimizer_name": "FairseqAdam",
    "lr_scheduler_state": {"best": None},
    "num_updates": 0,
}


def configuration(args: dict[str, Any], classes: int, backbone: str | None, what: str) -> DictConfig:
    """The configuration of a run that would train what SRC, named by ``what``, holds."""
    options = typed(our_options(args), declared(RobertaIDPGConfig), what)
    task = {
        "init_token": args["init_token"],
        "separator_token": args["separator_token"],
        "max_positions": args["max_positions"],
        "prompt_position": args.get("insert_position", 0),
    }
    task = typed(task, declared(SentencePredictionIDPGConfig), what)
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
    """The model, with random weights and a dictionary of the right size."""
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
    """The checkpoint that fairseq would load.

    Raises:
        InputError: SRC is no such checkpoint or holds what has no equal here; another --backbone.
    """
    args, theirs = read_checkpoint(str(source), "SRC")
    path = None if backbone is None else backbone_path(str(backbone))
    try:
        classes, symbols = len(theirs[HEAD_OUTPUT]), len(theirs[f"{STACK}embed_tokens.weight"])
        cfg = configuration(args, classes, path, f"SRC {source}")
        state = our_state(theirs, cfg.model)
        options: Any = OmegaConf.to_container(cfg, resolve=True)
        check_size(options["model"], options["task"], theirs, f"SRC {source}")
        model = build_model(cfg, symbols, classes)
        if path is not None:
            model.load_backbone(read_backbone(path))
        missing = [name for name in model.state_dict() if name.startswith(("method.", HEADS)) and name not in state]
        if missing:
            raise LookupError(f"it has nothing of {missing[0]}")
        model.load_state_dict(state, strict=True)
    except (InputError, LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise InputError(f"SRC {source} cannot be converted: {error}; give a checkpoint of the released code") from None
    checkpoint = {
        "args": None,
        "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True),
        "model": model.state_dict(),
        "criterion": None,
        "optimizer_history": [HISTORY],
        "task_state": {},
        "extra_state": {},
        "last_optimizer_state": None,
    }
    return with_progress_checksums(checkpoint)


@command_line("fairseq_idpg")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="convert_released", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("source", metavar="SRC.pt", type=named_path)
    parser.add_argument("target", metavar="DST.pt", type=named_path)
    parser.add_argument("--backbone", type=named_path, metavar="FILE", help="model.pt that SRC was trained on")
    parser.add_argument("--force", action="store_true", help="replace DST.pt")
    args = parser.parse_args(argv)
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
