"""Trained runs to submit, and what the tests of it ask of an archive."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from fairseq_idpg.inference.folder import load_on_folder, predict_split
from run_scripts.run.records import read_records
from run_scripts.submit.__main__ import main
from tests.folders import renamed, train, write_backbone, write_folder
from tests.run_scripts.report import made

from .sets import add_test_set

SPLITS = {"train": 24, "valid": 13}
SIZES = {"WNLI.tsv": 9, "STS-B.tsv": 7, "MNLI-m.tsv": 6, "MNLI-mm.tsv": 5, "AX.tsv": 4}
THREE = {"0": "neutral", "1": "entailment", "2": "contradiction"}


def numbers(count: int) -> list[str]:
    """Not simply counted: what is written must be what the folder says."""
    return [str(3 * number) for number in range(count)]


class World:
    """data/, backbone.pt, and results/ with runs of a row on three tasks."""

    def __init__(self, place: Path):
        self.place, self.data, self.results = place, place / "data", place / "results"
        self.backbone = write_backbone(place / "backbone.pt")
        add_test_set(write_folder(self.data / "WNLI-bin", splits=SPLITS), "test", numbers(9))
        add_test_set(write_folder(self.data / "STS-B-bin", splits=SPLITS, regression=True), "test", numbers(7))
        mnli = renamed(write_folder(place / "mnli", splits=SPLITS, classes=3), self.data / "MNLI-bin", THREE)
        add_test_set(mnli, "test", numbers(6))
        add_test_set(mnli, "test1", numbers(5))
        add_test_set(self.data / "AX-bin", "test", numbers(4))
        names = (mnli / "label" / "dict.txt").read_text().splitlines(keepends=True)
        (self.data / "AX-bin" / "label").mkdir()
        (self.data / "AX-bin" / "label" / "dict.txt").write_text("".join(reversed(names)))
        scores = ["--regression-target", "--num-classes", 1, "--best-checkpoint-metric", "loss"]
        runs = [self.run("WNLI", seed) for seed in (1, 2, 3)]
        runs += [self.run("WNLI", seed, lr=1e-4, dev=70.0, trained=False) for seed in (1, 2, 3)]
        runs += [self.run("STS-B", 1, *scores)]
        runs += [self.run("MNLI", 1, "--num-classes", 3)]
        made.write(self.results, [*runs, made.run("prompt-tuning", "WNLI"), made.run("prompt-tuning", "CR")])

    def run(self, task: str, seed: int, *options: object, trained: bool = True, **more) -> made.Run:
        folder = self.data / f"{task}-bin"
        run = made.run("m-idpg-phm", task, seed, data=str(folder), position=0, **more)
        if trained:
            place = self.results / "runs" / run["run"]
            train(folder, place, "--backbone", self.backbone, "--seed", seed, "--max-update", 4, "--lr", 1e-2, *options)
        return run

    def copy(self, place: Path) -> Path:
        """Of the results, to be damaged; their data stays where it is."""
        return shutil.copytree(self.results, place / "results")

    def submit(self, out: Path, *options: object, results: Path | None = None, benchmark: str = "glue") -> None:
        given = ["--runs", results or self.results, "--out", out, "--row", "m-idpg-phm", "--cpu", *options]
        main([benchmark, *map(str, given)])


def refused(capsys, out: Path, call) -> str:
    """The one line of an error; nothing is written."""
    with pytest.raises(SystemExit) as stopped:
        call()
    line = str(stopped.value.code)
    assert line.startswith("run_scripts: ") and "\n" not in line and not out.exists()
    return line


def table(archive: zipfile.ZipFile, name: str) -> list[tuple[str, str]]:
    header, *lines = archive.read(name).decode().split("\n")[:-1]
    assert header == "index\tprediction"
    return [tuple(line.split("\t")) for line in lines]


def by_hand(world: World, task: str, split: str = "test", data: str = "") -> list:
    """Each seed's answers, by name, of the library's own predictions."""
    said = []
    for run in made_runs(world, task):
        model, setting = load_on_folder(
            str(world.results / "runs" / run / "checkpoint_best.pt"), str(world.data / data), True
        )
        found = predict_split(model, setting, split)
        said.append([found.label_names[answer] for answer in found.answers] if found.label_names else found.outputs)
    return said


def made_runs(world: World, task: str) -> list[str]:
    runs = [run for run in read_records(world.results) if run["task"] == task and run["row"] == "m-idpg-phm"]
    return [run["run"] for run in runs if run["lr"] == 1e-3]


def touch_checkpoint(results: Path, run: made.Run) -> None:
    """For what is refused before checkpoints are read."""
    (results / "runs" / run["run"]).mkdir(parents=True)
    (results / "runs" / run["run"] / "checkpoint_best.pt").touch()


def most(answers) -> str:
    return max(sorted(set(answers)), key=answers.count)
