"""A folder to share predicts as its checkpoint does, to the bit; whatever is wrong with one is said in a line."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from fairseq_idpg import load
from fairseq_idpg.errors import InputError
from fairseq_idpg.export import export, main
from fairseq_idpg.predict import main as predict
from fairseq_idpg.saving import shared
from fairseq_idpg.saving.reading import load_state, read_file
from tests.folders import validate
from tests.inference.conftest import KINDS, LABELS
from tests.inference.saved import source_options, write_checkpoint
from tests.inference.test_methods import CASES, SHORT
from tests.inference.test_predictor import inputs

TRAIN_ALL = ("fine-tuning", "efl")


def answers(path, kind: str, **options) -> list[dict]:
    return [found.plain() for found in load(path, device="cpu", **options).predict(inputs(kind))]


@pytest.fixture(scope="module")
def made(idpg, tmp_path_factory):
    """A folder to share, of pairs."""
    folder = tmp_path_factory.mktemp("made") / "my prompt"
    export(str(idpg("pairs")), str(folder))
    return folder


@pytest.fixture
def copy(made, tmp_path):
    return shutil.copytree(made, tmp_path / "copy")


def config_of(folder) -> dict:
    return json.loads((folder / "config.json").read_text())


def same_but_for(folder, change) -> None:
    """Changes what ``config.json`` says as a stranger would, who writes a checksum that fits."""
    config = config_of(folder)
    change(config)
    config["checksum"] = shared._checksum(config, load_file(folder / "prompt.safetensors"))
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("kind", KINDS)
def test_predicts_as_its_checkpoint(kind, idpg, tmp_path):
    checkpoint = idpg(kind)
    export(str(checkpoint), str(tmp_path / "shared"))
    assert answers(tmp_path / "shared", kind) == answers(checkpoint, kind)


def test_fairseq_validates_it(idpg, made, folders):
    found, expected = (validate(folders["pairs"], path) for path in (made, idpg("pairs")))
    for name in ("valid_loss", "valid_accuracy"):
        assert found.log(name) == expected.log(name) != []


@pytest.mark.parametrize("case", [case for case in CASES if case not in TRAIN_ALL])
def test_every_method(case, place, folders, vectors, tmp_path):
    without = "--phm-n --separator-token" if case == "one separator" else "--phm-n"
    backbone, checkpoint = place / "backbone" / "model.pt", tmp_path / "x.pt"
    more = source_options(case, tmp_path, folders["pairs"], backbone, *SHORT)
    write_checkpoint(checkpoint, folders["pairs"], backbone, *CASES[case], *more, without=without)
    for source in tmp_path.glob("source*.pt"):
        source.unlink()
    export(str(checkpoint), str(tmp_path / "shared"))
    words = {"vectors": vectors} if "glove" in case else {}
    assert answers(tmp_path / "shared", "pairs", **words) == answers(checkpoint, "pairs", **words)
    tensors = load_file(tmp_path / "shared" / "prompt.safetensors")
    assert not any("reparameterization" in name for name in tensors)
    ours = {name for name in torch.load(checkpoint, weights_only=True)["model"] if name.startswith("encoder.")}
    assert {name for name in tensors if name.startswith("encoder.")} == ours


@pytest.mark.parametrize("more", [[], ["--save-full-model"]])
def test_what_is_frozen_stays_out(more, place, folders, tmp_path):
    options = ["--method", "bitfit", *more]
    path = write_checkpoint(tmp_path / "x.pt", folders["pairs"], place / "backbone" / "model.pt", *options)
    export(str(path), str(tmp_path / "shared"))
    names = [name for name in load_file(tmp_path / "shared" / "prompt.safetensors") if name.startswith("encoder.")]
    assert names and all(name.endswith("bias") for name in names)
    assert answers(tmp_path / "shared", "pairs") == answers(path, "pairs")


def test_at_the_command_line(made, idpg, folders, tmp_path, capsys):
    found = []
    for path in (made, idpg("pairs")):
        out = tmp_path / "out.tsv"
        predict([str(folders["pairs"]), "--path", str(path), "--split", "valid", "--out", str(out), "--cpu"])
        found.append(out.read_text())
    assert found[0] == found[1] and len(found[0].splitlines()) == 16


def test_small_and_without_code(made, monkeypatch):
    """No more than the tensors and a few kB; reading it unpickles nothing."""
    tensors = load_file(made / "prompt.safetensors")
    numbers = sum(value.numel() * value.element_size() for value in tensors.values())
    assert {file.name for file in made.iterdir()} == {"prompt.safetensors", "config.json", "README.md"}
    assert sum(file.stat().st_size for file in made.iterdir()) < numbers + 20_000
    assert len({file.stat().st_mode for file in made.iterdir()}) == 1  # whoever reads one reads all
    monkeypatch.setattr(torch, "load", None)  # to call them would fail
    monkeypatch.setattr("pickle.Unpickler", None)
    monkeypatch.setattr("pickle.load", None)
    monkeypatch.setattr("pickle.loads", None)
    assert load_state(str(made), "--path")["cfg"].model.method == "m-idpg-phm"


def test_what_it_says(made, idpg, place):
    config, card = config_of(made), (made / "README.md").read_text()
    assert config["method"] == "m-idpg-phm" and config["data"]["labels"] == LABELS
    assert config["backbone"]["name"] == "backbone/model.pt"
    fingerprint = read_file(str(idpg("pairs")), "x")["model"]["backbone_fingerprint"]
    assert config["backbone"]["tensors_sha256"] == bytes(fingerprint.tolist()).hex()
    assert config["run"]["seed"] == 1 and len(config["run"]["data_sha256"]) == 64
    assert config["run"]["scores"]["valid"].keys() == {config["run"]["metric"]}
    lines = [line for line in card.splitlines() if line.startswith(("from fairseq_idpg", "python -m"))]
    assert lines == [
        'from fairseq_idpg import load; print(load("my prompt").predict([("first sentence", "second sentence")]))',
        "python -m fairseq_idpg.predict --path my\\ prompt --text FILE --pairs tab",
    ]
    assert "pairs of sentences" in card and "| valid |" in card


def test_the_two_lines_are_said_and_the_first_runs(idpg, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main([str(idpg("singles")), "shared", "--no-paths"])
    assert str(tmp_path.parent) not in (tmp_path / "shared" / "config.json").read_text()
    size, python, shell = capsys.readouterr().out.splitlines()
    assert size.startswith("shared: ") and shell == "python -m fairseq_idpg.predict --path shared --text FILE"
    assert python == 'from fairseq_idpg import load; print(load("shared").predict(["a sentence"]))'


def test_the_record_of_the_run(idpg, tmp_path):
    record = {"scores": {"test": {"accuracy": 81.25}}, "seed": 7, "metric": "accuracy", "data": "gone", "lr": 0.5}
    (tmp_path / "record.json").write_text(json.dumps(record))
    shutil.copy(idpg("singles"), tmp_path / "checkpoint_best.pt")
    export(str(tmp_path / "checkpoint_best.pt"), str(tmp_path / "shared"))
    run, card = config_of(tmp_path / "shared")["run"], (tmp_path / "shared" / "README.md").read_text()
    assert (run["scores"], run["seed"], run["lr"]) == (record["scores"], 7, 0.5) and "data_sha256" not in run
    assert "| test | accuracy | 81.25 |" in card and "| seed | 7 |" in card
    for damaged in ("{", "[]", '{"scores": {"test": {"accuracy": "x"}}}', '{"scores": {"test": {"f1": NaN}}}'):
        (tmp_path / "record.json").write_text(damaged)
        with pytest.raises(InputError, match="record.json is no record of a run"):
            export(str(tmp_path / "checkpoint_best.pt"), str(tmp_path / "other"))
    assert not (tmp_path / "other").exists()


def test_the_backbone_and_the_encoder_are_found(idpg, place, tmp_path):
    """Where they are said to be, where they were, or beside the folder under their names."""
    expected = answers(idpg("singles"), "singles")
    export(str(idpg("singles")), str(tmp_path / "there" / "shared"), paths=False)
    folder = tmp_path / "there" / "shared"
    with pytest.raises(InputError, match="backbone/model.pt, is not there: say with --backbone"):
        load(folder)
    named = {"backbone": place / "backbone" / "model.pt", "vocab": place / "vocab"}
    assert answers(folder, "singles", **named) == expected
    for name in ("backbone", "vocab"):
        shutil.copytree(place / name, folder.parent / name)
    assert answers(folder, "singles") == expected


def test_another_backbone_is_refused(made, place, tmp_path):
    state = torch.load(place / "backbone" / "model.pt", weights_only=True)
    name = next(name for name in state["model"] if name.endswith("layers.0.fc1.bias"))
    state["model"][name] = state["model"][name] + 1
    shutil.copytree(place / "backbone", tmp_path / "backbone")
    torch.save(state, tmp_path / "backbone" / "model.pt")
    with pytest.raises(InputError, match="is not the backbone this checkpoint was trained on"):
        load(made, backbone=tmp_path / "backbone" / "model.pt", vocab=place / "vocab")


def test_what_cannot_be_shared_is_refused(place, folders, tmp_path):
    backbone = place / "backbone" / "model.pt"
    for options, message in (
        (["--method", "fine-tuning"], "--method fine-tuning trains the whole backbone"),
        (["--method", "lora", "--no-freeze-backbone"], "--method lora with --no-freeze-backbone trains the whole"),
    ):
        tuned = write_checkpoint(tmp_path / "x.pt", folders["pairs"], backbone, *options)
        with pytest.raises(InputError, match=message):
            export(str(tuned), str(tmp_path / "shared"))
    with pytest.raises(InputError, match="is not a checkpoint of this package"):
        export(str(place / "backbone" / "model.pt"), str(tmp_path / "shared"))
    with pytest.raises(InputError, match="nowhere.pt is not a file"):
        export("nowhere.pt", str(tmp_path / "shared"))
    assert not (tmp_path / "shared").exists()


def test_only_folders_to_share_are_replaced(copy, idpg, tmp_path):
    before = config_of(copy)
    with pytest.raises(SystemExit, match="exists already: name another folder, or give --overwrite"):
        main([str(idpg("singles")), str(copy)])
    assert config_of(copy) == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match="is something else than a folder to share"):
        export(str(idpg("singles")), str(tmp_path / "mine"), overwrite=True)
    export(str(idpg("singles")), str(copy), overwrite=True)
    assert config_of(copy)["data"]["pairs"] is False and (tmp_path / "mine" / "thesis.tex").exists()


def at(*keys, value):
    """Sets a value somewhere in ``config.json``."""

    def change(config):
        for key in keys[:-1]:
            config = config[key]
        config[keys[-1]] = value

    return change


HOSTILE = {
    "another format": (at("format", value=2), "is of format 2, and this version reads 1"),
    "a format of another kind": (at("format", value=True), "says no format"),
    "an unknown key": (at("hook", value="os.system"), "has 'hook', which this version does not know"),
    "an unknown method": (at("method", value="evil"), "--method evil"),
    "a method of another kind": (at("method", value=["m-idpg-phm"]), "is damaged \\(method"),
    "another method": (at("method", value="lora"), "--method lora"),
    "a string for a size": (at("options", "model", "prompt_length", value="3"), "--prompt-length '3', which is no int"),
    "a huge size": (at("options", "model", "prompt_length", value=10**12), "--prompt-length 1000000000000, which no"),
    "another size": (at("options", "model", "prompt_length", value=4), "--method m-idpg-phm or its options differ"),
    "an interpolation": (at("options", "model", "prompt_init_text", value="${oc.env:HOME}"), "which is no str"),
    "a whole model": (at("options", "model", "save_full_model", value=True), "says that it holds a whole model"),
    "a trained backbone": (at("options", "model", "no_freeze_backbone", value=True), "that it holds a whole model"),
    "another criterion": (at("options", "criterion", "_name", value="ctc"), "--criterion 'ctc'"),
    "no task": (at("options", value={"model": {}}), "is damaged \\(options"),
    "a way out": (at("backbone", "name", value="../../etc/passwd"), "is damaged \\(backbone"),
    "another way out": (at("backbone", "name", value="../passwd"), "is damaged \\(backbone"),
    "no fingerprint": (at("backbone", "tensors_sha256", value="x" * 64), "is damaged \\(backbone"),
    "another fingerprint": (at("backbone", "tensors_sha256", value="0" * 64), "is not the backbone this checkpoint"),
    "labels that are none": (at("data", "labels", value=[1, 2]), "the record of .* is damaged \\(labels"),
    "other labels": (at("data", "labels", value=["a", "b", "c"]), "records 3 labels of 2 classes"),
    "a scale without end": (at("data", "scale", value=0), "the record of .* is damaged \\(scale"),
    "another dictionary": (at("data", "dictionary", value="0" * 64), "the encoder of"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_configuration(name, copy):
    change, message = HOSTILE[name]
    same_but_for(copy, change)
    with pytest.raises(InputError, match=message) as error:
        load(copy, device="cpu")
    assert "\n" not in str(error.value)


TEXTS = {
    "nothing": ("", "is damaged"),
    "no object": ("[1]", "says no format"),
    "not a number": ('{"format": NaN}', "NaN is no number"),
    "a number without end": ('{"format": 1e999}', "is damaged"),
    "too many digits": (f'{{"format": {"1" * 5000}}}', "is damaged"),
    "a key twice": ('{"format": 1, "format": 1}', "a name stands there twice"),
    "half a character": ('{"format": "\\ud800"}', "is damaged"),
    "too deep": ("[" * 100_000, "is damaged"),
    "too large": (" " * 1_000_001, "it is larger than 1,000,000 bytes"),
    "a key less": ('{"format": 1}', "has no method"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_damaged_configuration(name, copy):
    text, message = TEXTS[name]
    (copy / "config.json").write_text(text)
    with pytest.raises(InputError, match=f"config.json.*{message}"):
        load(copy)


def test_damaged_tensors(copy, tmp_path):
    path = copy / "prompt.safetensors"
    whole, tensors = path.read_bytes(), load_file(path)
    for damaged in (b"", whole[:-1], whole[:100], b"\xff" * 8 + whole[8:], b"PK\x03\x04" + whole):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="prompt.safetensors is damaged or of another kind"):
            load(copy)
    name = next(name for name, value in tensors.items() if value.is_floating_point())
    for other in (tensors[name] + 1, torch.full_like(tensors[name], np.nan)):
        save_file({**tensors, name: other}, path)
        with pytest.raises(InputError, match="are not those that were exported together"):
            load(copy)
    same_but_for(copy, lambda config: None)
    with pytest.raises(InputError, match="NaN or infinite"):
        load(copy)
    for name, message in (("encoder.sentence_encoder.layers.0.fc1.bias", "fc1.bias"), ("_extra_state", "no weights")):
        save_file({**tensors, name: torch.zeros(3)}, path)
        same_but_for(copy, lambda config: None)
        with pytest.raises(InputError, match=message):
            load(copy)
    path.unlink()
    with pytest.raises(InputError, match="is a folder without prompt.safetensors"):
        load(copy)
    with pytest.raises(InputError, match="is not a file: give a checkpoint .* or a folder to share"):
        load(tmp_path / "nothing")


def test_no_training_goes_on_from_one(made):
    with pytest.raises(InputError, match="no training can go on"):
        load_state(str(made), "--restore-file", builds=False)
