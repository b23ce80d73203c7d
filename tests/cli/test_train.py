"""Real runs of fairseq-train and fairseq-validate."""

import pytest
import torch

from tests.folders import train, validate, write_backbone


def load(checkpoint):
    return torch.load(checkpoint, weights_only=True)


def test_unfrozen_backbone_is_trained_saved_and_serves_as_a_backbone(pairs, singles, backbone, tmp_path):
    first = train(pairs, tmp_path / "a", "--backbone", backbone, "--no-freeze-backbone", "--max-epoch", 1)
    supplementary = tmp_path / "a" / "checkpoint_last.pt"
    before, after = load(backbone)["model"], load(supplementary)["model"]
    assert all(key in after for key in before if "sentence_encoder" in key and not key.endswith("version"))
    key = "encoder.sentence_encoder.layers.0.fc1.weight"
    assert not torch.equal(before[key], after[key])
    loss = first.log("valid_loss")[-1:]
    assert validate(pairs, supplementary).log("valid_loss") == pytest.approx(loss, abs=1e-3)
    train(singles, tmp_path / "b", "--backbone", supplementary, "--max-update", 2)


def test_a_backbone_that_moves_or_is_not_needed_any_more(pairs, tmp_path):
    backbone, moved = write_backbone(tmp_path / "model.pt", seed=3), tmp_path / "elsewhere.pt"
    usual = ["--backbone", backbone, "--max-update", 2]
    frozen, whole = (train(pairs, tmp_path / str(len(more)), *usual, *more) for more in ([], ["--save-full-model"]))
    backbone.rename(moved)
    loss = pytest.approx(frozen.log("valid_loss")[-1:], abs=1e-3)
    assert whole.log("valid_loss")[-1:] == loss
    assert validate(pairs, tmp_path / "1" / "checkpoint_last.pt").log("valid_loss") == loss
    checkpoint = tmp_path / "0" / "checkpoint_last.pt"
    digest = bytes(load(checkpoint)["model"]["backbone_fingerprint"].tolist()).hex()
    assert f"backbone: {backbone} (SHA-256 {digest})" in frozen.output and "can_reuse_epoch_itr" not in frozen.output
    # 2 x 4^3 + 32 x 16 / 4 + 16 + 16 x 160 / 4 + 3 x 160 of the method, 32 x 32 + 32 + 2 x 33 of the head
    assert "method m-idpg-phm: 2,514 trainable of" in frozen.output
    assert f"--backbone {backbone} is not a file" in validate(pairs, checkpoint, succeed=False).last_line
    assert validate(pairs, checkpoint, "--model-overrides", {"backbone": str(moved)}).log("valid_loss") == loss
