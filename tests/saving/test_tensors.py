"""Nothing but the frozen backbone is completed: a checkpoint that lacks more, or has other sizes, is refused."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_idpg.predict import main as predict
from fairseq_idpg.saving.reading import is_finite
from tests.folders import run, train
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


def second_head(model):
    model.update({k.replace("sentence_classification_head", "second"): v for k, v in model.items() if HEAD in k})


def another_class(model):
    model.update({f"{HEAD}out_proj.weight": torch.zeros(3, 16), f"{HEAD}out_proj.bias": torch.zeros(3)})


def with_nan(name, value):
    def change(model):
        model[name].view(-1)[-1] = value

    return change


CHANGES = {
    "no head": (drop(HEAD), "holds no head but the model has the head sentence_classification_head"),
    "no bias in the head": (drop(f"{HEAD}out_proj.bias"), "holds a part of the head .*, without out_proj.bias"),
    "half a head": (drop(f"{HEAD}dense"), "holds a part of the head .*, without dense.weight"),
    "another head's name": (rename, "holds the head other but the model has the head sentence_classification_head"),
    "two heads": (
        lambda model: [model.update({k.replace("sentence_", "s"): v}) for k, v in list(model.items())],
        "head",
    ),
    "three classes": (another_class, "has 3 outputs of width 16, but the model's has 2 of width 16"),
    "a wider head": (
        put(f"{HEAD}dense.weight", torch.zeros(32, 16)),
        "for other classes, start from it with --backbone",
    ),
    "a part of the method": (drop("method.bias"), "lacks method.bias"),
    "no method": (drop("method."), "lacks method."),
    "more of the method": (put("method.more", torch.zeros(2)), "holds method.more"),
    "the method in another size": (put("method.bias", torch.zeros(2, 4, 16)), "method.bias is "),
    "an unknown tensor": (put("adapter", torch.zeros(2)), "holds adapter, unknown here"),
    "whole numbers": (put("method.bias", torch.zeros(2, 5, 16, dtype=torch.int64)), "method.bias is .* of torch.int64"),
    "half a fingerprint": (
        put("backbone_sha256", torch.zeros(16, dtype=torch.uint8)),
        "is not the backbone this checkpoint",
    ),
    "an empty fingerprint": (put("backbone_fingerprint", torch.zeros(0)), "backbone_fingerprint is no finger"),
    "no fingerprint": (drop("backbone_sha256"), "says --arch roberta_idpg, but its tensors are of another model"),
    "NaN in the method": (with_nan("method.bias", float("nan")), "its method.bias holds NaN or infinite numbers"),
    "NaN in the head": (with_nan(f"{HEAD}dense.bias", float("nan")), "its .*dense.bias holds NaN or infinite"),
    "an infinite number": (with_nan("method.generators.0.up_b", -float("inf")), "up_b holds NaN or infinite numbers"),
    "a list": (put("method.bias", [1.0]), "its method.bias is no tensor"),
    "complex numbers": (put("method.bias", torch.zeros(2, 5, 16, dtype=torch.complex64)), "ComplexFloatStorage"),
    "a tensor without numbers": (put("method.bias", torch.zeros(2, 5, 16, device="meta")), "is not a fairseq checkp"),
    "numbers many times": (put("method.bias", torch.zeros(1).expand(2**32)), "is not a fairseq checkpoint"),
    "a sparse tensor": (put("method.bias", torch.zeros(2, 5, 16).to_sparse()), "is not a fairseq checkpoint"),
}


def changed(old, change):
    state = old.state()
    change(state["model"])
    return old.save(state)


@pytest.mark.parametrize("name", CHANGES)
def test_prediction_refuses(name, old, tmp_path):
    change, message = CHANGES[name]
    command = [str(old.data), "--path", str(changed(old, change)), "--split", "valid"]
    with pytest.raises(SystemExit, match=message) as refused:
        predict([*command, "--out", str(tmp_path / "out.tsv"), "--cpu"])
    assert "\n" not in str(refused.value) and not (tmp_path / "out.tsv").exists()


def validate(old, path, **more):
    usual = ["--path", path, "--batch-size", 5, "--separator-token", 2, "--num-classes", 2]
    return run("validate", old.data, *usual, **more)


@pytest.mark.parametrize("name", ["no head", "three classes", "NaN in the method"])
def test_validation_refuses(name, old):
    change, message = CHANGES[name]
    finished = validate(old, changed(old, change), succeed=False)
    assert finished.last_line.startswith("fairseq_idpg: ") and "Traceback" not in finished.output


def test_logits_that_are_not_finite(old, tmp_path):
    def change(model):
        model[f"{HEAD}out_proj.weight"].fill_(3e38)

    path = changed(old, change)
    with pytest.raises(SystemExit, match="13 of 13 predictions of split valid are not finite"):
        predict([str(old.data), "--path", str(path), "--split", "valid", "--out", str(tmp_path / "o"), "--cpu"])
    assert not (tmp_path / "o").exists()
    finished = validate(old, path, succeed=False)
    assert "the loss of lines" in finished.last_line and "is not finite" in finished.last_line


def start(old, folder, *options, **more):
    usual = [*SIZE, "--backbone", old.backbone, "--max-update", 1, "--phm-n", 4]
    return train(old.data, folder, *usual, *options, **more)


def test_a_backbone_of_fairseqs_own_starts_training(old, tmp_path):
    start(old, tmp_path / "run", "--restore-file", old.backbone, *RESET)
    assert (tmp_path / "run" / "checkpoint_last.pt").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            drop("encoder.sentence_encoder.layers.1.fc1"),
            "is not that of --arch: 2 tensors missing, 0 too many",
        ),
        (drop("encoder.sentence_encoder"), "is not that of --arch"),
        (put("encoder.sentence_encoder.layers.2.fc1.bias", torch.zeros(32)), "0 tensors missing, 1 too many"),
        (put("classification_heads.mnli.dense.weight", torch.zeros(16, 16)), "holds a part of the head mnli"),
        (put("encoder.sentence_encoder.layers.1.fc1.bias", torch.zeros(31)), "fc1.bias is .31. of torch.float32"),
    ],
)
def test_a_part_of_a_backbone_is_not_completed(change, message, old, tmp_path):
    state = torch.load(old.backbone, weights_only=True)
    change(state["model"])
    path = old.save(state)
    line = start(old, tmp_path / "run", "--restore-file", path, *RESET, succeed=False).last_line
    assert re.search(message, line), line
    assert not list((tmp_path / "run").glob("*.pt"))


def test_a_backbone_with_numbers_that_are_not_finite(old, tmp_path):
    state = torch.load(old.backbone, weights_only=True)
    with_nan("encoder.sentence_encoder.layers.1.fc1.bias", float("nan"))(state["model"])
    torch.save(state, old.backbone)
    line = start(old, tmp_path / "run", succeed=False).last_line
    assert line.startswith(f"fairseq_idpg: --backbone {old.backbone}: its encoder.sentence_encoder.layers.1.fc1.bias")


def test_going_on_with_less(old, tmp_path):
    (tmp_path / "run").mkdir()
    state = old.state()
    drop(HEAD)(state["model"])
    old.save(state, "run/checkpoint_last.pt")
    line = start(old, tmp_path / "run", succeed=False).last_line
    assert "this checkpoint holds no head but the model has the head sentence_classification_head" in line


@settings(max_examples=50)
@given(st.lists(st.floats(width=16), max_size=20), st.sampled_from([torch.float16, torch.bfloat16, torch.float64]))
def test_finite_is_what_torch_says(numbers, dtype):
    tensor = torch.tensor(numbers, dtype=dtype)
    assert is_finite(tensor) == bool(torch.isfinite(tensor).all())
