"""fairseq's trainer, the task and a real batch, in this process and on a device of choice."""

import contextlib
import copy
import functools
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from fairseq import tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from fairseq.trainer import Trainer
from omegaconf import open_dict

import fairseq_idpg  # noqa: F401  the task and the model
from fairseq_idpg.methods.registry import PRESETS
from fairseq_idpg.training.fairseq_patches import bind_trainer
from tests.folders import training_arguments, write_backbone, write_folder
from tests.phrases import SINGLES, write_language_model, write_texts
from tests.representations.test_word_vectors import write_vectors
from tests.sources import write_source

from .watch import Watch

ROWS = 4  # of prompts that start from others
OURS = {"criterion": "sentence_prediction_idpg"}
OF_PRESETS: dict[str, dict[str, Any]] = {
    **{name: {"phm_n": 4} for name in PRESETS if "phm" in name},
    "m-idpg-phm-glove": {"generator_hidden_size": 8},
    "spot": {"prompt_length": ROWS, "sources": 1},
    "mpt": {"prompt_length": ROWS, "sources": 1},
    "attempt": {"prompt_length": ROWS, "sources": 2},
    "adamix": OURS,
}
SECTIONS = {name: name for name in ("task", "common", "optimization")} | {"groups": "optimizer", "reports": "criterion"}


def write_place(place: Path) -> Path:
    """Pairs with word vectors, texts for templates, and a backbone for each."""
    write_vectors(write_folder(place / "pairs"))
    write_backbone(place / "backbone.pt", max_positions=192)
    write_texts(place, "MR", SINGLES)
    write_language_model(place, max_positions=192)
    return place


@functools.cache
def parsed(criterion: str, optimizer: str) -> Any:
    """fairseq's configuration of a command line; what is slow about it."""
    own = ["--max-positions", 192, "--criterion", criterion, "--optimizer", optimizer]
    return convert_namespace_to_omegaconf(training_arguments(*own, without="--phm-n"))


def configuration(
    place: Path, method: str, criterion: str = "sentence_prediction", optimizer: str = "adam", **given: Any
) -> Any:
    """Of a run of a preset; ``given``: options of the model, and for other sections dictionaries under their names."""
    cfg = copy.deepcopy(parsed(criterion, optimizer))
    words = given.get("predict_with") == "mlm"
    sections = {section: given.pop(name, {}) for name, section in SECTIONS.items()}
    sections["task"] = {"data": str(place / ("MR-bin" if words else "pairs")), **sections["task"]}
    with open_dict(cfg):
        for name, values in sections.items():
            cfg[name].update(values)
        cfg.model.update({"method": method, "backbone": str(place / ("model.pt" if words else "backbone.pt")), **given})
    return cfg


@functools.cache
def name_sources(place: Path, count: int, rows: int, insertion: str) -> str:
    """Other tasks' prompts of so many rows, of the backbone."""
    cfg = configuration(place, "prompt-tuning")
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    paths = [place / f"source{i}-{rows}-{insertion}.pt" for i in range(count)]
    for path in paths:
        write_source(path, torch.randn(1, rows, 32), insertion, fingerprint=model.backbone_fingerprint)
    return ",".join(map(str, paths))


# fairseq/utils.py, clip_grad_norm_: without apex and a GPU it gathers the norms on the CPU
AS_ON_A_GPU = {
    "multi_tensor_l2norm_available": True,
    "multi_tensor_total_norm": lambda gradients: torch.stack([each.float().norm() for each in gradients]).norm(),
}


class DeviceTrainer(Trainer):
    """fairseq's, on ``target`` and not on the CPU that --cpu asks for."""

    target = torch.device("cpu")
    device = property(lambda self: self.target, lambda self, cpu: None)


def started(place: Path, method: str, device: str = "cpu", **given: Any) -> DeviceTrainer:
    """The trainer of a run before its first step."""
    given = {**OF_PRESETS.get(method, {}), **given}
    sources, rows = given.pop("sources", 0), given.pop("source_rows", ROWS)
    if sources:
        given["source_prompts"] = name_sources(place, sources, rows, given.get("prompt_insertion", "add"))
    metrics.reset()
    torch.manual_seed(1)
    cfg = configuration(place, method, **given)
    task = tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model)
    marks = {name: vars(parameter) for name, parameter in model.named_parameters()}
    task.load_dataset("train")
    kind = type("Trainer", (DeviceTrainer,), {"target": torch.device(device)})
    trainer = kind(cfg, task, model, task.build_criterion(cfg.criterion))
    bind_trainer(trainer)
    for name, parameter in model.named_parameters():
        vars(parameter).update(marks[name])  # to the meta device, and to no other, torch makes new parameters
    return trainer


def step(trainer: DeviceTrainer, samples: dict[str, Any], watch: Watch | None = None) -> Any:
    """One update, as fairseq's trainer makes it; returns what it logs."""
    with mock.patch.multiple(utils, **AS_ON_A_GPU), contextlib.nullcontext() if watch is None else watch:
        return trainer.train_step([samples])


def batch(trainer: Trainer, split: str = "train", size: int = 3) -> dict[str, Any]:
    """The first examples of a split, as the trainer gets them."""
    if split not in trainer.task.datasets:
        trainer.task.load_dataset(split)
    dataset = trainer.task.dataset(split)
    samples = dataset.collater([dataset[i] for i in range(size)])
    return utils.apply_to_sample(lambda tensor: tensor.to(trainer.device), samples)
