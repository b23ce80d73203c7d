"""One process and two give the same losses and metrics, however the last batches fall."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fairseq_idpg.criterions.sentence_prediction_idpg import gather
from tests.folders import train, validate, write_backbone, write_folder

OURS = ["--criterion", "sentence_prediction_idpg"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """27 training and 13 validation examples: two processes never have the same number of the last ones."""
    folder = tmp_path_factory.mktemp("two")
    write_backbone(folder / "model.pt")
    splits = {"train": 27, "valid": 13}
    write_folder(folder / "classes", splits=splits)
    write_folder(folder / "scores", regression=True, splits=splits)
    return folder


def both(place, data, tmp_path, *options):
    """(one process with two batches an update, two processes with one each)."""
    usual = [*OURS, "--backbone", place / "model.pt", "--max-epoch", 3, "--total-batch-size", 8, "--dropout", 0]
    usual += ["--attention-dropout", 0, "--generator-dropout", 0, *options]
    one = train(place / data, tmp_path / "one", *usual, "--update-freq", 2)
    two = train(place / data, tmp_path / "two", *usual, processes=2)
    return one, two


@pytest.mark.parametrize("cache", [False, True])
def test_classes(place, tmp_path, cache):
    options = ["--report-acc-and-f1"]
    if cache:
        options += ["--representation-cache", tmp_path / "cache"]
    one, two = both(place, "classes", tmp_path, *options)
    for key in ("train_loss", "train_accuracy", "valid_loss", "valid_accuracy", "valid_acc_and_f1", "valid_f1"):
        assert len(one.log(key)) == 3 and two.log(key) == pytest.approx(one.log(key), abs=1e-3), key
    tables = [torch.load(tmp_path / n / "checkpoint_last.pt", weights_only=True)["model"] for n in ("one", "two")]
    for name, value in tables[0].items():
        assert not torch.is_tensor(value) or torch.allclose(value.float(), tables[1][name].float(), atol=1e-4), name
    if cache:
        assert sorted(np.load(path).shape for path in (tmp_path / "cache").glob("*.npy")) == [(13, 32), (27, 32)]


def test_matthews_correlation(place, tmp_path):
    one, two = both(place, "classes", tmp_path, "--report-mcc", "--best-checkpoint-metric", "mcc")
    assert len(one.log("valid_mcc")) == 3 and two.log("valid_mcc") == one.log("valid_mcc")


def test_scores(place, tmp_path):
    options = ["--regression-target", "--report-pearson-and-spearman", "--num-classes", 1]
    options += ["--best-checkpoint-metric", "pearson_and_spearman"]
    one, two = both(place, "scores", tmp_path, *options)
    for key in ("valid_loss", "valid_pearson", "valid_spearman", "valid_pearson_and_spearman"):
        assert len(one.log(key)) == 3 and two.log(key) == pytest.approx(one.log(key), abs=1e-3), key


@pytest.mark.parametrize("examples", [12, 16])
def test_an_epochs_last_update_where_one_process_has_a_batch_less(place, tmp_path, examples):
    """3 batches (or 4) of one update; plain gradients, as Adam would hide their size."""
    data = write_folder(tmp_path / "data", splits={"train": examples, "valid": 5})
    usual = [*OURS, "--backbone", place / "model.pt", "--method", "head-only", "--total-batch-size", 16]
    usual += ["--optimizer", "nag", "--momentum", 0, "--lr", 1.0, "--dropout", 0, "--attention-dropout", 0]
    one = train(data, tmp_path / "one", *usual, "--update-freq", 4, "--max-epoch", 1)
    two = train(data, tmp_path / "two", *usual, "--update-freq", 2, "--max-epoch", 1, processes=2)
    for key in ("train_loss", "train_accuracy"):
        assert two.log(key) == one.log(key)
    heads = [torch.load(tmp_path / n / "checkpoint_last.pt", weights_only=True)["model"] for n in ("one", "two")]
    for name, value in heads[0].items():
        assert not torch.is_tensor(value) or torch.allclose(value.float(), heads[1][name].float(), atol=1e-5), name


def test_processes_that_do_not_divide_the_batch(place, tmp_path):
    options = ["--backbone", place / "model.pt", "--total-batch-size", 9]
    finished = train(place / "classes", tmp_path / "three", *options, processes=2, succeed=False)
    assert "--total-batch-size 9 cannot be shared by 2 processes" in finished.last_line
    assert not (tmp_path / "three" / "checkpoint_last.pt").exists()


def test_gathering_a_sum_of_tables():
    first, second = torch.zeros(2, 4).double(), torch.zeros(2, 4).double()
    first[0] = torch.tensor([3, 1, 0, 1])
    second[1, :2] = torch.tensor([1, 7])
    assert gather(first + second) == [1, 0, 1, 7] and gather(first + 0 * second) == [1, 0, 1]
    second[1, 1] = 0.25
    assert gather(first + second) == [1.0, 0.0, 1.0, 0.25]


@pytest.mark.parametrize("criterion", ["sentence_prediction", "sentence_prediction_idpg"])
@pytest.mark.parametrize("metric", ["pearson_and_spearman", "acc_and_f1", "mcc"])
def test_checkpoints_chosen_by_a_score_resume_and_validate(place, tmp_path, metric, criterion):
    scores = metric == "pearson_and_spearman"
    kind = ["--regression-target", "--num-classes", 1] if scores else []
    kind += [f"--report-{metric.replace('_', '-')}", "--criterion", criterion]
    data = place / ("scores" if scores else "classes")
    options = [*kind, "--best-checkpoint-metric", metric, "--backbone", place / "model.pt"]
    train(data, tmp_path, *options, "--max-epoch", 1)
    resumed = train(data, tmp_path, *options, "--max-epoch", 2)
    best = max(
        validate(data, tmp_path / f"checkpoint_{n}.pt", *kind).log(f"valid_{metric}")[-1] for n in ("best", "last")
    )
    assert best >= resumed.log(f"valid_{metric}")[-1] - 0.11
