"""One run of the paper's comparison: everything that decides its result."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from preprocess.errors import InputError
from preprocess.split_facts import sha256
from preprocess.tasks import SETTINGS, TASKS, Settings, Task, find_task

from .yaml_keys import Check, one_of, optional, rate, text, whole, yes_or_no

SELECTIONS = ("clean", "paper")
# Of the settings that commands.py gives; raised whenever they change, so that no run made with others is taken for one
# of these. 2: at most 4,400 tokens in a batch, the authors' choice of checkpoints and loss scale.
PROTOCOL = 2
PATHS = ("data", "backbone", "init_prompts_from", "init_head_from")
REMEDIES = {
    "data": "make it with python -m preprocess {} --raw DIR --out data, or name another folder",
    "backbone": "get it with bash checkpoints/download.sh roberta.large, or name another file",
}
TEXT_AND_LABELS = dict.fromkeys(("input0", "input1", "label"), ("*.bin", "*.label", "dict.txt"))
WORD_VECTORS = {"glove": ("*.npy",)}


@dataclass(frozen=True)
class Experiment:
    """A training run and its evaluation. What is None is as in the paper.

    Attributes:
        task: a name of preprocess.tasks.
        method: a ``--method`` of the plugin.
        data: the task's whole binarized folder.
        row: the run's row in a table.
        k: training examples of the few-shot setting (Section 4.4).
        dev_examples: held out of the training set to choose learning rate and checkpoint with.
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
    dev_examples: int | None = None
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
    def size(self) -> str:
        """Of the task, a name in preprocess.tasks; MNLI as a task of its own is a large one."""
        if self.k is not None:
            return "few-shot"
        return "large" if self.facts.settings == "supplementary" else self.facts.settings

    @property
    def settings(self) -> Settings:
        """How the paper trains prompts and adapters on it, or a whole model on MNLI as a backbone for others."""
        return SETTINGS["supplementary" if self.supplementary else self.size]

    @property
    def prompt_position(self) -> int:
        """After ``<s>``, for pairs too, as in all of the authors' scripts."""
        return 0 if self.position is None else self.position

    @property
    def best_position(self) -> int:
        """The paper's best in a single layer: before the first ``</s>`` of a pair, else after ``<s>`` (A.5.2)."""
        return int(self.facts.pairs)

    @property
    def run(self) -> str:
        """12 hex digits: the same for runs of a row that have the same result, wherever their files lie."""
        decides: dict[str, Any] = {**asdict(self), "position": self.prompt_position, "protocol": PROTOCOL}
        decides["backbone"] = backbone_digest(self.backbone)
        for name in ("init_prompts_from", "init_head_from"):
            decides[name] = decides[name] and file_digest(decides[name])
        reads_vectors = any("glove" in word for word in (self.method, *self.options))
        decides["data"] = folder_digest(self.data, reads_vectors)
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:12]

    def absolute(self) -> Experiment:
        """The same with absolute paths.

        Raises:
            InputError: one of its files or folders is missing.
        """
        paths = {}
        for name in PATHS:
            path = getattr(self, name)
            if path and not Path(path).exists():
                raise InputError(
                    f"{name} {path} does not exist: {REMEDIES.get(name, 'give its path').format(self.task)}"
                )
            paths[name] = path and str(Path(path).absolute())
        return replace(self, **paths)

    @classmethod
    def from_json(cls, text: str, where: str = "experiment.json") -> Experiment:
        """What ``to_json`` wrote.

        Raises:
            InputError: it is damaged, or of another version; ``where`` it stands is named.
        """
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or found.keys() != CHECKS.keys():
            raise InputError(f"{where} is damaged or of another version: start the sweep again, which writes it anew")
        return cls(**{name: CHECKS[name](value, f"{where}: {name}") for name, value in found.items()})

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def __str__(self) -> str:
        few = "" if self.k is None else f" K={self.k}"
        before = "" if self.supplementary_position is None else f"{self.supplementary_position}:"
        place = f"position {before}{self.prompt_position}"
        return f"{self.task}{few} {self.row or self.method}, {place}, lr {self.lr:g}, seed {self.seed}"


def _absolute(value: Any, where: str) -> str:
    if not Path(text(value, where)).is_absolute():
        raise InputError(f"{where} {value!r} is no absolute path: start the sweep again, which writes it anew")
    return value


def _options(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise InputError(f"{where} {value!r} is no list of words: start the sweep again, which writes it anew")
    return tuple(value)


COUNT = optional(whole(1))
CHECKS: dict[str, Check] = {  # of every field, where it is read from a file
    **{"task": one_of(TASKS), "method": text, "lr": rate, "seed": whole(0), "data": _absolute, "backbone": _absolute},
    **{"arch": text, "row": lambda value, where: value and text(value, where), "k": COUNT, "dev_examples": COUNT},
    **{"selection": one_of(SELECTIONS), "position": optional(whole(0)), "supplementary_position": optional(whole(0))},
    **{"supplementary": yes_or_no, "init_prompts_from": optional(_absolute), "init_head_from": optional(_absolute)},
    **{"batch_size": COUNT, "max_epoch": COUNT, "max_update": COUNT, "options": _options},
}


@lru_cache(maxsize=None)
def backbone_digest(path: str) -> str:
    """Of the backbone's tensors: the same weights in a file that another version wrote are the same backbone.

    It takes twice as long as the file's bytes would, seconds for RoBERTa-large, once in each process.

    Raises:
        InputError: the file is no backbone.
    """
    from fairseq_idpg.backbone.loading import read_backbone  # with torch: reports need none of it

    return read_backbone(path).fingerprint()


@lru_cache(maxsize=None)
def file_digest(path: str) -> str:
    return sha256(Path(path))


@lru_cache(maxsize=None)
def folder_digest(path: str, word_vectors: bool) -> str:
    """Of the texts and labels in a binarized folder, and of the word vectors there."""
    parts = {**TEXT_AND_LABELS, **(WORD_VECTORS if word_vectors else {})}
    files = sorted(
        file for part, patterns in parts.items() for name in patterns for file in Path(path, part).glob(name)
    )
    digests = [f"{file.parent.name}/{file.name} {sha256(file)}" for file in files]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()
