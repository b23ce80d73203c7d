"""Checkpoints as fairseq-train saves them, of models with random values, without a training."""

from pathlib import Path

import torch
from fairseq import tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from tests.folders import training_arguments

FROM_SOURCES = {"spot": 1, "attempt": 2, "mpt": 2}  # preset -> prompts of other tasks that it is given


def write_checkpoint(
    path: Path, folder: Path, backbone: Path, *more: object, without: str = "--phm-n", std: float = 0.1, seed: int = 0
) -> Path:
    """Of a model on ``folder`` whose trained values are moved by N(0, std^2).

    Args:
        more: options, which win over the usual ones.
        without: names of usual options with a value that are left out.
    """
    args = training_arguments("--backbone", backbone, *more, folder=folder, without=without)
    cfg = convert_namespace_to_omegaconf(args)
    torch.manual_seed(seed)
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    with torch.no_grad():
        for parameter in filter(lambda p: p.requires_grad, model.parameters()):
            parameter.add_(std * torch.randn_like(parameter))
    history = {"criterion_name": "SentencePredictionCriterion", "optimizer_name": "FairseqAdam", "num_updates": 1}
    state = {
        "args": None,
        "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True),
        "model": model.state_dict(),
        "optimizer_history": [{**history, "lr_scheduler_state": {"best": None}}],
        "extra_state": {"train_iterator": {"epoch": 2, "iterations_in_epoch": 0}, "val_loss": None},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(state, path)
    return path


def source_options(method: str, place: Path, folder: Path, backbone: Path, *size: object) -> list[str]:
    """--source-prompts of a preset that starts from other tasks' prompts, which are written into ``place``."""
    paths = [
        write_checkpoint(place / f"source{i}.pt", folder, backbone, "--method", "prompt-tuning", *size, seed=i)
        for i in range(FROM_SOURCES.get(method, 0))
    ]
    return ["--source-prompts", ",".join(map(str, paths))] if paths else []
