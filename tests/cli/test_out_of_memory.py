"""A batch that does not fit into memory ends the run: fairseq would leave it out and go on."""

from __future__ import annotations

import pytest
import torch

from fairseq_idpg.errors import InputError
from fairseq_idpg.out_of_memory import refuse_to_skip
from tests.folders import ROOT, train, validate

PLUGIN = """
import sys
sys.path.insert(0, {root!r})
import torch
import fairseq_idpg  # the task and the model
from fairseq.criterions import register_criterion
from fairseq_idpg.criterions.sentence_prediction_idpg import (
    SentencePredictionConfig, SentencePredictionIDPGCriterion
)
steps = iter(range(1000))

@register_criterion("no_room_once", dataclass=SentencePredictionConfig)
class NoRoomOnce(SentencePredictionIDPGCriterion):
    def forward(self, model, sample, reduce=True):
        if {where}:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return super().forward(model, sample, reduce)
"""


def without_room(folder, where):
    """Options of a criterion that finds no memory ``where``."""
    plugin = folder / "plugin_without_room"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(PLUGIN.format(root=str(ROOT), where=where))
    return ["--user-dir", plugin, "--criterion", "no_room_once"]


def test_a_run_that_would_skip_a_batch_fails(pairs, backbone, tmp_path):
    options = [*without_room(tmp_path, "model.training and next(steps) == 1"), "--backbone", backbone, "--max-epoch", 2]
    finished = train(pairs, tmp_path / "run", *options, succeed=False)
    assert finished.last_line.startswith("fairseq_idpg: update 2: a batch of 8 x "), finished.output[-2000:]
    assert "(CUDA out of memory. Tried to allocate 2.00 GiB.): give --update-freq 2" in finished.last_line
    assert "attempting to recover" not in finished.output and not list((tmp_path / "run").glob("*.pt"))


def test_a_validation_without_room(pairs, trained, tmp_path):
    options = without_room(tmp_path, "not model.training")
    validated = validate(pairs, trained[1] / "checkpoint_last.pt", *options, succeed=False)
    assert validated.last_line.startswith("fairseq_idpg: the validation: a batch of 5 x ")
    assert validated.last_line.endswith("GiB.): give a smaller --batch-size or --max-tokens")


def test_other_errors_pass():
    sample = {"net_input": {"src_tokens": torch.zeros(2, 3)}}
    with pytest.raises(RuntimeError, match="^other$"), refuse_to_skip(sample, 0):
        raise RuntimeError("other")
    with pytest.raises(InputError, match="update 5: a batch of 2 x 3 tokens"), refuse_to_skip(sample, 4):
        raise RuntimeError("HIP out of memory.\nmore")
