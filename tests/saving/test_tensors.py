"""Nothing but the frozen backbone is completed: a checkpoint that lacks more, or has other sizes, is refused."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_idpg.predict import main as predict
from fairseq_idpg.saving.reading import is_finite
from tests.folders import changed, train, validate
from tests.saving.conftest import SIZE

HEAD = "classification_heads.sentence_classification_head."
RESET = ["--reset-optimizer", "--reset-dataloader", "--reset-meters"]


def drop(*names):
    return lambda model: [model.pop(key) for key in list(model) if key.startswith(names)]


def put(name, value):
    return lambda model: model.update({name: value})


def rename(model):
    for key in [key for key in model if key.startswith(HEAD)]:
        model[key.replace("sentence_classification_head", "other")] = model.pop(key)


def with_nan(name, value):
    def change(model):
        model[name].view(-1)[-1] = value

    return change


THREE = {f"{HEAD}out_proj.weight": torch.zeros(3, 16), f"{HEAD}out_proj.bias": torch.zeros(3)}
CHANGES = {  # and what the refusal names
    "no head": (drop(HEAD), "no head"),
    "another head's name": (rename, "the head other"),
    "three classes": (lambda model: model.update(THREE), "--num-classes"),
    "a part of the method": (drop("method.bias"), "method.bias"),
    "the method in another size": (put("method.bias", torch.zeros(2, 4, 16)), "method.bias"),
    "an unknown tensor": (put("adapter", torch.zeros(2)), "adapter"),
    "whole numbers": (put("method.bias", torch.zeros(2, 5, 16, dtype=torch.int64)), "method.bias"),
    "no fingerprint": (drop("backbone_sha256"), "--arch roberta_idpg"),
    "NaN in the method": (with_nan("method.bias", float("nan")), "method.bias"),
    "numbers many times": (put("method.bias", torch.zeros(1).expand(2**32)), "--path"),
}


def spoiled(file, change, tmp_path):
    return changed(file, lambda state: change(state["model"]), tmp_path / "changed.pt")


@pytest.mark.parametrize("name", CHANGES)
def test_prediction_refuses(name, old, tmp_path):
    change, named = CHANGES[name]
    command = [str(old.data), "--path", str(spoiled(old.checkpoint, change, tmp_path)), "--split", "valid"]
    with pytest.raises(SystemExit, match=named) as refused:
        predict([*command, "--out", str(tmp_path / "out.tsv"), "--cpu"])
    assert "\n" not in str(refused.value) and not (tmp_path / "out.tsv").exists()


def test_logits_that_are_not_finite(old, tmp_path):
    def change(model):
        model[f"{HEAD}out_proj.weight"].fill_(3e38)

    path = spoiled(old.checkpoint, change, tmp_path)
    with pytest.raises(SystemExit, match="13 of 13 predictions of split valid are not finite"):
        predict([str(old.data), "--path", str(path), "--split", "valid", "--out", str(tmp_path / "o"), "--cpu"])
    assert not (tmp_path / "o").exists()
    finished = validate(old.data, path, succeed=False)
    assert "the loss of lines" in finished.last_line and "is not finite" in finished.last_line


def start(old, folder, *options):
    usual = [*SIZE, "--backbone", old.backbone, "--max-update", 1, "--phm-n", 4]
    line = train(old.data, folder, *usual, *options, succeed=False).last_line
    assert line.startswith("fairseq_idpg: ") and not list(folder.glob("*.pt"))
    return line


def test_a_part_of_a_backbone_is_not_completed(old, tmp_path):
    path = spoiled(old.backbone, drop("encoder.sentence_encoder.layers.1.fc1"), tmp_path)
    assert "fc1" in start(old, tmp_path / "run", "--restore-file", path, *RESET)


def test_a_backbone_with_numbers_that_are_not_finite(old, tmp_path):
    name = "encoder.sentence_encoder.layers.1.fc1.bias"
    old.backbone = spoiled(old.backbone, with_nan(name, float("nan")), tmp_path)
    assert f"--backbone {old.backbone}: its {name}" in start(old, tmp_path / "run")


@settings(max_examples=50)
@given(st.lists(st.floats(width=16), max_size=20), st.sampled_from([torch.float16, torch.bfloat16, torch.float64]))
def test_finite_is_what_torch_says(numbers, dtype):
    tensor = torch.tensor(numbers, dtype=dtype)
    assert is_finite(tensor) == bool(torch.isfinite(tensor).all())
