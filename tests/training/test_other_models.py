"""Other models of fairseq, in a process that has imported this package, are trained as they are without it."""

import json
import random
import subprocess
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_idpg.saving.tensors import digest_of
from tests.folders import OF_TASK, TRAINING, words_dictionary, write_backbone, write_folder, write_indexed

SIZE = ["--encoder-layers", "2", "--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "32"]
SIZE += ["--encoder-attention-heads", "2"]
DECODER = ["--decoder-layers", "1", "--decoder-embed-dim", "16", "--decoder-ffn-embed-dim", "32"]
DECODER += ["--decoder-attention-heads", "2", "--decoder-output-dim", "16"]
USUAL = ["--optimizer", "adam", "--lr", "1e-2", "--batch-size", "4", "--cpu", "--num-workers", "0", "--max-epoch"]
MODELS = {
    "mlm": ["--task", "masked_lm", "--arch", "roberta", "--criterion", "masked_lm", "--tokens-per-sample", "24", *SIZE],
    "translation": [
        *("--task", "translation", "--source-lang", "a", "--target-lang", "b", "--arch", "transformer"),
        *("--criterion", "label_smoothed_cross_entropy", "--lr-scheduler", "reduce_lr_on_plateau", *SIZE, *DECODER),
    ],
}
# Trains in one process, with this package if the second argument says so: then a model of ours is trained first.
PROGRAM = """
import argparse, json, sys
import torch
trainings, ours = json.loads(sys.argv[1]), sys.argv[2] == "True"
torch.serialization.add_safe_globals([argparse.Namespace])  # which fairseq's checkpoints hold
if ours:
    import fairseq_idpg
from fairseq_cli.train import cli_main
if ours:
    fairseq_idpg.training.fairseq_patches.install()  # as in a process of fairseq-train
else:
    trainings = trainings[1:]
for words in trainings:
    sys.argv = ["fairseq-train", *words]
    cli_main()
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder, draw = tmp_path_factory.mktemp("data"), random.Random(0)
    for split, count in (("train", 90), ("valid", 60)):
        rows = [[draw.randrange(4, 50) for _ in range(draw.randint(3, 9))] + [2] for _ in range(count)]
        write_indexed(folder / "mlm" / split, rows)
        for language in "ab":
            write_indexed(folder / "translation" / f"{split}.a-b.{language}", rows)
    for path in ("mlm/dict.txt", "translation/dict.a.txt", "translation/dict.b.txt"):
        words_dictionary().save(str(folder / path))
    return folder


def digest(checkpoint: Path, *parts: str) -> str:
    state = torch.load(checkpoint, weights_only=True)
    return digest_of([state[part] for part in parts])


@pytest.fixture(scope="module")
def trained(data, python, tmp_path_factory):
    """Digests of the checkpoints of both models, whole and resumed; without this package, and with it."""
    found = []
    for ours in (False, True):
        place = tmp_path_factory.mktemp("trained")
        own = [write_folder(place / "pairs"), *OF_TASK, *TRAINING, "--cpu", "--max-epoch", 1]
        own += ["--backbone", write_backbone(place / "model.pt"), "--save-dir", place / "own"]
        trainings = [list(map(str, own))]
        for name, options in MODELS.items():
            for run, epochs in (("whole", "2"), ("parts", "1"), ("parts", "2")):
                save_dir = ["--save-dir", str(place / f"{name}-{run}")]
                trainings.append([str(data / name), *options, *USUAL, epochs, *save_dir])
        subprocess.run([str(python), "-c", PROGRAM, json.dumps(trainings), str(ours)], check=True)
        last = sorted(place.glob("*-*/checkpoint_last.pt"))
        found.append({path.parent.name: path for path in last})
    return found


def test_the_same_weights_as_without_this_package(trained):
    for name, alone in trained[0].items():
        parts = "model", "last_optimizer_state", "optimizer_history"
        assert digest(alone, *parts) == digest(trained[1][name], *parts), name
    whole, parts = (trained[1][f"mlm-{run}"] for run in ("whole", "parts"))
    assert digest(whole, "model") == digest(parts, "model")


def test_their_checkpoints_load_here(trained, data):
    for name, path in trained[0].items():
        overrides = {"data": str(data / name.split("-")[0])}
        (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], overrides)
        assert type(model).__module__.startswith("fairseq.models")
    backbone = write_backbone(Path(path.parent, "old", "model.pt"))
    assert checkpoint_utils.load_checkpoint_to_cpu(str(backbone))["cfg"]["model"] is not None
