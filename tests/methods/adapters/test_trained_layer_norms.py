"""LayerNorms that were trained with adapters are never lost: they are saved, and not loaded where they are frozen."""

from __future__ import annotations

import pytest

from tests.folders import train

OPTIONS = ["--method", "compacter-shared", "--adapter-hidden-size", 8]


def run(pairs, folder, backbone, *options, **more):
    return train(pairs, folder, "--backbone", backbone, *OPTIONS, *options, without="--phm-n", **more)


@pytest.fixture(scope="module")
def finished(pairs, backbone, tmp_path_factory):
    """(finished run, save folder)."""
    folder = tmp_path_factory.mktemp("compacter")
    return run(pairs, folder, backbone, "--max-epoch", 1), folder


def test_the_log_counts_them(finished):
    output = finished[0].output
    # 6 x 3 x (32 + 8) + 4^3 of the method; 7 LayerNorms of 2 x 32; 32 x 32 + 32 + 2 x 33 of the head
    assert "method compacter-shared: 2,354 trainable of" in output
    assert "method 784 (" in output and "head 1,122" in output and "frozen but for 448 that the method trains" in output


@pytest.mark.parametrize("start", [True, False], ids=["started from", "resumed"])
def test_they_are_not_loaded_into_a_frozen_backbone(start, finished, pairs, backbone, tmp_path):
    """They would be left out of the next checkpoint."""
    anew = ["--restore-file", finished[1] / "checkpoint_last.pt", "--reset-optimizer"]
    anew += ["--reset-dataloader", "--reset-meters"]
    options = ["--train-layer-norms", "false", "--max-epoch", 2, *(anew if start else [])]
    line = run(pairs, tmp_path if start else finished[1], backbone, *options, succeed=False).last_line
    assert "--train-layer-norms true" in line
