"""A folder to share predicts as its checkpoint does, to the bit; whatever is wrong with one is said in a line."""

from __future__ import annotations

import json
import os
import shutil

import pytest
import torch
from safetensors.torch import load_file

from fairseq_idpg import load
from fairseq_idpg.errors import InputError
from fairseq_idpg.export import export, main
from fairseq_idpg.predict import main as predict
from fairseq_idpg.saving.reading import load_state, read_file
from preprocess.checksums import content_digest
from tests.folders import validate
from tests.inference.conftest import KINDS, LABELS
from tests.inference.saved import source_options, write_checkpoint
from tests.inference.test_methods import CASES, SHORT
from tests.inference.test_predictor import inputs

TRAIN_ALL = ("fine-tuning", "efl")


def answers(path, kind: str, **options) -> list[dict]:
    return [found.plain() for found in load(path, device="cpu", **options).predict(inputs(kind))]


def config_of(folder) -> dict:
    return json.loads((folder / "config.json").read_text())


@pytest.mark.parametrize("kind", KINDS)
def test_predicts_as_its_checkpoint(kind, idpg, tmp_path):
    checkpoint = idpg(kind)
    export(str(checkpoint), str(tmp_path / "shared"))
    assert answers(tmp_path / "shared", kind) == answers(checkpoint, kind)


def test_fairseq_validates_it(idpg, shared_folder, folders):
    found, expected = (validate(folders["pairs"], path) for path in (shared_folder, idpg("pairs")))
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


def test_at_the_command_line(shared_folder, idpg, folders, tmp_path, capsys):
    found = []
    for path in (shared_folder, idpg("pairs")):
        out = tmp_path / "out.tsv"
        predict([str(folders["pairs"]), "--path", str(path), "--split", "valid", "--out", str(out), "--cpu"])
        found.append(out.read_text())
    assert found[0] == found[1] and len(found[0].splitlines()) == 16


def test_small_and_without_code(shared_folder, monkeypatch):
    """No more than the tensors and a few kB; reading it unpickles nothing."""
    tensors = load_file(shared_folder / "prompt.safetensors")
    numbers = sum(value.numel() * value.element_size() for value in tensors.values())
    assert {file.name for file in shared_folder.iterdir()} == {"prompt.safetensors", "config.json", "README.md"}
    assert sum(file.stat().st_size for file in shared_folder.iterdir()) < numbers + 20_000
    assert len({file.stat().st_mode for file in shared_folder.iterdir()}) == 1  # whoever reads one reads all
    monkeypatch.setattr(torch, "load", None)  # to call them would fail
    monkeypatch.setattr("pickle.Unpickler", None)
    monkeypatch.setattr("pickle.load", None)
    monkeypatch.setattr("pickle.loads", None)
    assert load_state(str(shared_folder), "--path")["cfg"].model.method == "m-idpg-phm"


def test_what_it_says(shared_folder, idpg, place):
    config, card = config_of(shared_folder), (shared_folder / "README.md").read_text()
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


def test_the_digest_is_of_the_data_that_was_trained_on(idpg, folders, tmp_path, monkeypatch):
    """Not of another folder that a relative path leads to from here, nor of what was made there since."""
    state = torch.load(idpg("singles"), weights_only=True)
    state["cfg"]["task"]["data"] = "data-bin"
    torch.save(state, tmp_path / "x.pt")
    folder = shutil.copytree(folders["singles"], tmp_path / "data-bin")
    monkeypatch.chdir(tmp_path)
    export("x.pt", "shared")
    assert config_of(tmp_path / "shared")["run"]["data_sha256"] == content_digest(folder)
    shutil.copy(folder / "input0" / "valid.bin", folder / "input0" / "train.bin")
    export("x.pt", "shared", overwrite=True)
    assert "data_sha256" not in config_of(tmp_path / "shared")["run"]


def test_the_scores_of_the_best_checkpoint_are_not_those_of_the_last(idpg, tmp_path):
    record = {"scores": {"test": {"accuracy": 81.25}}, "best_epoch": 2}
    (tmp_path / "record.json").write_text(json.dumps(record))
    last = shutil.copy(idpg("singles"), tmp_path / "checkpoint_last.pt")
    export(str(last), str(tmp_path / "shared"))
    assert config_of(tmp_path / "shared")["run"]["scores"].keys() == {"valid"}  # its own
    export(str(last), str(tmp_path / "named"), record=str(tmp_path / "record.json"))
    assert config_of(tmp_path / "named")["run"]["scores"] == record["scores"]


def test_scores_from_before_training_went_on_are_refused(idpg, tmp_path):
    best = shutil.copy(idpg("singles"), tmp_path / "checkpoint_best.pt")
    updates = read_file(str(best), "checkpoint")["optimizer_history"][-1]["num_updates"]
    record = {"scores": {"test": {"accuracy": 81.25}}, "best_update": updates + 1}
    (tmp_path / "record.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=f"checkpoint after {updates + 1} updates, and this one is after {updates}: "):
        export(str(best), str(tmp_path / "shared"))
    assert not (tmp_path / "shared").exists()
    (tmp_path / "record.json").write_text(json.dumps({**record, "best_update": updates}))
    export(str(best), str(tmp_path / "shared"))
    assert config_of(tmp_path / "shared")["run"]["scores"] == record["scores"]


def test_the_backbone_and_the_encoder_are_found(idpg, place, tmp_path, monkeypatch):
    """Where they are said to be, where they were, or beside the folder under their names."""
    expected = answers(idpg("singles"), "singles")
    export(str(idpg("singles")), str(tmp_path / "there" / "shared"), paths=False)
    folder = tmp_path / "there" / "shared"
    with pytest.raises(InputError, match="backbone/model.pt, is not there: say with backbone"):
        load(folder)
    named = {"backbone": place / "backbone" / "model.pt", "vocab": place / "vocab"}
    assert answers(folder, "singles", **named) == expected
    for name in ("backbone", "vocab"):
        shutil.copytree(place / name, folder.parent / name)
    assert answers(folder, "singles") == expected
    monkeypatch.chdir(folder)
    assert answers(".", "singles") == expected


def test_another_backbone_is_refused(shared_folder, place, tmp_path):
    state = torch.load(place / "backbone" / "model.pt", weights_only=True)
    name = next(name for name in state["model"] if name.endswith("layers.0.fc1.bias"))
    state["model"][name] = state["model"][name] + 1
    shutil.copytree(place / "backbone", tmp_path / "backbone")
    torch.save(state, tmp_path / "backbone" / "model.pt")
    with pytest.raises(InputError, match="is not the backbone this checkpoint was trained on"):
        load(shared_folder, backbone=tmp_path / "backbone" / "model.pt", vocab=place / "vocab")


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


@pytest.mark.parametrize("switch", ["overwrite", "paths"])
def test_switches_are_true_or_false(switch, idpg, shared_copy):
    before = config_of(shared_copy)
    with pytest.raises(InputError, match=f"^{switch} 'no' is neither True nor False: give one of them$"):
        export(str(idpg("singles")), str(shared_copy), **{"overwrite": True, switch: "no"})
    assert config_of(shared_copy) == before


def test_a_name_that_is_not_utf_8_is_refused(idpg, tmp_path):
    with pytest.raises(SystemExit, match=r"b\\udce9 is not UTF-8, as its card is: name another folder"):
        main([str(idpg("singles")), os.fsdecode(b"%s/b\xe9" % os.fsencode(tmp_path))])
    assert not list(tmp_path.iterdir())


def test_a_backbone_whose_name_is_not_utf_8(place, folders, tmp_path):
    named = tmp_path / os.fsdecode(b"b\xe9")
    shutil.copytree(place / "backbone", named)
    path = write_checkpoint(tmp_path / "x.pt", folders["pairs"], named / "model.pt", "--method", "m-idpg-phm")
    export(str(path), str(tmp_path / "shared"))
    assert config_of(tmp_path / "shared")["backbone"]["name"] == "b?/model.pt"
    with pytest.raises(InputError, match=r"b\?/model.pt, is not there: say with backbone"):
        load(tmp_path / "shared")
    assert answers(tmp_path / "shared", "pairs", backbone=named / "model.pt") == answers(path, "pairs")


def test_only_folders_to_share_are_replaced(shared_copy, idpg, tmp_path):
    before = config_of(shared_copy)
    with pytest.raises(SystemExit, match="exists already: name another folder, or replace it \\(--overwrite; in "):
        main([str(idpg("singles")), str(shared_copy)])
    assert config_of(shared_copy) == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "README.md").write_text("x")
    for folder in ("mine", "notes"):
        with pytest.raises(InputError, match="is something else than a folder to share"):
            export(str(idpg("singles")), str(tmp_path / folder), overwrite=True)
    assert (tmp_path / "notes" / "README.md").read_text() == "x"
    with pytest.raises(InputError, match="thesis.tex is a file: name another folder$"):
        export(str(idpg("singles")), str(tmp_path / "mine" / "thesis.tex" / "shared"))
    with pytest.raises(InputError, match="^/dev/null is a file: name another folder$"):
        export(str(idpg("singles")), "/dev/null/shared")
    export(str(idpg("singles")), str(shared_copy), overwrite=True)
    assert config_of(shared_copy)["data"]["pairs"] is False and (tmp_path / "mine" / "thesis.tex").exists()


def test_a_link_to_a_folder_to_share_stays(shared_copy, idpg, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(shared_copy)
    export(str(idpg("singles")), str(link), overwrite=True)
    assert link.is_symlink() and config_of(shared_copy)["data"]["pairs"] is False
    assert answers(link, "singles") == answers(idpg("singles"), "singles")


def test_no_training_goes_on_from_one(shared_folder):
    with pytest.raises(InputError, match="no training can go on"):
        load_state(str(shared_folder), "--restore-file", builds=False)
