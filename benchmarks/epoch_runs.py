"""The processes of benchmarks/epoch.py: what it runs, the commands, and the figures that their output tells."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from settings import ROOT, failure

from preprocess.data_folder import DataFolder
from preprocess.errors import InputError

METHODS = ("m-idpg-phm", "prompt-tuning", "p-tuning-v2", "adapter", "compacter", "fine-tuning")
REFERENCE = "prompt-tuning"  # what ratios are taken to
GROUPED = "-grouped"


@dataclass(frozen=True)
class Training:
    """A run of fairseq-train.

    Attributes:
        options: besides those that all runs have.
        cache: ``cold`` fills a new representation cache, ``warm`` reads one that fairseq_idpg.encode filled.
        brief: two updates are enough, for only the checkpoint counts.
    """

    name: str
    method: str
    options: tuple[str, ...] = ()
    cache: str = ""
    brief: bool = False


@dataclass(frozen=True)
class Prediction:
    """A run of ``tool`` (``predict`` of fairseq_idpg, or fairseq's ``validate``) on a checkpoint of ``method``."""

    method: str
    tool: str
    cached: bool = False

    @property
    def name(self) -> str:
        return f"{self.method}-{self.tool}{'-cached' if self.cached else ''}"


VARIANTS = (
    Training("m-idpg-phm-cache-cold", "m-idpg-phm", cache="cold"),
    Training("m-idpg-phm-cache-warm", "m-idpg-phm", cache="warm"),
    Training(f"m-idpg-phm{GROUPED}", "m-idpg-phm", ("--group-by-length",)),
    Training(f"prompt-tuning{GROUPED}", "prompt-tuning", ("--group-by-length",)),
    Training("m-idpg-phm-no-optimizer-state", "m-idpg-phm", ("--no-save-optimizer-state",), brief=True),
    Training("m-idpg-phm-full-model", "m-idpg-phm", ("--save-full-model",), brief=True),
)
PREDICTIONS = (
    Prediction("m-idpg-phm", "predict"),
    Prediction("m-idpg-phm", "predict", cached=True),
    Prediction("m-idpg-phm", "validate"),
    Prediction("prompt-tuning", "predict"),
    Prediction("prompt-tuning", "validate"),
)


ADAM = ("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", "1e-6", "--weight-decay", "0.1")
POSITIONS = "512"
PREDICTION_BATCH = "64"
BRIEF = 2  # updates
FILLED = r"split \S+: M\(x\) of"


@dataclass(frozen=True)
class Output:
    """A finished process: its lines with the seconds from its start to each, and the seconds to its end."""

    lines: list[tuple[float, str]]
    seconds: float

    def all(self, pattern: str) -> list[tuple[float, re.Match[str]]]:
        """Return the lines that contain a match."""
        matches = ((stamp, re.search(pattern, line)) for stamp, line in self.lines)
        return [(stamp, match) for stamp, match in matches if match]

    def first(self, pattern: str) -> tuple[float, re.Match[str]]:
        """Return the first line that matches. Raises InputError where no line does."""
        found = self.all(pattern)
        if not found:
            raise InputError(f"no line of its output matches {pattern!r}: does this fairseq log otherwise?")
        return found[0]


def call(command: list[str], threads: int) -> Output:
    """Run a process of ``threads`` threads to its end. Raises InputError where it fails."""
    steady = {"OMP_WAIT_POLICY": "PASSIVE", "PYTHONUNBUFFERED": "1"}  # lines come when they are written
    environment = {**os.environ, **steady, "OMP_NUM_THREADS": str(threads)}
    start = time.perf_counter()
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, errors="replace", **streams) as process:
        assert process.stdout is not None
        try:
            lines = [(time.perf_counter() - start, line) for line in process.stdout]
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise InputError(failure("".join(line for _, line in lines)))
    return Output(lines, time.perf_counter() - start)


@dataclass(frozen=True)
class Setting:
    """What all runs have in common; ``updates`` None: a whole epoch."""

    backbone: Path
    arch: str
    batch: int
    updates: int | None
    threads: int
    cpu: bool
    options: tuple[str, ...] = ()


def tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def device(setting: Setting) -> list[str]:
    return ["--cpu"] if setting.cpu else []


def common(data: DataFolder, setting: Setting) -> list[str]:
    """The data and the task, as fairseq-train and fairseq-validate take them."""
    classes = ["1", "--regression-target"] if data.regression else [str(len(data.label_names))]
    return [
        *(str(data.path), "--user-dir", str(ROOT / "fairseq_idpg"), "--task", "sentence_prediction_idpg"),
        *("--criterion", "sentence_prediction", "--num-classes", *classes, "--init-token", "0"),
        *("--separator-token", "2", "--max-positions", POSITIONS, "--shorten-method", "truncate"),
        *("--required-batch-size-multiple", "1"),
        *("--distributed-world-size", "1", "--num-workers", "0", "--log-format", "json", *device(setting)),
    ]


def encode(data: DataFolder, splits: list[str], cache: Path, setting: Setting) -> Output:
    """Fills a representation cache with what training and prediction will look for."""
    command = [
        *(sys.executable, "-m", "fairseq_idpg.encode", str(data.path), "--backbone", str(setting.backbone)),
        *("--representation-cache", str(cache), "--splits", *splits, "--max-positions", POSITIONS),
        *("--shorten-method", "truncate", *device(setting)),
    ]
    return call(command, setting.threads)


def train(case: Training, data: DataFolder, folder: Path, cache: Path | None, setting: Setting) -> Output:
    """Leaves ``folder/checkpoint_last.pt``."""
    updates = BRIEF if case.brief else setting.updates
    command = [
        *(tool("fairseq-train"), *common(data, setting), "--arch", setting.arch, "--method", case.method),
        *("--backbone", str(setting.backbone), *ADAM, "--lr", "1e-4", "--lr-scheduler", "fixed", "--seed", "1"),
        *("--batch-size", str(setting.batch), "--max-epoch", "1", *(["--max-update", str(updates)] if updates else [])),
        *("--log-interval", "1", "--disable-validation", "--no-epoch-checkpoints", "--save-dir", str(folder)),
        *(*(["--representation-cache", str(cache)] if cache else []), *case.options, *setting.options),
    ]
    output = call(command, setting.threads)
    if case.cache:
        check_cache(output, filled=case.cache == "cold")
    return output


def check_cache(output: Output, filled: bool) -> None:
    """That M(x) was computed in the run, and so in its seconds, only if the case says so."""
    if bool(output.all(FILLED)) != filled:
        found = "did not compute" if filled else "computed"
        raise InputError(f"the run {found} the rows of the representation cache: do --options change them?")


def training_figures(output: Output, checkpoint: Path) -> dict[str, Any]:
    """Seconds of the epoch, from its beginning (where a cache is filled) to its last update, and the checkpoint's.

    The first update, which loads and allocates more than the others, counts once in an epoch however few are run.
    """
    begin, _ = output.first("begin training epoch 1")
    start, _ = output.first("Start iterating over samples")
    ends = [stamp for stamp, _ in output.all(r"\| train_inner \| \{")]
    if len(ends) < 2:
        raise InputError(f"{len(ends)} updates are too few to be timed: give more data or a smaller --batch-size")
    _, planned = output.first(r"([\d,]+) batches, ([\d.]+)% of their tokens are padding")
    _, examples = output.first(r"Loaded train with #samples: (\d+)")
    _, logged = output.first(r"\| train \| (\{.*\})")
    _, written = output.first(r"writing took ([\d.e-]+) seconds")
    log = json.loads(logged[1])
    per_epoch, update = int(planned[1].replace(",", "")), (ends[-1] - ends[0]) / (len(ends) - 1)
    return {
        "updates": len(ends),
        "updates_per_epoch": per_epoch,
        "examples": int(examples[1]),
        "padding": float(planned[2]) / 100,
        "fill_s": start - begin,
        "first_update_s": ends[0] - start,
        "update_s": update,
        "epoch_s": ends[0] - begin + (per_epoch - 1) * update,
        "train_wall_s": float(log["train_train_wall"]),
        "wall_s": float(log["train_wall"]),
        "process_s": output.seconds,
        "process_epoch_s": output.seconds + (per_epoch - len(ends)) * update,
        "bytes": checkpoint.stat().st_size,
        "write_s": float(written[1]),
    }


def predict(
    case: Prediction, data: DataFolder, split: str, checkpoint: Path, cache: Path, setting: Setting
) -> dict[str, Any]:
    """Seconds from loading the data, with the model in memory, to the result; and of the whole process."""
    options = ["--path", str(checkpoint), "--batch-size", PREDICTION_BATCH]
    if case.tool == "validate":
        command = [tool("fairseq-validate"), *common(data, setting), *options, "--valid-subset", split]
        result = rf"\| {split} \| \{{"
    else:
        cached = ["--representation-cache", str(cache)] if case.cached else []
        options += ["--split", split, "--out", str(checkpoint.with_suffix(".tsv")), *cached, *device(setting)]
        command = [sys.executable, "-m", "fairseq_idpg.predict", str(data.path), *options]
        result = rf"predictions of {split} in"
    output = call(command, setting.threads)
    if case.cached:
        check_cache(output, filled=False)
    begin, examples = output.first(r"loaded ([\d,]+) examples from")
    return {
        "split": split,
        "examples": int(examples[1].replace(",", "")),
        "seconds": output.first(result)[0] - begin,
        "process_s": output.seconds,
    }
