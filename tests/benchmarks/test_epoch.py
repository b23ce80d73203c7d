"""benchmarks/epoch.py on tiny folders: what it runs, counts and writes, not how fast that is.

Its commands are real but forked (forked.py); that they are started and read rightly is in test_epoch_process.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import epoch
import epoch_folder
import epoch_process
import pytest
import torch
from epoch_process import Output

from fairseq_idpg.count import method_of, own_parameters
from tests.benchmarks.forked import forked_output_lines
from tests.folders import ROOT, SIZE, write_backbone, write_folder
from tests.helpers import model_args

VARIANTS = ("m-idpg-phm-cache-cold", "m-idpg-phm-cache-warm", "m-idpg-phm-grouped", "prompt-tuning-grouped")
CHECKPOINTS = ("m-idpg-phm-no-optimizer-state", "m-idpg-phm-full-model")
TEST = 13  # examples


@pytest.fixture(scope="module")
def forked():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(epoch_process, "output_lines", forked_output_lines)
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("epoch")
    scores = write_folder(folder / "scores-bin", regression=True, splits={"train": 20, "valid": 3})
    return {
        "single": write_folder(folder / "single-bin", pairs=False, splits={"train": 44, "valid": 5, "test": TEST}),
        "scores": scores,
        "untrained": write_folder(folder / "untrained-bin", splits={"valid": 5}),
        "backbone": write_backbone(folder / "model.pt", max_positions=512),
    }


def arguments(files: dict[str, Path], *data: str) -> list[str]:
    usual = ["--backbone", files["backbone"], "--arch", "roberta_idpg", "--cpu", "--rounds", 1, "--updates", 2]
    return [str(word) for word in (*(files[name] for name in data), *usual)]


def leftovers(temporary: Path) -> list[Path]:
    """What the script left; multiprocessing keeps a folder of its own there."""
    return [path for path in temporary.iterdir() if not path.name.startswith("pymp-")]


@pytest.fixture(scope="module")
def measured(files, forked, tmp_path_factory):
    """(figures, what was printed) of two methods with all that is measured of them."""
    file, temporary = tmp_path_factory.mktemp("figures") / "figures.json", tmp_path_factory.mktemp("temporary")
    words = [*arguments(files, "single"), "--methods", "m-idpg-phm", "prompt-tuning", "--json", str(file)]
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryFile("w+") as printed:
        patch.setattr(tempfile, "tempdir", str(temporary))
        patch.setattr(sys, "stdout", printed)
        epoch.main([*words, "--options", *SIZE])
        printed.seek(0)
        text = printed.read()
    assert leftovers(temporary) == []
    return json.loads(file.read_text(encoding="utf-8")), text


def test_every_part_has_its_cases(measured):
    figures, _ = measured
    methods = {"m-idpg-phm", "prompt-tuning"}
    assert set(figures) == {"epoch", "padding", "prediction", "checkpoint"}
    assert set(figures["epoch"]) == {*methods, *VARIANTS}
    assert set(figures["padding"]) == methods
    tools = {f"{method}-{tool}" for method in methods for tool in ("predict", "validate")}
    assert set(figures["prediction"]) == {*tools, "m-idpg-phm-predict-cached"}
    assert set(figures["checkpoint"]) == {*methods, *CHECKPOINTS}


@pytest.mark.parametrize("case", ["m-idpg-phm", "prompt-tuning", *VARIANTS])
def test_an_epoch_is_its_updates(measured, case):
    found = measured[0]["epoch"][case]
    assert (found["updates"], found["updates_per_epoch"], found["examples"]) == (2, 3, 44)
    seconds = found["fill_s"] + found["first_update_s"] + 2 * found["update_s"]
    assert found["epoch_s"] == pytest.approx(seconds)
    assert found["examples_per_s"] == pytest.approx(44 / found["epoch_s"])
    assert found["process_epoch_s"] == pytest.approx(found["process_s"] + found["update_s"])
    assert 0 < found["epoch_s"] < found["process_epoch_s"]
    assert found["train_wall_s"] == pytest.approx(found["first_update_s"] + found["update_s"], abs=1)


def test_only_a_warm_cache_is_filled_before_the_run(measured):
    cases = measured[0]["epoch"]
    assert {name for name, found in cases.items() if "filled_beforehand_s" in found} == {"m-idpg-phm-cache-warm"}
    assert cases["m-idpg-phm-cache-warm"]["filled_beforehand_s"] > 0
    assert cases["m-idpg-phm-cache-cold"]["fill_s"] > 0  # train() has looked into the logs of both


def test_grouping_saves_padding(measured):
    padding, cases = measured[0]["padding"], measured[0]["epoch"]
    assert {f"{method}-grouped" for method in padding} == {name for name in VARIANTS if name.endswith("-grouped")}
    for method, found in padding.items():
        assert 0 <= found["padding_grouped"] < found["padding"] < 1
        assert found["padding_grouped"] == cases[f"{method}-grouped"]["padding"]
        ratio = cases[f"{method}-grouped"]["update_s"] / cases[method]["update_s"]
        assert found["ratio"] == pytest.approx(ratio)


def test_throughput_is_examples_by_seconds(measured):
    for name, found in measured[0]["prediction"].items():
        assert name.startswith(f"{found['method']}-{found['tool']}")
        assert (found["split"], found["examples"]) == ("test", TEST)
        assert 0 < found["seconds"] < found["process_s"]
        assert found["examples_per_s"] == pytest.approx(TEST / found["seconds"])
        assert found["process_examples_per_s"] == pytest.approx(TEST / found["process_s"])


def test_checkpoints_hold_what_they_should(measured, files):
    found = {name: case["bytes"] for name, case in measured[0]["checkpoint"].items()}
    tensors = torch.load(files["backbone"], weights_only=True)["model"]
    encoder = sum(tensor.numel() for name, tensor in tensors.items() if "sentence_encoder" in name)
    number = 4  # bytes
    assert found["m-idpg-phm-full-model"] - found["m-idpg-phm"] >= number * encoder
    state = found["m-idpg-phm"] - found["m-idpg-phm-no-optimizer-state"]
    method = method_of(model_args(method="m-idpg-phm"))
    assert state >= 2 * number * own_parameters(method)  # Adam's two moments
    assert found["prompt-tuning"] < found["m-idpg-phm-no-optimizer-state"]
    assert all(case["write_s"] > 0 for case in measured[0]["checkpoint"].values())


def test_tables_show_the_figures(measured):
    figures, printed = measured
    rows = {}
    for block, part in zip(printed.split("\n\n")[-4:], figures):
        rows[part] = {line.split()[0]: line.split()[1:] for line in block.splitlines()}
        assert set(figures[part]) <= set(rows[part])
    own, theirs = (figures["epoch"][name]["epoch_s"] for name in ("m-idpg-phm", "prompt-tuning"))
    assert rows["epoch"]["m-idpg-phm"][2] == f"{own / theirs:.2f}"
    assert rows["padding"]["m-idpg-phm"][-1] == f"{figures['padding']['m-idpg-phm']['ratio']:.2f}"
    own, theirs = (figures["prediction"][f"{name}-validate"] for name in ("m-idpg-phm", "prompt-tuning"))
    assert rows["prediction"]["m-idpg-phm-validate"][1] == f"{own['seconds'] / theirs['seconds']:.2f}"
    assert rows["prediction"]["m-idpg-phm-validate"][2] == f"{own['examples_per_s']:.1f}"
    assert rows["checkpoint"]["m-idpg-phm"][0] == f"{figures['checkpoint']['m-idpg-phm']['bytes']:,}"
    assert rows["checkpoint"]["prompt-tuning"][1] == "1.00"


def test_two_folders_and_whole_epochs(files, forked, tmp_path, capsys):
    file = tmp_path / "figures.json"
    more = ["--whole-epochs", "--methods", "head-only", "--json", str(file), "--options", *SIZE]
    epoch.main([*arguments(files, "single", "scores"), *more])
    figures = json.loads(file.read_text(encoding="utf-8"))
    assert figures["prediction"] == figures["padding"] == {}
    assert {name: case["examples"] for name, case in figures["epoch"].items()} == {
        "single-bin/head-only": 44,
        "scores-bin/head-only": 20,
    }
    for found in figures["epoch"].values():
        assert found["updates"] == found["updates_per_epoch"]
        assert found["process_epoch_s"] == found["process_s"]
    assert "extrapolated" not in capsys.readouterr().out


def test_rounds_are_taken_in_turns_and_their_medians_reported(tmp_path, monkeypatch):
    order, seconds = [], iter([3.0, 1.0, 8.0])

    def trained(case, *_):
        order.append(case.name)
        return Output([], 1.0)

    def figures(*_):
        sizes = {"bytes": 5, "write_s": 0.1, "updates": 2, "examples": 10}
        return {**sizes, "epoch_s": next(seconds) if order[-1] == "adapter" else 2.0}

    monkeypatch.setattr(epoch_folder, "train", trained)
    monkeypatch.setattr(epoch_folder, "training_figures", figures)
    folder = epoch_folder.Folder(
        SimpleNamespace(path=Path("x-bin")), "test", ["adapter", "compacter"], None, tmp_path / "x"
    )
    epoch_folder.measure([folder], rounds=3)
    assert order == ["adapter", "compacter", "compacter", "adapter", "adapter", "compacter"]
    found = folder.parts()["epoch"]["adapter"]
    assert found["epoch_s"] == 3.0
    assert found["rounds_epoch_s"] == [3.0, 1.0, 8.0]
    assert found["examples_per_s"] == pytest.approx(10 / 3)
    assert (found["updates"], found["method"]) == (2, "adapter")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--methods", "prompt-tunning"], "fairseq_idpg: --method prompt-tunning is unknown: did you mean prompt-"),
        (
            ["--methods", "head-only", "--options", *SIZE, "--encoder-layers=2"],
            "head-only on {single} failed: fairseq_idpg: --encoder-layers is 2 but the backbone",
        ),
    ],
)
def test_a_process_that_fails_ends_it_in_one_line(files, forked, tmp_path, monkeypatch, more, message):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        epoch.main([*arguments(files, "single"), "--json", str(tmp_path / "figures.json"), *more])
    assert str(ended.value).startswith(f"error: {message.format(**files)}")
    assert "\n" not in str(ended.value)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("data", "more", "message"),
    [
        ("untrained", [], "{untrained} has no split train with labels (it has valid): preprocess it"),
        ("backbone", [], "{backbone} is not a binarized folder"),
        (
            "single",
            ["--backbone", "nowhere.pt"],
            "--backbone nowhere.pt is not a file: give a fairseq RoBERTa model.pt",
        ),
        ("scores", ["--split", "test"], "{scores} has no split test with labels (it has train, valid)"),
        ("single", ["--updates", "1"], "--updates 1 is too small: give 2 or more"),
        ("single", ["--json", "/nowhere/figures.json"], "--json /nowhere/figures.json: its folder does not exist"),
    ],
)
def test_bad_input_is_one_line(files, tmp_path, data, more, message):
    command = [sys.executable, str(ROOT / "benchmarks" / "epoch.py"), *arguments(files, data), *more]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {message.format(**files)}")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
