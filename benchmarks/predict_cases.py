"""The cases of benchmarks/predict_speed.py, which says what they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from predict_peer import Pipeline
from predict_served import Server

from fairseq_idpg import load
from fairseq_idpg.inference.int8 import multiplies_exactly
from fairseq_idpg.inference.predictor import Predictor
from preprocess.errors import InputError

HEAD_ONLY, PIPELINE, SORTED = "head-only", "pipeline", "pipeline, sorted"
Clock = Callable[[], float]


class Run(NamedTuple):
    """A checkpoint of the quick start, and how it is computed with."""

    path: Path
    int8: bool
    predictor: Predictor


Runs = dict[str, Run]


@dataclass
class Case:
    """Something that answers ``answers`` times in a turn.

    Attributes:
        clock: what tells its seconds, where that is not the clock of this process.
        accuracy: in %.
        rounds: seconds of each.
    """

    name: str
    answers: int
    turn: Callable[[], Any]
    clock: Clock | None = None
    accuracy: float | None = None
    rounds: list[float] = field(default_factory=list)

    @property
    def speed(self) -> float:
        """Answers a second."""
        return self.answers / median(self.rounds)

    def share(self, other: Case) -> float:
        """Of the speed of ``other``, which answers as often."""
        return median(theirs / own for own, theirs in zip(self.rounds, other.rounds))


@dataclass
class Block:
    """Cases that take turns; ``peers``: the names of those that the others are compared with."""

    title: str
    cases: list[Case]
    peers: tuple[str, ...] = (PIPELINE,)

    def of(self, name: str) -> Case:
        return next(case for case in self.cases if case.name == name)


def open_runs(folder: Path) -> Runs:
    """The best checkpoint of each method in float32, then all in int8 where this CPU has it.

    Raises:
        InputError: that of ``head-only`` is not among them.
    """
    paths = sorted(folder.glob("runs/*/checkpoint_best.pt"))
    if HEAD_ONLY not in [path.parent.name for path in paths]:
        raise InputError(
            f"{folder}/runs/{HEAD_ONLY}/checkpoint_best.pt is missing: run the quick start, --out {folder}"
        )
    found = {}
    for int8 in (False, True) if multiplies_exactly() else (False,):
        for path in paths:
            name = path.parent.name + (", int8" if int8 else "")
            found[name] = Run(path, int8, load(path, device="cpu", int8=int8))
    return found


def batched(runs: Runs, pipe: Pipeline, texts: list[str], size: int) -> Block:
    """Lists of sentences."""
    by_length = sorted(texts, key=len)
    cases = [
        Case(PIPELINE, len(texts), lambda: pipe(texts, batch_size=size)),
        Case(SORTED, len(texts), lambda: pipe(by_length, batch_size=size)),
    ]
    for name, run in runs.items():
        cases.append(Case(name, len(texts), partial(run.predictor.predict, texts, size)))
    return Block(f"{len(texts)} sentences, {size} at a time", cases, (PIPELINE, SORTED))


def method_one_by_one(name: str, model: Predictor, texts: list[str]) -> Case:
    return Case(name, len(texts), lambda: [model.predict([text]) for text in texts])


def pipeline_one_by_one(pipe: Pipeline, texts: list[str]) -> Case:
    return Case(PIPELINE, len(texts), lambda: [pipe(text) for text in texts])


def one_by_one(runs: Runs, pipe: Pipeline, texts: list[str]) -> Block:
    """Calls with one sentence each."""
    cases = [pipeline_one_by_one(pipe, texts)]
    for name, run in runs.items():
        cases.append(method_one_by_one(name, run.predictor, texts))
    return Block(f"{len(texts)} sentences, one by one", cases)


def several(runs: Runs, pipe: Pipeline, texts: list[str], size: int, count: int) -> Block:
    """``count`` tasks on the same sentences."""
    answers = count * len(texts)
    cases = [Case(PIPELINE, answers, lambda: [pipe(texts, batch_size=size) for _ in range(count)])]
    for name, run in runs.items():
        many = load({f"task{number}": run.path for number in range(count)}, device="cpu", int8=run.int8)
        cases.append(Case(name, answers, partial(many.predict, texts, batch_size=size)))
    return Block(f"{len(texts)} sentences, {count} tasks", cases)


def served(servers: dict[str, Server], pipe: Pipeline, texts: list[str], connections: int, clock: str) -> Block:
    """Requests with one sentence each, beside calls with one sentence each."""
    cases = [pipeline_one_by_one(pipe, texts)]
    for name, server in servers.items():
        own = server.cpu_seconds if clock == "cpu" else None
        cases.append(Case(name, len(texts), partial(server.ask, texts, connections), own))
    return Block(f"{len(texts)} sentences, served", cases)
