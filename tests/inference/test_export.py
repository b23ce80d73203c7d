"""A folder to share predicts as its checkpoint does, to the bit; one that is damaged or hostile is refused."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from fairseq_idpg import load
from fairseq_idpg.errors import InputError
from fairseq_idpg.export import export, main
from fairseq_idpg.predict import main as predict
from fairseq_idpg.saving import shared_folder
from fairseq_idpg.saving.reading import load_state, read_file
from preprocess.checksums import content_digest
from tests.folders import changed, validate
from tests.inference.conftest import LABELS, REGRESSION, inputs
from tests.inference.saved import write_checkpoint
from tests.saving.test_fingerprints import change_value


def answers(path, kind: str, **options) -> list[dict]:
    return [found.plain() for found in load(path, device="cpu", **options).predict(inputs(kind))]


def config_of(folder) -> dict:
    return json.loads((folder / "config.json").read_text())


def test_fairseq_and_the_command_read_it(idpg, shared_folder, folders, tmp_path):
    found, expected = (validate(folders["pairs"], path) for path in (shared_folder, idpg("pairs")))
    for name in ("valid_loss", "valid_accuracy"):
        assert found.log(name) == expected.log(name) != []
    outs = [tmp_path / "shared.tsv", tmp_path / "own.tsv"]
    for path, out in zip((shared_folder, idpg("pairs")), outs):
        predict([str(folders["pairs"]), "--path", str(path), "--split", "valid", "--out", str(out), "--cpu"])
    assert outs[0].read_text() == outs[1].read_text()


def test_what_is_frozen_stays_out(place, folders, tmp_path):
    """Of a model for scores, too. See test_methods.py for every method."""
    options = ["--method", "bitfit", "--save-full-model", *REGRESSION]
    path = write_checkpoint(tmp_path / "x.pt", folders["scores"], place / "backbone" / "model.pt", *options)
    export(str(path), str(tmp_path / "shared"))
    names = [name for name in load_file(tmp_path / "shared" / "prompt.safetensors") if name.startswith("encoder.")]
    assert names and all(name.endswith("bias") for name in names)
    assert answers(tmp_path / "shared", "scores") == answers(path, "scores")


def test_small_and_without_code(shared_folder, monkeypatch):
    """No more than the tensors and a few kB; reading it unpickles nothing."""
    tensors = load_file(shared_folder / "prompt.safetensors")
    numbers = sum(value.numel() * value.element_size() for value in tensors.values())
    assert {file.name for file in shared_folder.iterdir()} == {"prompt.safetensors", "config.json", "README.md"}
    assert sum(file.stat().st_size for file in shared_folder.iterdir()) < numbers + 20_000
    assert len({file.stat().st_mode for file in shared_folder.iterdir()}) == 1  # whoever reads one reads all
    for name in ("torch.load", "pickle.Unpickler", "pickle.load", "pickle.loads"):
        monkeypatch.setattr(name, None)  # to call it would fail
    assert load_state(str(shared_folder), "--path")["cfg"].model.method == "m-idpg-phm"


def test_what_it_says(shared_folder, idpg):
    config, card = config_of(shared_folder), (shared_folder / "README.md").read_text()
    assert config["method"] == "m-idpg-phm" and config["data"]["labels"] == LABELS
    assert config["backbone"]["name"] == "backbone/model.pt"
    fingerprint = read_file(str(idpg("pairs")), "x")["model"]["backbone_fingerprint"]
    assert config["backbone"]["tensors_sha256"] == bytes(fingerprint.tolist()).hex()
    assert config["run"]["seed"] == 1 and len(config["run"]["data_sha256"]) == 64
    assert config["run"]["scores"]["valid"].keys() == {config["run"]["metric"]}
    assert "python -m fairseq_idpg.predict --path my\\ prompt --text FILE --pairs tab" in card and "| valid |" in card


def test_the_record_of_the_run(idpg, tmp_path):
    """That of the best checkpoint, at this update; a record that is named wins, a damaged one is refused."""
    best, last = (shutil.copy(idpg("singles"), tmp_path / f"checkpoint_{name}.pt") for name in ("best", "last"))
    updates = read_file(str(best), "checkpoint")["optimizer_history"][-1]["num_updates"]
    record = {"scores": {"test": {"accuracy": 81.25}}, "seed": 7, "metric": "accuracy", "data": "gone", "lr": 0.5}
    record |= {"best_update": updates}
    (tmp_path / "record.json").write_text(json.dumps(record))
    export(str(best), str(tmp_path / "shared"))
    run = config_of(tmp_path / "shared")["run"]
    assert (run["scores"], run["seed"], run["lr"]) == (record["scores"], 7, 0.5) and "data_sha256" not in run
    export(str(last), str(tmp_path / "of the last"))
    assert config_of(tmp_path / "of the last")["run"]["scores"].keys() == {"valid"}  # its own
    export(str(last), str(tmp_path / "named"), record=str(tmp_path / "record.json"))
    assert config_of(tmp_path / "named")["run"]["scores"] == record["scores"]
    for wrong in ("{", json.dumps({**record, "best_update": updates + 1})):
        (tmp_path / "record.json").write_text(wrong)
        with pytest.raises(InputError, match="record.json"):
            export(str(best), str(tmp_path / "other"))
    assert not (tmp_path / "other").exists()


def test_the_digest_is_of_the_data_that_was_trained_on(idpg, folders, tmp_path, monkeypatch):
    """Not of another folder that a relative path leads to from here, nor of what was made there since."""
    changed(idpg("singles"), lambda state: state["cfg"]["task"].update(data="data-bin"), tmp_path / "x.pt")
    folder = shutil.copytree(folders["singles"], tmp_path / "data-bin")
    monkeypatch.chdir(tmp_path)
    export("x.pt", "shared")
    assert config_of(tmp_path / "shared")["run"]["data_sha256"] == content_digest(folder)
    shutil.copy(folder / "input0" / "valid.bin", folder / "input0" / "train.bin")
    export("x.pt", "shared", overwrite=True)
    assert "data_sha256" not in config_of(tmp_path / "shared")["run"]


def test_the_backbone_and_the_encoder_are_found(idpg, place, tmp_path, monkeypatch):
    """Where they are said to be, where they were, or beside the folder under their names; others are refused."""
    expected = answers(idpg("singles"), "singles")
    folder = tmp_path / "there" / "shared"
    main([str(idpg("singles")), str(folder), "--no-paths"])
    assert str(place) not in (folder / "config.json").read_text()
    with pytest.raises(InputError, match="backbone/model.pt"):
        load(folder)
    named = {"backbone": place / "backbone" / "model.pt", "vocab": place / "vocab"}
    assert answers(folder, "singles", **named) == expected
    for name in ("backbone", "vocab"):
        shutil.copytree(place / name, folder.parent / name)
    assert answers(folder, "singles") == expected
    monkeypatch.chdir(folder)
    assert answers(".", "singles") == expected
    change_value(folder.parent / "backbone" / "model.pt")
    with pytest.raises(InputError, match="is not the backbone"):
        load(folder)


def test_only_checkpoints_with_a_frozen_backbone_are_exported(place, folders, tmp_path):
    backbone, options = place / "backbone" / "model.pt", ["--method", "lora", "--no-freeze-backbone"]
    tuned = write_checkpoint(tmp_path / "x.pt", folders["pairs"], backbone, *options)
    for path, named in ((tuned, "--no-freeze-backbone"), (backbone, "model.pt"), ("nowhere.pt", "nowhere.pt")):
        with pytest.raises(InputError, match=named):
            export(str(path), str(tmp_path / "shared"))
    assert not (tmp_path / "shared").exists()


def test_only_folders_to_share_are_replaced(shared_copy, idpg, tmp_path):
    before = config_of(shared_copy)
    with pytest.raises(SystemExit, match="--overwrite"):
        main([str(idpg("singles")), str(shared_copy)])
    assert config_of(shared_copy) == before
    for folder, file in (("mine", "thesis.tex"), ("notes", "README.md")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text("x")
        with pytest.raises(InputError, match=f"{folder} "):
            export(str(idpg("singles")), str(tmp_path / folder), overwrite=True)
        assert (tmp_path / folder / file).read_text() == "x"
    export(str(idpg("singles")), str(shared_copy), overwrite=True)
    assert config_of(shared_copy)["data"]["pairs"] is False


def same_but_for(folder, change) -> None:
    """Changes what ``config.json`` says as a stranger would, who writes a checksum that fits."""
    config = config_of(folder)
    change(config)
    config["checksum"] = shared_folder._checksum(config, load_file(folder / "prompt.safetensors"))
    (folder / "config.json").write_text(json.dumps(config))


def at(*keys, value):
    def change(config):
        for key in keys[:-1]:
            config = config[key]
        config[keys[-1]] = value

    return change


HOSTILE = {
    "another format": at("format", value=2),
    "an unknown key": at("hook", value="os.system"),
    "no task": at("options", value={"model": {}}),
    "another method": at("method", value="lora"),
    "a string for a size": at("options", "model", "prompt_length", value="3"),
    "a huge size": at("options", "model", "prompt_length", value=10**12),
    "an interpolation": at("options", "model", "prompt_init_text", value="${oc.env:HOME}"),
    "another fingerprint": at("backbone", "tensors_sha256", value="0" * 64),
    "another dictionary": at("data", "dictionary", value="0" * 64),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_configuration(name, shared_copy):
    same_but_for(shared_copy, HOSTILE[name])
    with pytest.raises(InputError) as error:
        load(shared_copy, device="cpu")
    assert "\n" not in str(error.value)


def test_a_damaged_configuration(shared_copy):
    for text in ('{"format": 1, "format": 1}', "[" * 100_000, " " * 1_000_001):
        (shared_copy / "config.json").write_text(text)
        with pytest.raises(InputError, match="config.json"):
            load(shared_copy)


def test_tensors_that_do_not_belong_there(shared_copy):
    path = shared_copy / "prompt.safetensors"
    tensors = load_file(path)
    name = next(name for name, value in tensors.items() if value.is_floating_point())
    for more in ({name: tensors[name] * torch.nan}, {"encoder.sentence_encoder.layers.0.fc1.bias": torch.zeros(3)}):
        save_file({**tensors, **more}, path)
        same_but_for(shared_copy, lambda config: None)
        with pytest.raises(InputError, match=next(iter(more))):
            load(shared_copy)
