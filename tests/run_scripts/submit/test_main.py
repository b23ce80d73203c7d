"""python -m run_scripts.submit: an archive out of trained runs, and one line for everything that is not right."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fairseq_idpg.inference.folder import load_on_folder, predict_split
from run_scripts.submit import rules
from run_scripts.submit.__main__ import main, write_archive
from tests.folders import write_questions
from tests.run_scripts.report import made

from .sets import add_test_set
from .world import SIZES, World, by_hand, made_runs, most, numbers, refused, table, touch_checkpoint


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    return World(tmp_path_factory.mktemp("submit"))


@pytest.fixture(autouse=True)
def small_test_sets(monkeypatch):
    for name, benchmark in rules.BENCHMARKS.items():
        sheets = tuple(replace(sheet, examples=SIZES.get(sheet.file, sheet.examples)) for sheet in benchmark.sheets)
        monkeypatch.setitem(rules.BENCHMARKS, name, replace(benchmark, sheets=sheets))


def test_an_archive(world, tmp_path, capsys):
    world.submit(tmp_path / "out" / "glue.zip", "--incomplete")
    with zipfile.ZipFile(tmp_path / "out" / "glue.zip") as archive:
        assert archive.namelist() == ["STS-B.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "WNLI.tsv", "AX.tsv"]
        found = {name: table(archive, name) for name in archive.namelist()}
    assert {name: [number for number, _ in lines] for name, lines in found.items()} == {
        name: numbers(SIZES[name]) for name in found
    }
    answers = {name: [answer for _, answer in lines] for name, lines in found.items()}
    assert answers["WNLI.tsv"] == [most(said) for said in zip(*by_hand(world, "WNLI", data="WNLI-bin"))]
    mean = np.clip(5 * np.mean(by_hand(world, "STS-B", data="STS-B-bin"), axis=0), 0, 5)
    assert [float(score) for score in answers["STS-B.tsv"]] == pytest.approx(mean.tolist(), abs=1e-5)
    for name, split, data in (("MNLI-m", "test", "MNLI"), ("MNLI-mm", "test1", "MNLI"), ("AX", "test", "AX")):
        assert answers[f"{name}.tsv"] == by_hand(world, "MNLI", split, f"{data}-bin")[0]
    said = capsys.readouterr().out
    assert re.search(r"WNLI.tsv +WNLI +9 +0.001 +1, 2, 3 +80.0\n", said), said
    assert "not in it: CoLA.tsv: no finished run of CoLA" in said and "GLUE's site fails submissions without" in said


def test_the_same_files_make_the_same_bytes(tmp_path):
    for name in ("a.zip", "b.zip"):
        write_archive(tmp_path / name, {"RTE.tsv": "index\tprediction\n", "WNLI.tsv": ""})
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.namelist() == ["RTE.tsv", "WNLI.tsv"] and archive.read("RTE.tsv") == b"index\tprediction\n"
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_an_incomplete_set_is_refused(world, tmp_path, capsys):
    out = tmp_path / "x.zip"
    line = refused(capsys, out, lambda: world.submit(out))
    assert "6 of 11 files of GLUE cannot be made of m-idpg-phm" in line and "(--incomplete leaves them out)" in line
    assert "CoLA.tsv: no finished run of CoLA; SST-2.tsv: no finished run of SST-2" in line


QUESTIONS, ASKED = [0, 0, 1, 1, 1, 2], ["6", "6", "31", "31", "31", "4"]  # of the examples, and their numbers
PLACES = [(0, 2), (2, 5), (5, 6)]  # of each question's examples


def add_choices(world: World, place: Path, task: str) -> Path:
    """A folder with a test set of three questions, their answers texts or not."""
    folder = add_test_set(shutil.copytree(world.data / "WNLI-bin", place / f"{task}-bin"), "test", ASKED)
    return write_questions(folder, "test", QUESTIONS, [0.0] * len(ASKED) if task == "ReCoRD" else [])


@pytest.fixture
def three_questions(monkeypatch):
    """SuperGLUE's test sets, where they are this small."""
    benchmark = rules.BENCHMARKS["superglue"]
    sheets = tuple(replace(sheet, examples=3) for sheet in benchmark.sheets)
    monkeypatch.setitem(rules.BENCHMARKS, "superglue", replace(benchmark, sheets=sheets))


def test_choices(world, three_questions, tmp_path):
    """COPA by the vote of three seeds, ReCoRD by one."""
    results, models = tmp_path / "results", [world.results / "runs" / run for run in made_runs(world, "WNLI")]
    chosen = {"COPA": [], "ReCoRD": []}
    for task, seeds in (("COPA", models), ("ReCoRD", models[:1])):
        folder = add_choices(world, tmp_path / "data", task)
        for seed, model in enumerate(seeds):
            run = made.run("m-idpg-phm", task, seed, position=0, data=str(folder))
            shutil.copytree(model, results / "runs" / run["run"])
            made.write(results, [run])
            found = predict_split(*load_on_folder(str(model / "checkpoint_best.pt"), str(folder), True), "test")
            one = found.label_names.index("1")
            margins = found.outputs[:, one] - found.outputs[:, 1 - one]
            chosen[task].append([int(np.argmax(margins[start:end])) for start, end in PLACES])
    out = tmp_path / "superglue.zip"
    world.submit(out, "--incomplete", results=results, benchmark="superglue")
    with zipfile.ZipFile(out) as archive:
        assert archive.namelist() == ["COPA.jsonl", "ReCoRD.jsonl"]
        said = {name: [json.loads(line) for line in archive.read(name).splitlines()] for name in archive.namelist()}
    votes = [most(list(places)) for places in zip(*chosen["COPA"])]
    assert said["COPA.jsonl"] == [{"idx": idx, "label": place} for idx, place in zip((6, 31, 4), votes)]
    texts = [f"entity {start + place}" for (start, _), place in zip(PLACES, chosen["ReCoRD"][0])]
    assert said["ReCoRD.jsonl"] == [{"idx": idx, "label": text} for idx, text in zip((6, 31, 4), texts)]


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        (None, "COPA-bin has no question/test.tsv, make it with python -m preprocess COPA --raw DIR --out"),
        ([0, 0, 1, 1, 2, 2], "COPA-bin split test has 4 numbers, and COPA.jsonl takes 3 answers"),
        ([0, 0, 0, 0, 0, 1], "COPA-bin split test has 2 questions, and COPA.jsonl takes 3 answers"),
    ],
)
def test_questions_that_are_not_the_benchmarks(numbers, said, world, three_questions, tmp_path, capsys):
    folder, out = add_choices(world, tmp_path / "data", "COPA"), tmp_path / "x.zip"
    run = made.run("m-idpg-phm", "COPA", position=0, data=str(folder))
    results = made.write(tmp_path / "results", [run])
    touch_checkpoint(results, run)
    (folder / "question" / "test.tsv").unlink()
    if numbers is not None:
        write_questions(folder, "test", numbers)
    line = refused(capsys, out, lambda: world.submit(out, "--incomplete", results=results, benchmark="superglue"))
    assert said in line


def test_what_is_missing_of_superglue_is_named(world, tmp_path, capsys):
    run = made.run("m-idpg-phm", "CB", data=str(world.data / "CB-bin"))
    results, out = made.write(tmp_path / "results", [run]), tmp_path / "x.zip"
    touch_checkpoint(results, run)
    line = refused(capsys, out, lambda: world.submit(out, "--incomplete", results=results, benchmark="superglue"))
    assert "10 of 10 files of SuperGLUE cannot be made" in line
    assert "COPA.jsonl: no finished run of COPA" in line and "AX-g.jsonl: no finished run of RTE" in line
    assert "CB-bin does not exist, make it with python -m preprocess CB --raw DIR --out" in line


LACKS = {
    "AX-bin": ("AX.tsv: ", "does not exist, make it with python -m preprocess AX --raw DIR --out"),
    "MNLI-bin/number/test1.txt": ("MNLI-mm.tsv: ", "MNLI-bin has no number/test1.txt, make it with python -m prep"),
    "WNLI-bin/input0/test.idx": ("WNLI.tsv: ", "WNLI-bin has no split test, make it with python -m preprocess WNLI"),
}


@pytest.mark.parametrize("part", LACKS)
def test_what_is_missing_of_the_data_is_named(part, world, tmp_path, capsys):
    data, out = shutil.copytree(world.data, tmp_path / "data"), tmp_path / "x.zip"
    (shutil.rmtree if (data / part).is_dir() else Path.unlink)(data / part)
    line = refused(capsys, out, lambda: world.submit(out, "--data", data))
    assert "7 of 11" in line and all(words in line for words in LACKS[part]) and str(data) in line


def test_a_folder_of_another_task_is_refused(world, tmp_path, capsys):
    """Of WSC there are as many examples as of WNLI."""
    data, out = shutil.copytree(world.data, tmp_path / "data"), tmp_path / "x.zip"
    for name in ("wnli", "WSC"):
        (data / "WNLI-bin" / "preprocess.json").write_text(json.dumps({"task": name}))
        line = refused(capsys, out, lambda: world.submit(out, "--data", data))
        assert ("WNLI.tsv" in line) == (name == "WSC")


WRONG = {
    "0\n3\n6\n9\n12\n15\n18\n21\n": "split test has 8 numbers, 8 different numbers, and WNLI.tsv takes 9 answers",
    "0\n3\n6\n9\n12\n15\n18\n21\n21\n": "split test has 8 different numbers, and WNLI.tsv takes 9 answers",
    "".join(f"{number} 1 1\n" for number in range(9)): "split test has numbers of another kind, and WNLI.tsv takes 9",
    "a\n": "number/test.txt is damaged, or holds something else than numbers",
}


@pytest.mark.parametrize("text", WRONG)
def test_other_examples_than_the_benchmarks_are_refused(text, world, tmp_path, capsys):
    data, out = shutil.copytree(world.data, tmp_path / "data"), tmp_path / "x.zip"
    (data / "WNLI-bin" / "number" / "test.txt").write_text(text)
    assert WRONG[text] in refused(capsys, out, lambda: world.submit(out, "--incomplete", "--data", data))


def test_a_test_set_that_lost_lines_is_refused(world, tmp_path, capsys):
    data, out = shutil.copytree(world.data, tmp_path / "data"), tmp_path / "x.zip"
    add_test_set(data / "WNLI-bin", "test", numbers(8))
    line = refused(capsys, out, lambda: world.submit(out, "--incomplete", "--data", data))
    assert "WNLI-bin split test has 8 numbers, 8 examples, 8 different numbers, and WNLI.tsv takes 9 answers" in line
    assert "preprocess the benchmark's own test file, with --strict" in line


def test_a_seed_without_its_checkpoint_is_refused(world, tmp_path, capsys):
    results, out = world.copy(tmp_path), tmp_path / "x.zip"
    (results / "runs" / made_runs(world, "WNLI")[1] / "checkpoint_best.pt").unlink()
    line = refused(capsys, out, lambda: world.submit(out, "--incomplete", results=results))
    assert "checkpoint_best.pt of m-idpg-phm on WNLI, lr 0.001, seed 2 is not there: sweep again" in line


def test_labels_of_other_data_are_refused(world, tmp_path, capsys):
    data, out = tmp_path / "data", tmp_path / "x.zip"
    shutil.copytree(world.data / "WNLI-bin", data / "RTE-bin")
    runs = [made.run("m-idpg-phm", "RTE", position=0, data=str(data / "RTE-bin"))]
    results = made.write(tmp_path / "results", runs)
    shutil.copytree(world.results / "runs" / made_runs(world, "WNLI")[0], results / "runs" / runs[0]["run"])
    add_test_set(data / "RTE-bin", "test", numbers(3000))
    line = refused(capsys, out, lambda: world.submit(out, "--incomplete", results=results))
    assert "checkpoint_best.pt answers 0, 1, and RTE takes entailment, not_entailment: submit runs on the data" in line


def test_the_row(world, tmp_path, capsys):
    out = tmp_path / "x.zip"

    def call(*options):
        return lambda: main(["glue", "--runs", str(world.results), "--out", str(out), "--cpu", *options])

    assert "holds the rows m-idpg-phm, prompt-tuning: give the one to submit" in refused(capsys, out, call())
    assert "--row m-idpg-ph: did you mean m-idpg-phm?" in refused(capsys, out, call("--row", "m-idpg-ph"))


def test_runs_of_other_tasks_are_no_submission(tmp_path, capsys):
    results, out = made.write(tmp_path / "results", [made.run("m-idpg-phm", "CR")]), tmp_path / "x.zip"
    line = refused(capsys, out, lambda: main(["glue", "--runs", str(results), "--out", str(out)]))
    assert "holds no finished full run of a task of GLUE: run some of CoLA, SST-2" in line


def test_runs_of_two_selections_are_not_mixed(world, tmp_path, capsys):
    results, out = world.copy(tmp_path), tmp_path / "x.zip"
    made.write(results, [made.run("m-idpg-phm", "WNLI", position=0, selection="paper")])
    line = refused(capsys, out, lambda: world.submit(out, "--incomplete", results=results))
    assert "has runs with more than one selection: clean, paper; give --selection" in line


def test_a_backbone_that_has_moved(world, tmp_path, capsys):
    out, moved = tmp_path / "x.zip", tmp_path / "moved.pt"
    hidden = world.backbone.rename(tmp_path / "hidden.pt")
    try:
        line = refused(capsys, out, lambda: world.submit(out, "--incomplete"))
        assert f"--backbone {world.backbone} is not a file" in line
        shutil.copy(hidden, moved)
        world.submit(out, "--incomplete", "--backbone-file", moved)
    finally:
        hidden.rename(world.backbone)
    with zipfile.ZipFile(out) as archive:
        assert [answer for _, answer in table(archive, "WNLI.tsv")] == [
            most(said) for said in zip(*by_hand(world, "WNLI", data="WNLI-bin"))
        ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "x.tsv"], "--out x.tsv: name a file that ends with .zip"),
        (["--batch-size", "0"], "--batch-size 0 is no size: give 1 or more"),
        (["--position", "0", "1", "4"], "--position 0 1 4: give one position, or one for singles and pairs"),
    ],
)
def test_bad_options(options, message, world, tmp_path, capsys):
    assert message in refused(capsys, tmp_path / "x.zip", lambda: world.submit(tmp_path / "x.zip", *options))


def test_a_run_that_does_not_know_its_data(world, tmp_path, capsys):
    results, out = tmp_path / "results", tmp_path / "x.zip"
    run = made.run("m-idpg-phm", "WNLI")
    touch_checkpoint(made.write(results, [run]), run)
    line = refused(capsys, out, lambda: world.submit(out, results=results))
    assert f"run {run['run']} does not say where its data was: give --data" in line
