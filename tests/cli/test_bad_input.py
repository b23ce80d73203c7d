"""Bad input, and a batch that does not fit into memory: one line, a status other than 0, nothing half-written."""

import subprocess

import pytest
import torch
from fairseq.criterions.sentence_prediction import SentencePredictionCriterion

from tests.folders import ROOT, run, train, validate, write_backbone


def refuse(folder, save_dir, *options, without=""):
    """The last line of a run that is refused before anything is written."""
    finished = train(folder, save_dir, *options, "--max-update", 2, succeed=False, without=without)
    assert finished.last_line.startswith("fairseq_idpg: "), finished.output[-2000:]
    assert "Traceback" not in finished.output
    assert not list(save_dir.glob("*.pt"))
    return finished.last_line


def test_what_is_no_folder_or_backbone(trained, pairs, tmp_path):
    prompts = trained[1] / "checkpoint_best.pt"
    assert "nowhere" in refuse(tmp_path / "nowhere", tmp_path / "run", "--backbone", prompts)
    assert "--backbone is missing" in refuse(pairs, tmp_path)
    assert "holds prompts only" in refuse(pairs, tmp_path / "run", "--backbone", prompts)


def test_a_mistake_is_all_that_is_said(pairs, tmp_path, python, monkeypatch):
    """Without warnings of hydra and the configuration, which can be asked for."""
    options = ["--backbone", "nowhere.pt", "--max-update", 2]
    ended = train(pairs, tmp_path, *options, succeed=False, forked=True)
    assert ended.output.startswith("fairseq_idpg: ") and len(ended.output.splitlines()) == 1
    command = [python.with_name("fairseq-validate"), pairs, "--user-dir", ROOT / "fairseq_idpg"]
    ended = subprocess.run([*command, "--path", "x.pt"], capture_output=True, text=True)
    assert ended.stderr.splitlines()[-1].startswith("fairseq_idpg: --task is missing") and ended.returncode == 1
    monkeypatch.setenv("FAIRSEQ_IDPG_LOG", "debug")
    assert "'distributed_world_size': " in train(pairs, tmp_path, *options, succeed=False).output


def test_impossible_options(pairs, backbone, tmp_path):
    for option, value in (("--num-classes", 3), ("--restore-file", "nowhere.pt")):
        assert f"{option} {value} " in refuse(pairs, tmp_path, "--backbone", backbone, option, value)
    refused = run("validate", pairs, "--batch-size", 5, "--num-classes", 2, succeed=False)
    assert refused.last_line.startswith("fairseq_idpg: --path")
    ended = train(pairs, tmp_path, "--prompt-lenght", 5, succeed=False, forked=True)
    assert ended.last_line.endswith("--prompt-lenght 5: did you mean --prompt-length?")


def test_backbone_of_another_dictionary(pairs, tmp_path):
    backbone = write_backbone(tmp_path / "b" / "model.pt")
    text = (pairs / "input0" / "dict.txt").read_text()
    (tmp_path / "b" / "dict.txt").write_text(text.replace("w7 ", "w8x "))
    assert "'w8x'" in refuse(pairs, tmp_path / "run", "--backbone", backbone)


@pytest.mark.parametrize("more", [["--bf16"], ["--max-update", 1]], ids=["gradient", "validation"])
def test_a_run_that_diverges(pairs, backbone, tmp_path, more):
    """In the gradient of an update, or of the last one in the validation after it; see tests/device."""
    finished = train(pairs, tmp_path, "--backbone", backbone, "--lr", "1e38", *more, succeed=False)
    assert finished.last_line.startswith("fairseq_idpg: the run has diverged")
    assert ("validation" in finished.last_line) == ("--max-update" in more)
    assert not list(tmp_path.glob("*.pt"))


def test_another_backbone(trained, pairs, backbone, tmp_path):
    other = write_backbone(tmp_path / "other" / "model.pt", seed=1)
    moved = ["--model-overrides", {"backbone": str(other)}]
    validated = validate(pairs, trained[1] / "checkpoint_best.pt", *moved, succeed=False)
    resumed = train(pairs, trained[1], "--backbone", other, "--max-epoch", 6, succeed=False)
    for refused in (validated, resumed):
        assert "is not the backbone this checkpoint was trained on" in refused.last_line
    options = ["--restore-file", other, "--reset-optimizer", "--reset-dataloader", "--reset-meters"]
    assert "holds another encoder" in refuse(pairs, tmp_path / "run", "--backbone", backbone, *options)


def test_a_run_that_would_skip_a_batch_fails(pairs, backbone, tmp_path, monkeypatch):
    steps, forward = iter(range(1000)), SentencePredictionCriterion.forward

    def without_room(self, model, sample, reduce=True):
        if model.training and next(steps) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return forward(self, model, sample, reduce)

    monkeypatch.setattr(SentencePredictionCriterion, "forward", without_room)
    finished = train(pairs, tmp_path / "run", "--backbone", backbone, "--max-epoch", 2, succeed=False)
    assert finished.last_line.startswith("fairseq_idpg: update 2: a batch of 8 x "), finished.output[-2000:]
    assert not list((tmp_path / "run").glob("*.pt"))
