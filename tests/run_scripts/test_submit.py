"""python -m run_scripts.submit: an archive out of runs, and one line for everything that is not right."""

import json
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fairseq_idpg.inference.folder import SplitPredictions, load_on_folder, predict_split
from preprocess.tasks import TASKS, TEST_SETS
from run_scripts.run.records import read_records
from run_scripts.submit import SHEETS, main, text_of, voted
from tests.folders import renamed, words_dictionary, write_backbone, write_folder, write_indexed, write_questions
from tests.helpers import WORDS
from tests.inference.saved import write_checkpoint
from tests.run_scripts.report import made

# Lines with the header: of a submission, huggingface.co/Avelina/lovelace-medium-alpha1-dph at c951445, and where that
# does not show them, the "wc -l *.tsv" in public instructions for submitting.
LINES = {"AX": 1105, "CoLA": 1064, "MNLI-mm": 9848, "MNLI-m": 9797, "MRPC": 1726, "QNLI": 5464, "QQP": 390_966}
LINES |= {"RTE": 3001, "SST-2": 1822, "STS-B": 1380, "WNLI": 147}
PUBLISHED = dict(SHEETS)  # the tests of the command have smaller ones
SUPER_GLUE = "BoolQ CB COPA MultiRC ReCoRD RTE WiC WSC AX-b AX-g"


def test_files_of_the_benchmarks():
    assert {sheet.file.removesuffix(".tsv"): sheet.examples + 1 for sheet in PUBLISHED["glue"]} == LINES
    assert {sheet.file for sheet in PUBLISHED["superglue"]} == {f"{name}.jsonl" for name in SUPER_GLUE.split()}
    for sheet in (*PUBLISHED["glue"], *PUBLISHED["superglue"]):
        of_set = {**TASKS, **TEST_SETS}[sheet.data or sheet.model_of]  # a model answers what has its labels
        assert sheet.split in of_set.files and of_set.number
        assert sorted(of_set.labels) == sorted(TASKS[sheet.model_of].labels)


@pytest.mark.parametrize(
    ("file", "numbers", "answers", "text"),
    [
        ("RTE.tsv", [(0,), (7,)], ["entailment", "b"], "index\tprediction\n0\tentailment\n7\tb\n"),
        # as T5's script for submissions and jiant write them
        ("WSC.jsonl", [(0,)], ["true"], '{"idx": 0, "label": "True"}\n'),
        (  # passages hold their questions, which hold their answers
            *("MultiRC.jsonl", [(3, 0, 0), (3, 0, 1), (3, 2, 0), (4, 0, 9)], "0110"),
            '{"idx": 3, "passage": {"questions": [{"idx": 0, "answers": [{"idx": 0, "label": 0}, {"idx": 1, "label": 1}'
            ']}, {"idx": 2, "answers": [{"idx": 0, "label": 1}]}]}}\n'
            '{"idx": 4, "passage": {"questions": [{"idx": 0, "answers": [{"idx": 9, "label": 0}]}]}}\n',
        ),
    ],
)
def test_text_of_a_file(file, numbers, answers, text):
    assert text_of(file, numbers, answers) == text


def says(answers, order):
    return SplitPredictions(np.eye(len(order))[[order.index(answer) for answer in answers]], None, list(order))


def test_votes_are_of_names_and_scores_a_mean_in_the_scale_of_the_task():
    said = [
        says(["neutral", "entailment"], ("contradiction", "entailment", "neutral")),
        says(["entailment", "entailment"], ("neutral", "contradiction", "entailment")),
        says(["neutral", "neutral"], ("entailment", "neutral", "contradiction")),
    ]
    assert voted(TASKS["MNLI"], said) == ["neutral", "entailment"]
    equal = [says(["1", "0"], ("1", "0")), says(["0", "1"], ("1", "0"))]
    assert voted(TASKS["MRPC"], equal) == ["0", "0"]  # the first name
    said = [SplitPredictions(np.array(each), None, []) for each in ([0.5, 0.2, 1.4, -0.3], [0.7, 0.2, 1.2, 0.1])]
    assert voted(TASKS["STS-B"], said) == ["3.000000", "1.000000", "5.000000", "0.000000"]


SPLITS = {"train": 24, "valid": 13}
SIZES = {"WNLI.tsv": 9, "STS-B.tsv": 7, "MNLI-m.tsv": 6, "MNLI-mm.tsv": 5, "AX.tsv": 4}
THREE = {"0": "neutral", "1": "entailment", "2": "contradiction"}


def counted(count: int) -> list[str]:
    """Not simply counted: what is written must be what the folder says."""
    return [str(3 * number) for number in range(count)]


def add_test_set(folder: Path, split: str, numbers: Sequence[str]) -> Path:
    """Adds pairs without labels to a folder, or makes a folder of them alone, as ``python -m preprocess`` does."""
    draw = np.random.RandomState(len(numbers))
    for part in ("input0", "input1"):
        rows = [[*draw.randint(6, 4 + WORDS, draw.randint(1, 13)).tolist(), 2] for _ in numbers]
        write_indexed(folder / part / split, rows)
        words_dictionary().save(str(folder / part / "dict.txt"))
    (folder / "number").mkdir(exist_ok=True)
    (folder / "number" / f"{split}.txt").write_text("".join(f"{number}\n" for number in numbers))
    return folder


class World:
    """data/, backbone.pt, and results/ with runs of a row on three tasks."""

    def __init__(self, place: Path):
        self.data, self.results = place / "data", place / "results"
        self.backbone = write_backbone(place / "backbone.pt")
        add_test_set(write_folder(self.data / "WNLI-bin", splits=SPLITS), "test", counted(9))
        add_test_set(write_folder(self.data / "STS-B-bin", splits=SPLITS, regression=True), "test", counted(7))
        mnli = renamed(write_folder(place / "mnli", splits=SPLITS, classes=3), self.data / "MNLI-bin", THREE)
        add_test_set(mnli, "test", counted(6))
        add_test_set(mnli, "test1", counted(5))
        add_test_set(self.data / "AX-bin", "test", counted(4))
        names = (mnli / "label" / "dict.txt").read_text().splitlines(keepends=True)
        (self.data / "AX-bin" / "label").mkdir()
        (self.data / "AX-bin" / "label" / "dict.txt").write_text("".join(reversed(names)))
        runs = [self.run("WNLI", seed) for seed in (1, 2, 3)]
        for lr, dev in ((1e-4, 70.0), (1e-2, 90.0)):  # at the second of them, another seed has diverged
            runs += [self.run("WNLI", seed, lr=lr, dev=dev, trained=False) for seed in (1, 2, 3)]
        runs += [made.failed("m-idpg-phm", "WNLI", 4, lr=1e-2, position=0, reason="diverged")]
        runs += [self.run("STS-B", 1, "--regression-target", "--num-classes", 1)]
        runs += [self.run("MNLI", 1, "--num-classes", 3)]
        made.write(self.results, [*runs, made.run("prompt-tuning", "WNLI")])

    def run(self, task: str, seed: int, *options: object, trained: bool = True, **more) -> made.Run:
        folder = self.data / f"{task}-bin"
        run = made.run("m-idpg-phm", task, seed, data=str(folder), position=0, **more)
        if trained:
            path = self.results / "runs" / run["run"] / "checkpoint_best.pt"
            write_checkpoint(path, folder, self.backbone, *options, without="", std=1.0, seed=seed)
        return run

    def runs(self, task: str) -> list[str]:
        found = [run for run in read_records(self.results) if run["task"] == task and run["row"] == "m-idpg-phm"]
        return [run["run"] for run in found if run["lr"] == 1e-3]

    def submit(self, out: Path, *options: object, results: Path | None = None, benchmark: str = "glue") -> None:
        given = ["--runs", results or self.results, "--out", out, "--row", "m-idpg-phm", "--cpu", *options]
        main([benchmark, *map(str, given)])

    def by_hand(self, task: str, split: str = "test", data: str = "") -> list:
        said = []
        for run in self.runs(task):
            checkpoint = str(self.results / "runs" / run / "checkpoint_best.pt")
            found = predict_split(*load_on_folder(checkpoint, str(self.data / data), True), split)
            said.append([found.label_names[answer] for answer in found.answers] if found.label_names else found.outputs)
        return said


def most(answers) -> str:
    return max(sorted(set(answers)), key=answers.count)


def table(archive: zipfile.ZipFile, name: str) -> list[tuple[str, str]]:
    header, *lines = archive.read(name).decode().split("\n")[:-1]
    assert header == "index\tprediction"
    return [tuple(line.split("\t")) for line in lines]


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    return World(tmp_path_factory.mktemp("submit"))


@pytest.fixture(autouse=True)
def small_test_sets(monkeypatch):
    """SuperGLUE's are of three questions."""
    for name, sheets in PUBLISHED.items():
        sizes = dict.fromkeys((sheet.file for sheet in sheets), 3) if name == "superglue" else SIZES
        smaller = tuple(sheet._replace(examples=sizes.get(sheet.file, sheet.examples)) for sheet in sheets)
        monkeypatch.setitem(SHEETS, name, smaller)


@pytest.fixture
def refused(world, tmp_path):
    def call(*options, **more):
        out = tmp_path / "x.zip"
        with pytest.raises(SystemExit) as stopped:
            world.submit(out, *options, **more)
        line = str(stopped.value.code)
        assert line.startswith("run_scripts: ") and "\n" not in line and not out.exists()
        return line

    return call


def test_an_archive(world, tmp_path, capsys):
    out = tmp_path / "out" / "glue.zip"
    world.submit(out, "--incomplete", "--dry-run")
    said = capsys.readouterr().out
    assert not out.exists()
    world.submit(out, "--incomplete")
    with zipfile.ZipFile(out) as archive:
        assert {info.date_time[0] for info in archive.infolist()} == {1980}  # without the time
        assert archive.namelist() == ["STS-B.tsv", "WNLI.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"]
        found = {name: table(archive, name) for name in archive.namelist()}
    for name, lines in found.items():
        assert [number for number, _ in lines] == counted(SIZES[name])
    answers = {name: [answer for _, answer in lines] for name, lines in found.items()}
    assert answers["WNLI.tsv"] == [most(said) for said in zip(*world.by_hand("WNLI", data="WNLI-bin"))]
    mean = np.clip(5 * np.mean(world.by_hand("STS-B", data="STS-B-bin"), axis=0), 0, 5)
    assert [float(score) for score in answers["STS-B.tsv"]] == pytest.approx(mean.tolist(), abs=1e-5)
    for name, split, data in (("MNLI-m", "test", "MNLI"), ("MNLI-mm", "test1", "MNLI"), ("AX", "test", "AX")):
        assert answers[f"{name}.tsv"] == world.by_hand("MNLI", split, f"{data}-bin")[0]
    assert capsys.readouterr().out == said  # the dry run shows the same table
    assert "not in it: CoLA.tsv: no finished run of CoLA" in said


QUESTIONS, ASKED = [0, 0, 1, 1, 1, 2], ["6", "6", "31", "31", "31", "4"]  # of the examples, and their numbers
PLACES = [(0, 2), (2, 5), (5, 6)]  # of each question's examples


def add_choices(world: World, place: Path, task: str) -> Path:
    """A folder with a test set of three questions, their answers texts or not."""
    folder = add_test_set(shutil.copytree(world.data / "WNLI-bin", place / f"{task}-bin"), "test", ASKED)
    return write_questions(folder, "test", QUESTIONS, [0.0] * len(ASKED) if task == "ReCoRD" else [])


def add_run(results: Path, task: str, data: Path, checkpoint: Path, **more) -> None:
    run = made.run("m-idpg-phm", task, position=0, data=str(data), **more)
    path = made.write(results, [run]) / "runs" / run["run"] / "checkpoint_best.pt"
    path.parent.mkdir(parents=True)
    shutil.copy(checkpoint, path)


def test_choices(world, tmp_path):
    """COPA by the vote of three seeds, ReCoRD by one."""
    results = tmp_path / "results"
    models = [world.results / "runs" / run / "checkpoint_best.pt" for run in world.runs("WNLI")]
    chosen = {"COPA": [], "ReCoRD": []}
    for task, seeds in (("COPA", models), ("ReCoRD", models[:1])):
        folder = add_choices(world, tmp_path / "data", task)
        for seed, model in enumerate(seeds):
            add_run(results, task, folder, model, seed=seed)
            found = predict_split(*load_on_folder(str(model), str(folder), True), "test")
            one = found.label_names.index("1")
            margins = found.outputs[:, one] - found.outputs[:, 1 - one]
            chosen[task].append([int(np.argmax(margins[start:end])) for start, end in PLACES])
    out = tmp_path / "superglue.zip"
    world.submit(out, "--incomplete", results=results, benchmark="superglue")
    with zipfile.ZipFile(out) as archive:
        said = {name: [json.loads(line) for line in archive.read(name).splitlines()] for name in archive.namelist()}
    votes = [most(list(places)) for places in zip(*chosen["COPA"])]
    texts = [f"entity {start + place}" for (start, _), place in zip(PLACES, chosen["ReCoRD"][0])]
    assert said == {
        f"{task}.jsonl": [{"idx": idx, "label": label} for idx, label in zip((6, 31, 4), labels)]
        for task, labels in (("COPA", votes), ("ReCoRD", texts))
    }


def test_what_is_missing_is_named(refused, world, tmp_path):
    line = refused()
    assert "6 of 11 files of glue" in line and "--incomplete" in line and "CoLA.tsv: no finished run of CoLA" in line
    data = shutil.copytree(world.data, tmp_path / "data")
    (data / "WNLI-bin" / "preprocess.json").write_text('{"task": "WSC"}')  # of which there are as many examples
    assert "WNLI.tsv" in refused("--data", data)
    results = shutil.copytree(world.results, tmp_path / "of few")
    gone = results / "runs" / world.runs("WNLI")[1] / "checkpoint_best.pt"
    gone.unlink()
    assert f"WNLI.tsv: {gone} of m-idpg-phm on WNLI, seed 2 is not there" in refused(results=results)


def test_other_examples_questions_or_labels_than_the_benchmarks_are_refused(refused, world, tmp_path, capsys):
    folder = shutil.copytree(world.data / "WNLI-bin", tmp_path / "data" / "RTE-bin")
    model = world.results / "runs" / world.runs("WNLI")[0] / "checkpoint_best.pt"
    add_run(tmp_path / "results", "RTE", folder, model)
    add_test_set(folder, "test", counted(3000))
    assert "answers 0, 1, and RTE takes" in refused("--incomplete", results=tmp_path / "results")
    assert "not in it: CoLA.tsv" in capsys.readouterr().out  # before predictions, which may take hours
    data = shutil.copytree(world.data, tmp_path / "other")
    for numbers in (counted(8), [*counted(8), "21"]):  # fewer, and one twice
        add_test_set(data / "WNLI-bin", "test", numbers)
        assert f"{data / 'WNLI-bin'} split test has " in refused("--incomplete", "--data", data)
    folder = write_questions(add_choices(world, tmp_path / "data", "COPA"), "test", [0, 0, 1, 1, 2, 2])
    add_run(tmp_path / "of copa", "COPA", folder, world.backbone)  # which is not looked at
    assert "takes 3" in refused("--incomplete", results=tmp_path / "of copa", benchmark="superglue")
