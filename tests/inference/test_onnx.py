"""An ONNX file answers as its checkpoint does, on sentences and on folders; --int8 makes one."""

import shutil

import numpy as np
import pytest

from fairseq_idpg import load
from fairseq_idpg.errors import InputError
from fairseq_idpg.export import export
from fairseq_idpg.export import main as export_command
from fairseq_idpg.inference.hub import IDPGHubInterface
from fairseq_idpg.predict import main as predict
from tests.inference.conftest import REGRESSION, WORDS, inputs
from tests.inference.saved import write_checkpoint

for package in ("onnx", "onnxruntime", "onnxscript"):
    pytest.importorskip(package)

CASES = {  # texts and options
    "the task's prompt behind the end": ("singles", ["--method", "p-tuning-v2", "--prompt-position", 4]),
    "M(x) before B": ("pairs", ["--method", "s-idpg-phm", "--phm-n", 4, "--prompt-position", 2]),
    "the layer below, scores": ("scores", ["--method", "m-idpg-dnn", "--prompt-position", 1, *REGRESSION]),
    "keys and values": ("pairs", ["--method", "p-tuning-v2-kv"]),
    "late, with words": ("pairs", ["--method", "prompt-tuning+adapter", "--prompt-insertion", "late"]),
    "merged": ("singles", ["--method", "lora-all"]),
    "the whole backbone": ("singles", ["--method", "fine-tuning"]),
    "words": ("pairs", ["--method", "dept", "--prompt-length", 3, "--words-length", 6, "--prompt-position", 3]),
}


def numbers(predictions) -> np.ndarray:
    return np.array([list((found.probabilities or {"": found.score}).values()) for found in predictions])


@pytest.mark.parametrize("case", CASES)
def test_says_the_same(case, place, folders, tmp_path):
    kind, options = CASES[case]
    path = write_checkpoint(tmp_path / "x.pt", folders[kind], place / "backbone" / "model.pt", *options)
    export(str(path), str(tmp_path / "made"), onnx=True)
    own, file = (load(each, device="cpu") for each in (path, tmp_path / "made" / "model.onnx"))
    expected = numbers(own.predict(inputs(kind)))
    assert np.ptp(expected[:, 0]) > 1e-3  # inputs matter
    assert numbers(file.predict(inputs(kind), 3)) == pytest.approx(expected, abs=1e-4)
    assert numbers(file.predict(inputs(kind), 1)) == pytest.approx(expected, abs=1e-4)


def lines(*words: object) -> list[list[str]]:
    out = words[-1]
    predict([*map(str, words[:-1]), "--out", str(out), "--cpu"])
    return [line.split("\t") for line in out.read_text().splitlines()]


@pytest.fixture(scope="module")
def made(idpg, tmp_path_factory):
    """Of pairs, with its own encoder and without places of this machine."""
    folder = tmp_path_factory.mktemp("onnx") / "made"
    export_command([str(idpg("pairs")), str(folder), "--onnx", "--no-paths"])
    return folder


def test_takes_the_place_of_its_checkpoint(idpg, folders, made, tmp_path):
    """With texts that are cut, on a folder, and among other tasks; features are refused, also by the hub."""
    long, own = (" ".join(WORDS * 30), "red cat"), idpg("pairs")
    models = [load(each, device="cpu", truncate=True) for each in (own, made)]
    answers = [model.predict([long, *inputs("pairs")]) for model in models]
    assert [answer.cut for answer in answers[0]] == [answer.cut for answer in answers[1]] == [True, *[False] * 16]
    assert numbers(answers[1]) == pytest.approx(numbers(answers[0]), abs=1e-4)
    tables = [lines(folders["pairs"], "--split", "valid", "--path", each, tmp_path / "o.tsv") for each in (own, made)]
    assert [row[0] for row in tables[0]] == [row[0] for row in tables[1]]
    values = [np.array([row[1:] for row in table], float) for table in tables]
    assert values[0] == pytest.approx(values[1], abs=1e-4)
    for row in load({"file": made, "own": own, "other": own}, device="cpu").predict(inputs("pairs")):
        assert row["file"].label == row["own"].label == row["other"].label
    hub = IDPGHubInterface(models[1])
    for ask in (
        lambda: models[1].predict([long], features=True),
        lambda: hub.extract_features(hub.encode("red", "cat")),
    ):
        with pytest.raises(InputError, match="features"):
            ask()


def test_int8(place, folders, tmp_path):
    """One file is made for a checkpoint, on sentences as on folders, and another once the checkpoint has changed."""

    def write(seed: int):
        options = [folders["pairs"], place / "backbone" / "model.pt", "--method", "lora-all"]
        path = write_checkpoint(tmp_path / "x.pt", *options, seed=seed)
        return path, numbers(load(path, device="cpu").predict(inputs("pairs")))

    path, exact = write(0)
    rounded = numbers(load(path, device="cpu", int8=True).predict(inputs("pairs"), 16))
    assert 0 < np.abs(rounded - exact).max() < 0.1
    file = tmp_path / "x.pt.int8" / "model.onnx"
    first = file.stat()
    rows = lines(folders["pairs"], "--int8", "--split", "valid", "--path", path, tmp_path / "o.tsv")
    assert np.array([row[1:] for row in rows], float) == pytest.approx(rounded, abs=1e-5)
    assert file.stat().st_ino == first.st_ino
    _, other = write(1)
    assert np.abs(numbers(load(path, device="cpu", int8=True).predict(inputs("pairs"))) - other).max() < 0.1
    assert file.stat().st_ino != first.st_ino


def test_what_is_refused(place, folders, made, vectors, tmp_path):
    """Methods by their names; a file that is not the one that was exported."""
    for method in ("lpt-mppg", "m-idpg-phm-glove"):
        size = ["--phm-n", 4, "--generator-hidden-size", 8] if "glove" in method else []
        options = [folders["pairs"], place / "backbone" / "model.pt", "--method", method, *size]
        path = write_checkpoint(tmp_path / "x.pt", *options)
        with pytest.raises(InputError, match=f"--method {method}"):
            export(str(path), str(tmp_path / "none"), onnx=True)
    assert not (tmp_path / "none").exists()
    changed = shutil.copytree(made, tmp_path / "changed") / "model.onnx"
    changed.write_bytes(changed.read_bytes() + b"\0")
    with pytest.raises(InputError, match="model.onnx"):
        load(changed, device="cpu")
