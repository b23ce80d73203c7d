"""What a run is, and what its identity depends on."""

import hashlib
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from preprocess.errors import InputError
from run_scripts.run.experiment import backbone_digest, file_digest, folder_digest
from tests.folders import write_backbone


def test_a_run_is_the_same_wherever_its_files_lie(rte, tmp_path):
    shutil.copytree(rte.data, tmp_path / "other")
    shutil.copy(rte.backbone, tmp_path / "model.pt")
    moved = {"data": str(tmp_path / "other"), "backbone": str(tmp_path / "model.pt")}
    assert replace(rte, **moved).run == rte.run
    for start in ("init_prompts_from", "init_head_from"):
        runs = [replace(rte, **{start: path}).run for path in (rte.backbone, moved["backbone"])]
        assert runs[0] == runs[1] != rte.run
    assert len(rte.run) == 12 and set(rte.run) <= set("0123456789abcdef")


def test_whatever_decides_the_result_is_in_the_identity(rte, tmp_path):
    copy = shutil.copytree(rte.data, tmp_path / "data")
    labels = copy / "label" / "train.bin"
    labels.write_bytes(labels.read_bytes()[::-1])
    other = str(write_backbone(tmp_path / "model.pt", seed=1))
    changes = [
        *({"seed": 2}, {"lr": 2e-3}, {"k": 100}, {"position": 1}, {"row": "M-16-previous"}, {"selection": "paper"}),
        *({"options": ("--prompt-length", "10")}, {"supplementary_position": 0}, {"warm_up": 0.06}),
        *({"source_run": "ab" * 6, "source_task": "QQP"}, {"data": str(copy)}, {"backbone": other}),
        *({"init_prompts_from": other}, {"init_prompts_from": rte.backbone}),
    ]
    runs = [rte.run, *(replace(rte, **change).run for change in changes)]
    assert len(set(runs)) == len(runs)


def test_the_authors_position_is_the_same_run_named_or_not(rte):
    """0, for pairs too, as in their scripts; what Figure 7 finds best is another."""
    assert rte.prompt_position == 0 and replace(rte, position=0).run == rte.run
    assert (rte.best_position, replace(rte, task="CR").best_position) == (1, 0)


def test_the_same_weights_in_another_file_are_the_same_run(rte, tmp_path):
    """Written by another version of torch, with a head and other facts beside them."""
    state = torch.load(rte.backbone, weights_only=True)
    head = {"classification_heads.mnli.dense.weight": torch.ones(2, 2)}
    other = tmp_path / "model.pt"
    torch.save({**state, "model": {**state["model"], **head}, "extra_state": {"val_loss": 1.0}}, other)
    assert file_digest(str(other)) != file_digest(rte.backbone)
    assert replace(rte, backbone=str(other)).run == rte.run


def test_word_vectors_count_for_runs_that_read_them(rte, tmp_path):
    copy = shutil.copytree(rte.data, tmp_path / "data")
    plain = replace(rte, data=str(copy))
    glove, chosen = replace(plain, method="m-idpg-phm-glove"), replace(plain, options=("--representation", "glove"))
    before = [run.run for run in (plain, glove, chosen)]
    (copy / "glove").mkdir()
    np.save(copy / "glove" / "train.npy", np.zeros(3))
    folder_digest.cache_clear()
    after = [run.run for run in (plain, glove, chosen)]
    assert before[0] == after[0] and before[1] != after[1] and before[2] != after[2]


@pytest.mark.parametrize("option", ["--source-prompts", "--spot-target", "--spot-embeddings", "--finetune-from-model"])
def test_a_file_that_an_option_names_counts_by_what_it_holds(rte, tmp_path, option):
    one, moved, other = (tmp_path / name for name in ("one.pt", "moved.pt", "other.pt"))
    for path, text in ((one, "x"), (moved, "x"), (other, "y")):
        path.write_text(text)
    words = [(option, f"{path}") for path in (one, moved, other, f"{one},{other}", f"{other},{one}")]
    words += [(f"{option}={path}",) for path in (one, moved)]
    runs = [replace(rte, options=given).run for given in words]
    assert runs[0] == runs[1] and runs[5] == runs[6] and len({rte.run, *runs}) == 6
    with pytest.raises(InputError, match=f"{option} {tmp_path}/gone.pt does not exist"):
        _ = replace(rte, options=(option, f"{tmp_path}/gone.pt")).run


def test_a_run_without_what_came_later_is_the_run_that_it_was(rte):
    """Of the fields that there were, so that results of earlier versions are taken for what they are."""
    names = "task method lr seed row k dev_examples selection supplementary_position supplementary batch_size arch"
    names += " max_epoch max_update init_prompts_from init_head_from options"
    decides = {name: getattr(rte, name) for name in names.split()}
    decides |= {"position": 0, "protocol": 2, "backbone": backbone_digest(rte.backbone)}
    decides |= {"data": folder_digest(rte.data, False)}
    assert rte.run == hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:12]
    assert replace(rte, eval_tasks=("MRPC",), eval_data=(rte.data,)).run == rte.run
