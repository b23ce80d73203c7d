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


def test_the_training_set_and_scores_that_the_training_did_not_log(pairs, checkpoint):
    criterion = ["--criterion", "sentence_prediction_idpg", "--report-acc-and-macro-f1"]
    found = validate(pairs, checkpoint, *criterion, "--valid-subset", "train")
    accuracy, f1, both = (found.log(f"train_{name}")[-1] for name in ("accuracy", "macro_f1", "acc_and_macro_f1"))
    assert both == pytest.approx((accuracy + f1) / 2, abs=0.1)


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


def test_no_checkpoint_and_overrides_that_are_code(pairs, checkpoint):
    """See tests/training/test_overrides.py for others that are refused."""
    refused = run("validate", pairs, "--batch-size", 5, "--num-classes", 2, succeed=False)
    assert refused.last_line.startswith("fairseq_idpg: --path")
    refused = validate(pairs, checkpoint, "--model-overrides", "print('done')", succeed=False)
    assert refused.last_line.startswith("fairseq_idpg: --model-overrides print('done')")
    assert "\ndone" not in refused.output
