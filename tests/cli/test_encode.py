"""python -m fairseq_idpg.encode fills what fairseq-train then finds."""

import shutil

import numpy as np
import pytest

from fairseq_idpg.encode import main
from fairseq_idpg.representations import cache as representation_cache
from fairseq_idpg.representations.kinds import sentence_representation
from tests.folders import train, write_backbone, write_folder


def encode(data, backbone, cache, *options):
    usual = ["--backbone", backbone, "--representation-cache", cache, "--max-positions", 64, "--cpu"]
    main([str(part) for part in (data, *usual, *options)])


def test_training_finds_the_rows(pairs, backbone, tmp_path, capsys):
    encode(pairs, backbone, tmp_path / "cache")
    assert "train: 24 rows written" in capsys.readouterr().out
    options = ["--backbone", backbone, "--max-epoch", 1, "--representation-cache", tmp_path / "cache"]
    assert "M(x) of" not in train(pairs, tmp_path / "run", *options).output
    encode(pairs, backbone, tmp_path / "cache")
    assert "train: 24 rows were there" in capsys.readouterr().out


def test_a_folder_without_labels(backbone, tmp_path, capsys):
    """It would be left out without a word."""
    data = write_folder(tmp_path / "data", splits={"test": 5})
    for file in data.glob("label/test.*"):
        file.unlink()
    with pytest.raises(SystemExit, match=f"{data} has no split with labels: .*--splits test$"):
        encode(data, backbone, tmp_path / "cache")
    (data / "label" / "dict.txt").write_text("madeupword0000 0\n")  # as preprocess leaves it without labels
    encode(data, backbone, tmp_path / "cache", "--splits", "test")
    assert "test: 5 rows written" in capsys.readouterr().out


def test_a_backbone_that_is_written_to_meanwhile_leaves_no_rows(pairs, tmp_path, monkeypatch):
    """They would be found under the name of the old one for ever."""
    backbone, other = write_backbone(tmp_path / "model.pt"), write_backbone(tmp_path / "other.pt", seed=1)
    encode(pairs, backbone, tmp_path / "expected")
    original = backbone.read_bytes()

    def computed(*args, **more):
        shutil.copyfile(other, backbone)
        return sentence_representation(*args, **more)

    refused = pytest.raises(SystemExit, match=f"--backbone {backbone} was written to while it was in use")
    with monkeypatch.context() as patch, refused:
        patch.setattr(representation_cache, "sentence_representation", computed)
        encode(pairs, backbone, tmp_path / "cache")
    backbone.write_bytes(original)
    encode(pairs, backbone, tmp_path / "cache")
    for path in (tmp_path / "expected").glob("*.npy"):
        np.testing.assert_array_equal(np.load(path), np.load(tmp_path / "cache" / path.name))
