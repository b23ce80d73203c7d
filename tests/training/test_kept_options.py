"""What a checkpoint keeps of the options and the data of its training, and how a training that goes on is compared."""

import itertools
from argparse import Namespace
from dataclasses import fields

import pytest
from fairseq.dataclass.configs import CheckpointConfig, CommonConfig, DatasetConfig, DistributedTrainingConfig
from fairseq.dataclass.configs import OptimizationConfig as Optimization
from omegaconf import OmegaConf

from fairseq_idpg.criterions.sentence_prediction_idpg import SentencePredictionIDPGCriterionConfig
from fairseq_idpg.errors import InputError
from fairseq_idpg.models.config import RobertaIDPGConfig
from fairseq_idpg.tasks.config import SentencePredictionIDPGConfig
from fairseq_idpg.training.kept_options import CHANGEABLE, FIXED, KeptOptions, data_fingerprints
from tests.folders import write_folder

SECTIONS = {
    **{"task": SentencePredictionIDPGConfig, "model": RobertaIDPGConfig, "checkpoint": CheckpointConfig},
    **{"common": CommonConfig, "dataset": DatasetConfig, "optimization": Optimization},
    **{"distributed_training": DistributedTrainingConfig, "criterion": SentencePredictionIDPGCriterionConfig},
}


def run(folder, resumes=True, **changed):
    cfg = {section: {} for section in (*SECTIONS, "lr_scheduler")}
    cfg["task"] = {"data": str(folder), "prompt_position": 0}
    cfg["dataset"] = {"train_subset": "train", "valid_subset": "valid,valid1"}
    cfg["checkpoint"] = {"no_save_optimizer_state": False}
    cfg["optimizer"], cfg["criterion"] = {"_name": "adam", "weight_decay": 0.1}, {"_name": "sentence_prediction"}
    for name, value in changed.items():
        section, _, option = name.partition("__")
        cfg[section] = {**cfg[section], option: value} if option else value
    return KeptOptions(OmegaConf.create(cfg, flags={"allow_objects": True}), resumes)


def test_every_name_is_an_option():
    for sections in (FIXED, CHANGEABLE):
        for section, names in sections.items():
            assert set(names) <= {field.name for field in fields(SECTIONS[section])}


@pytest.mark.parametrize("option", ["head_init_from", "prompt_init_from"])
def test_a_start_from_a_checkpoint_has_its_head_and_prompt(pairs, option):
    """Of a training of ours; the same command goes on later."""
    state, given = run(pairs).state_dict(), {f"model__{option}": "a.pt"}
    with pytest.raises(InputError, match=f"^--{option.replace('_', '-')} a.pt has no effect"):
        run(pairs, resumes=False, **given).load_state_dict(state)
    run(pairs, **given).load_state_dict(state)


def test_a_start_from_a_checkpoint_names_starting_values_without_effect(pairs, caplog):
    state, given = run(pairs).state_dict(), {"model__method": "prompt-tuning", "model__prompt_init": "vocabulary"}
    run(pairs, resumes=False, **{**given, "model__prompt_init": "normal"}).load_state_dict(state)  # the preset's own
    run(pairs, **given).load_state_dict(run(pairs, **given).state_dict())
    assert not caplog.records
    run(pairs, resumes=False, **given).load_state_dict(state)
    (record,) = caplog.records
    assert "--prompt-init vocabulary" in record.message


def test_the_schedule_must_stay_unless_it_is_reset(pairs):
    state = run(pairs, lr_scheduler___name="polynomial_decay").state_dict()
    with pytest.raises(InputError, match="--lr-scheduler polynomial_decay, now fixed"):
        run(pairs, lr_scheduler___name="fixed").load_state_dict(state)
    run(pairs, lr_scheduler___name="fixed", checkpoint__reset_lr_scheduler=True).load_state_dict(state)


OPTIMIZERS = [  # those of a line read each other's checkpoints
    [{}],
    [{"common__fp16": True}, {"common__bf16": True}],
    [{"common__fp16": True, "common__memory_efficient_fp16": True}],
    [{"common__amp": True}],
]


@pytest.mark.parametrize(("before", "now"), list(itertools.product(sum(OPTIMIZERS, []), repeat=2)))
def test_the_kind_of_optimizer_must_stay(before, now, pairs):
    state = run(pairs, **before).state_dict()
    if not any(before in kind and now in kind for kind in OPTIMIZERS):
        with pytest.raises(InputError, match="an optimizer of"):
            run(pairs, **now).load_state_dict(state)
        state = run(pairs, checkpoint__no_save_optimizer_state=True, **before).state_dict()
    run(pairs, **now).load_state_dict(state)


def test_a_start_from_weights_says_what_the_method_was(pairs, caplog):
    """2 L adapters have the same names and sizes behind sublayers and beside them."""
    before = run(pairs, model__method="adapter", model__adapter_init_std=0.1, model__adapter_activation="gelu")
    changed = {"model__adapter_activation": "relu", "model__adapter_init_std": None, "task__prompt_position": 1}
    now = run(pairs, resumes=False, model__method="adapter-parallel", model__adapter_place="both", **changed)
    now.load_state_dict(before.state_dict())
    (record,) = caplog.records
    assert "--method adapter, now adapter-parallel; --adapter-activation gelu, now relu" in record.message
    run(pairs, resumes=False, model__method="adapter").load_state_dict(before.state_dict())
    assert len(caplog.records) == 1


def test_other_weights_of_classes_are_named(pairs, caplog):
    state = run(pairs, criterion__class_weights="").state_dict()
    run(pairs, criterion__class_weights='{"1": 2}').load_state_dict(state)
    assert '--class-weights , now {"1": 2}' in caplog.text


def test_an_optimizer_without_a_dataclass(pairs, caplog):
    """Its section is a namespace of all arguments; earlier versions did not record its name."""
    before, now = (run(pairs, optimizer=Namespace(_name="sgd", max_update=most)) for most in (2, 4))
    state = before.state_dict()
    for name in ("sgd", None):
        now.load_state_dict({**state, "fixed": {**state["fixed"], "--optimizer": name}})
    assert not caplog.records


def test_a_checkpoint_without_the_optimizer_is_named(pairs, caplog):
    run(pairs).load_state_dict(run(pairs, checkpoint__no_save_optimizer_state=True).state_dict())
    assert "--no-save-optimizer-state" in caplog.text


def test_validation_data_that_are_joined_are_compared(tmp_path):
    folder = write_folder(tmp_path / "d", splits={"train": 4, "valid": 4, "valid1": 4})
    apart, joined = ({}, {"dataset__combine_valid_subsets": True})
    states = [run(folder, **options).state_dict() for options in (apart, joined)]
    (folder / "label" / "valid1.bin").write_bytes((folder / "label" / "valid1.bin").read_bytes()[::-1])
    run(folder, **apart).load_state_dict(states[0])
    with pytest.raises(InputError, match="the validation data"):
        run(folder, **joined).load_state_dict(states[1])


def test_fingerprints_are_of_contents(tmp_path):
    folder, same = write_folder(tmp_path / "a"), write_folder(tmp_path / "b")
    scores = write_folder(tmp_path / "d", regression=True)
    subsets = {"train_subset": "train", "valid_subset": "valid"}

    def found(place):
        return data_fingerprints(str(place), subsets)

    def changed(place, name, content):
        before = found(place)
        (place / name).write_bytes(content)
        return [kind for kind, digest in found(place).items() if digest != before[kind]]

    assert found(folder) == found(same) != found(write_folder(tmp_path / "c", longest=11))
    assert changed(folder, "input0/train1.bin", b"1") == ["the training data"]  # a shard
    assert changed(same, "label/dict.txt", b"1 1\n0 1\n") == ["the training data", "the validation data"]
    assert changed(scores, "label/train.label", b"4.5\n") == ["the training data"]
