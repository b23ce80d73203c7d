"""Folders, a backbone and sweeps of them so small that a run takes little more than its imports."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from preprocess.tasks import TASKS
from tests.folders import write_backbone, write_folder
from tests.helpers import TINY

SPLITS = {"train": 24, "valid": 13}
OPTIONS = {"cpu": True, **{name.replace("_", "-"): value for name, value in TINY.items()}}
FLAGS = [word for name, value in OPTIONS.items() for word in (f"--{name}", *([] if value is True else [str(value)]))]
IDPG = {"method": "m-idpg-phm", "options": {"phm-n": 4}}


class World:
    """data/{RTE,MRPC,CR,MNLI,STS-B}-bin and backbone/model.pt."""

    def __init__(self, folder: Path):
        self.folder, self.data, self.backbone = folder, folder / "data", folder / "backbone" / "model.pt"
        for task in (TASKS[name] for name in ("RTE", "MRPC", "CR", "MNLI", "STS-B")):
            how = {"pairs": task.pairs, "regression": task.regression, "names": task.labels}
            write_folder(self.data / f"{task.name}-bin", splits=SPLITS, **how)
        write_backbone(self.backbone)

    def keys(self, **more: Any) -> dict[str, Any]:
        """Of a sweep of one row on RTE; ``more`` replaces or adds keys."""
        usual = {"backbone": str(self.backbone), "arch": "roberta_idpg", "data": str(self.data), "options": OPTIONS}
        usual |= {"tasks": ["RTE"], "rows": [IDPG], "lrs": [1e-2], "seeds": [1, 2]}
        return {**usual, "dev_examples": 8, "batch_size": 8, "max_epoch": 2, **more}

    def config(self, place: Path, **more: Any) -> Path:
        path = place / "sweep.yaml"
        path.write_text(yaml.safe_dump(self.keys(**more)), encoding="utf-8")
        return path


def commands(folder: Path, **bodies: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, body in bodies.items():
        (folder / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (folder / name).chmod(0o755)
    return folder


class Ended:
    def __init__(self, record: dict[str, Any]):
        self.said = record

    def done(self) -> bool:
        return True

    def record(self) -> dict[str, Any]:
        return self.said


def records(results: Path) -> dict[str, dict[str, Any]]:
    return {record["run"]: record for record in map(json.loads, (results / "results.jsonl").read_text().splitlines())}


def outcome(results: Path) -> dict[str, Any]:
    """All that must not depend on how a sweep was executed."""
    found = {}
    for run, record in records(results).items():
        predictions = np.load(results / record["predictions"])
        arrays = {name: predictions[name].tolist() for name in predictions.files}
        found[run] = [*(record[key] for key in ("dev", "test", "scores", "best_epoch", "lr", "seed")), arrays]
    return found
