"""One run of the paper's comparison: everything that decides its result."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from preprocess.split_facts import sha256
from preprocess.tasks import SETTINGS, Settings, Task, find_task

SELECTIONS = ("clean", "paper")


@dataclass(frozen=True)
class Experiment:
    """A training run and its evaluation. What is None is as in the paper.

    Attributes:
        task: a name of preprocess.tasks.
        method: a ``--method`` of the plugin.
        data: the task's whole binarized folder.
        row: the run's row in a table.
        k: training examples of the few-shot setting (Section 4.4).
        dev: examples held out of the training set to choose learning rate and checkpoint with.
        selection: ``clean`` holds such examples out; ``paper`` chooses on the split that it reports.
        position: of the prompt; ``supplementary_position``: its position while the backbone was trained on MNLI.
        supplementary: the run is such a training of the whole model (appendix A.4).
        init_prompts_from, init_head_from: checkpoints whose method and head are the start.
        options: further options of fairseq-train.
    """

    task: str
    method: str
    lr: float
    seed: int
    data: str
    backbone: str
    arch: str = "roberta_idpg_large"
    row: str = ""
    k: int | None = None
    dev: int | None = None
    selection: str = "clean"
    position: int | None = None
    supplementary_position: int | None = None
    supplementary: bool = False
    init_prompts_from: str | None = None
    init_head_from: str | None = None
    batch_size: int | None = None
    max_epoch: int | None = None
    max_update: int | None = None
    options: tuple[str, ...] = field(default=())

    @property
    def facts(self) -> Task:
        return find_task(self.task)

    @property
    def setting(self) -> str:
        return "full" if self.k is None else "few-shot"

    @property
    def settings(self) -> Settings:
        """How the paper trains it."""
        if self.supplementary:
            return SETTINGS["supplementary"]
        return SETTINGS["few-shot" if self.k is not None else self.facts.settings]

    @property
    def prompt_position(self) -> int:
        """The paper's best: after ``<s>`` of single sentences, between the two of a pair (appendix A.5.2)."""
        return int(self.facts.pairs) if self.position is None else self.position

    @property
    def run(self) -> str:
        """12 hex digits: the same for runs that have the same result, wherever their files lie."""
        decides: dict[str, Any] = asdict(self)
        for name in ("backbone", "init_prompts_from", "init_head_from"):
            decides[name] = decides[name] and file_digest(decides[name])
        decides["data"] = folder_digest(self.data)
        text = json.dumps(decides, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def __str__(self) -> str:
        few = "" if self.k is None else f" K={self.k}"
        return f"{self.task}{few} {self.row or self.method} lr {self.lr:g} seed {self.seed}"


@lru_cache(maxsize=None)
def file_digest(path: str) -> str:
    return sha256(Path(path))


@lru_cache(maxsize=None)
def folder_digest(path: str) -> str:
    """Of the texts and labels in a binarized folder."""
    files = sorted(
        file
        for part in ("input0", "input1", "label")
        for pattern in ("*.bin", "*.label", "dict.txt")
        for file in (Path(path) / part).glob(pattern)
    )
    digests = [f"{file.parent.name}/{file.name} {sha256(file)}" for file in files]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()
