"""fairseq-validate of what was trained, asked for something else than the training logged."""

from __future__ import annotations

import shutil

import pytest
from fairseq.criterions.sentence_prediction import SentencePredictionConfig, SentencePredictionCriterion

from fairseq_idpg.errors import InputError
from fairseq_idpg.inference.folder import load_on_folder
from tests.folders import run, validate, write_backbone


@pytest.fixture(scope="module")
def checkpoint(trained):
    return trained[1] / "checkpoint_best.pt"


def test_the_training_set(pairs, checkpoint):
    """Which a training refuses to validate on, and sends here."""
    assert 0 <= validate(pairs, checkpoint, "--valid-subset", "train").log("train_accuracy")[-1] <= 100


def test_scores_that_the_training_did_not_log(pairs, checkpoint):
    criterion = ["--criterion", "sentence_prediction_idpg", "--report-acc-and-macro-f1"]
    found = validate(pairs, checkpoint, *criterion)
    assert found.log("valid_acc_and_macro_f1")[-1] == pytest.approx(
        (found.log("valid_accuracy")[-1] + found.log("valid_macro_f1")[-1]) / 2, abs=0.1
    )


def test_a_backbone_that_is_written_to_meanwhile_gives_no_scores(pairs, checkpoint, backbone, tmp_path):
    own = shutil.copy(backbone, tmp_path / "model.pt")
    model, task = load_on_folder(str(checkpoint), str(pairs), cpu=True, backbone=str(own))
    options = SentencePredictionConfig(classification_head_name="sentence_classification_head")
    criterion, dataset = SentencePredictionCriterion(options, task), task.load_dataset("valid")
    sample = dataset.collater([dataset[0], dataset[1]])
    task.valid_step(sample, model, criterion)
    shutil.copyfile(write_backbone(tmp_path / "other.pt", seed=1), own)
    with pytest.raises(InputError, match=f"--backbone {own} was written to while it was in use"):
        task.valid_step(sample, model, criterion)


def test_no_checkpoint(pairs):
    refused = run("validate", pairs, "--batch-size", 5, "--num-classes", 2, succeed=False)
    assert refused.last_line.startswith("fairseq_idpg: --path")


@pytest.mark.parametrize(
    "overrides, reason",
    [
        ("{'bakbone': 'model.pt'}", "'bakbone' is no option of the model or the task: leave it out"),
        ("{'seed': 'x'}", "says --seed 'x', which is no int: give another"),
        ("{'pooler_activation_fn': 'relu'}", "'pooler_activation_fn' is what the model was trained with: leave it out"),
        ("print('done')", "is no dictionary: write \"{'backbone': 'NEW/model.pt'}\""),
    ],
)
def test_overrides_that_do_nothing_or_make_another_model(pairs, checkpoint, overrides, reason):
    refused = validate(pairs, checkpoint, "--model-overrides", overrides, succeed=False)
    between = " " if reason.startswith(("is", "says")) else ": "
    assert refused.last_line == f"fairseq_idpg: --model-overrides {overrides}{between}{reason}"
    assert "\ndone" not in refused.output


@pytest.mark.parametrize("precision", ["--bf16", "--amp"])
def test_a_precision_that_it_has_not(pairs, checkpoint, precision):
    refused = validate(pairs, checkpoint, precision, succeed=False)
    assert refused.last_line == (
        f"fairseq_idpg: {precision} has no effect here: fairseq-validate computes in float32, or with --fp16 in "
        "float16: leave it out"
    )


def test_splits_are_not_joined_here(pairs, checkpoint):
    refused = validate(pairs, checkpoint, "--combine-valid-subsets", succeed=False)
    assert refused.last_line.startswith("fairseq_idpg: --combine-valid-subsets has no effect here: fairseq-validate")
