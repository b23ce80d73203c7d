"""benchmarks/predict_speed.py through its command line, on what a tiny quick start would leave."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from statistics import mean

import pytest
import torch
from predict_served import Server
from predict_speed import main

from checkpoints.convert_hf import convert
from fairseq_idpg import load
from fairseq_idpg.inference.int8 import multiplies_exactly
from preprocess.errors import InputError
from tests.checkpoints import hf_folders
from tests.folders import ROOT
from tests.helpers import TINY
from tests.inference.saved import write_checkpoint
from tests.preprocess.commands import run as preprocess

METHODS = {"head-only": 0, "m-idpg-dnn": 3, "prompt-tuning": 3}  # and their prompt lengths
FEW = ["--sentences", 6, "--singles", 2, "--tasks", 2, "--batch-size", 4, "--rounds", 1, "--connections", 3]
ALL = [*METHODS, *(f"{name}, int8" for name in METHODS if multiplies_exactly())]


def write_reviews(folder: Path) -> None:
    """A split of each name; in all the label is chance."""
    draw = random.Random(0)
    folder.mkdir()
    for split in ("train", "valid", "test"):
        texts = (" ".join(draw.choices("the a cat dog in then rain".split(), k=draw.randint(1, 9))) for _ in range(10))
        (folder / f"{split}.tsv").write_text("".join(f"{draw.randrange(2)}\t{text}\n" for text in texts))


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quickstart")
    source, reviews = folder / "minilm-hf", folder / "reviews"
    sizes = {"hidden_size": TINY["encoder_embed_dim"], "intermediate_size": TINY["encoder_ffn_embed_dim"]}
    sizes.update(num_hidden_layers=TINY["encoder_layers"], max_position_embeddings=TINY["max_positions"])
    hf_folders.build(source, "bert", kind="Model", **sizes)
    convert(source, folder / "backbone")
    write_reviews(reviews)
    files = [f"{split}={reviews / split}.tsv" for split in ("train", "valid", "test")]
    columns = ["--no-header", "--text-columns", "2", "--label-column", "1", "--labels", "0", "1"]
    encoder = ["--bpe", "bert", "--vocab", str(source), "--out", str(folder)]
    assert preprocess(["reviews", "--from-tsv", *files, *columns, *encoder]) == 0
    for name, length in METHODS.items():
        options = ["--method", name, "--layer-norm-eps", 1e-12, *(["--prompt-length", length] if length else [])]
        path = folder / "runs" / name / "checkpoint_best.pt"
        write_checkpoint(path, folder / "reviews-bin", folder / "backbone" / "model.pt", *options)
    return folder


def predict_speed(folder: Path, *arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "benchmarks" / "predict_speed.py"), str(folder), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.fixture
def in_process(monkeypatch):
    """Runs the script in this process, whose imports are done, and whose threads of torch stay as they are."""

    def run(folder: Path, *arguments: object) -> None:
        threads = ("--threads", torch.get_num_threads())
        monkeypatch.setattr(sys, "argv", ["predict_speed.py", *map(str, (folder, *arguments, *threads))])
        main()

    return run


def row(lines: list[str], title: str, name: str) -> list[str]:
    """The figures of a case in the block of that title."""
    at = next(number for number, line in enumerate(lines) if line.startswith(title))
    return next(line for line in lines[at:] if line.startswith(f"{name}  ")).removeprefix(name).split()


def test_cases_ratios_and_targets(quickstart, tmp_path):
    done = predict_speed(quickstart, *FEW, "--clock", "cpu", "--json", tmp_path / "figures.json", "--no-served")
    assert done.returncode == 0, done.stderr
    lines, figures = done.stdout.splitlines(), json.loads((tmp_path / "figures.json").read_text())
    blocks = figures["blocks"]
    assert list(blocks) == ["6 sentences, 4 at a time", "2 sentences, one by one", "4 sentences, 2 tasks"]
    peers = [["pipeline", "pipeline, sorted"], ["pipeline"], ["pipeline"]]
    for (title, cases), first, answers in zip(blocks.items(), peers, (6, 2, 8)):
        assert [case["name"] for case in cases] == [*first, *ALL]
        seconds = {case["name"]: case["rounds"][0] for case in cases}
        for case in cases:
            assert case["answers"] == answers and len(case["rounds"]) == 1
            speed, *shares = row(lines, title, case["name"])
            assert speed == f"{answers / seconds[case['name']]:.1f}"
            assert shares[: len(first)] == [f"{seconds[peer] / seconds[case['name']]:.2f}" for peer in first]

    test = [line.split("\t") for line in (quickstart / "reviews" / "test.tsv").read_text().splitlines()]
    assert figures["tokens"] == pytest.approx(mean(len(text.split()) + 2 for _, text in test[:6]))  # <s> and </s>
    for name, length in METHODS.items():
        found = load(quickstart / "runs" / name / "checkpoint_best.pt").predict([text for _, text in test])
        correct = mean(own.label == label for own, (label, _) in zip(found, test))
        assert row(lines, "6 sentences", name)[-1] == f"{correct:.1%}"
        least = figures["tokens"] / (figures["tokens"] * (2 if "idpg" in name else 1) + length)
        start = f"2 sentences, one by one: {name} >= {least:.2f} x pipeline "
        assert len([line for line in lines if line.startswith(start)]) == 1, start


def test_served(quickstart, tmp_path, in_process):
    for name in ("minilm-hf", "reviews", "runs/head-only"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(quickstart / name)
    in_process(tmp_path, *FEW, "--clock", "cpu", "--json", tmp_path / "figures.json")
    cases = json.loads((tmp_path / "figures.json").read_text())["blocks"]["6 sentences, served"]
    assert [case["name"] for case in cases] == ["pipeline", *(name for name in ALL if name.startswith("head-only"))]
    assert all(case["answers"] == 6 and case["rounds"][0] > 0 for case in cases)


def test_a_server_answers_in_order_or_says_why_it_cannot(quickstart, tmp_path):
    path, texts = quickstart / "runs" / "head-only" / "checkpoint_best.pt", ["the cat", "a dog", "rain in the rain"]
    servers = [Server(path, 1, tmp_path / "log"), Server(tmp_path / "no.pt", 1, tmp_path / "log of no")]
    try:
        servers[0].wait()
        found = [prediction["sentence"] for prediction in servers[0].ask(texts * 5, connections=4)]
        assert found == texts * 5
        assert servers[0].cpu_seconds() > 0.5  # torch was imported
        with pytest.raises(InputError, match="the server has ended: .*no.pt is not a file: .*or give --no-served"):
            servers[1].wait()
    finally:
        for server in servers:
            server.stop()


def test_what_cannot_be_compared_is_refused(quickstart, tmp_path, in_process):
    for name in ("minilm-hf", "reviews"):
        (tmp_path / name).symlink_to(quickstart / name)
    with pytest.raises(
        SystemExit, match="^error: .*head-only/checkpoint_best.pt is missing: run the quick start, --out"
    ):
        in_process(tmp_path, *FEW)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "head-only").symlink_to(quickstart / "runs" / "prompt-tuning")
    with pytest.raises(
        SystemExit, match="^error: probabilities of head-only and pipeline differ by .*: give the folder"
    ):
        in_process(tmp_path, *FEW)
