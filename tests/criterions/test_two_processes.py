"""One process and two give the same losses and metrics, however the last batches fall."""

import numpy as np
import pytest

from tests.cli.test_cache import same_weights
from tests.folders import train, write_backbone, write_folder

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


def test_classes(place, tmp_path):
    """With M(x) in a cache that both processes read, and one of them fills."""
    options = ["--report-acc-and-f1", "--report-mcc", "--best-checkpoint-metric", "mcc"]
    one, two = both(place, "classes", tmp_path, *options, "--representation-cache", tmp_path / "cache")
    assert len(one.log("valid_mcc")) == 3 and two.log("valid_mcc") == one.log("valid_mcc")
    for key in ("train_loss", "train_accuracy", "valid_loss", "valid_accuracy", "valid_acc_and_f1", "valid_f1"):
        assert len(one.log(key)) == 3 and two.log(key) == pytest.approx(one.log(key), abs=1e-3), key
    same_weights(tmp_path / "one", tmp_path / "two", 1e-4)
    assert sorted(np.load(path).shape for path in (tmp_path / "cache").glob("*.npy")) == [(13, 32), (27, 32)]


def test_scores(place, tmp_path):
    options = ["--regression-target", "--report-pearson-and-spearman", "--num-classes", 1]
    options += ["--best-checkpoint-metric", "pearson_and_spearman"]
    one, two = both(place, "scores", tmp_path, *options)
    for key in ("valid_loss", "valid_pearson", "valid_spearman", "valid_pearson_and_spearman"):
        assert len(one.log(key)) == 3 and two.log(key) == pytest.approx(one.log(key), abs=1e-3), key


def test_an_epochs_last_update_where_one_process_has_a_batch_less(place, tmp_path):
    """3 batches of one update; plain gradients, as Adam would hide their size."""
    data = write_folder(tmp_path / "data", splits={"train": 12, "valid": 5})
    usual = [*OURS, "--backbone", place / "model.pt", "--method", "head-only", "--total-batch-size", 16]
    usual += ["--optimizer", "nag", "--momentum", 0, "--lr", 1.0, "--dropout", 0, "--attention-dropout", 0]
    one = train(data, tmp_path / "one", *usual, "--update-freq", 4, "--max-epoch", 1)
    two = train(data, tmp_path / "two", *usual, "--update-freq", 2, "--max-epoch", 1, processes=2)
    for key in ("train_loss", "train_accuracy"):
        assert two.log(key) == one.log(key)
    same_weights(tmp_path / "one", tmp_path / "two", 1e-5)
