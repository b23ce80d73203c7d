"""The states that enter a layer, kept on disk, in the batches of a task and the pass of a model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fairseq_idpg.representations.states import find_state_caches
from fairseq_idpg.tasks.config import SentencePredictionIDPGConfig
from fairseq_idpg.tasks.task import SentencePredictionIDPGTask
from tests.folders import write_folder
from tests.helpers import tiny_model
from tests.representations.test_states import NO_DROPOUT

HALF = (torch.float16, torch.bfloat16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("data") / "pairs")


def opened(folder, model, place, **more):
    """(task, training data) whose batches bring states once they are there."""
    usual = {"num_classes": 2, "regression_target": False, "init_token": 0, "separator_token": 2, "max_positions": 64}
    cfg = SentencePredictionIDPGConfig(**{"data": str(folder), "seed": 1, "state_cache": str(place), **usual, **more})
    task = SentencePredictionIDPGTask.setup_task(cfg)
    task.state_cache = find_state_caches(cfg, model, training=True)
    return task, task.load_dataset("train")


def some_batches(dataset):
    return [dataset.collater([dataset[i] for i in part]) for part in (range(5), range(5, 9), [11], [3, 20, 7])]


def model_at(layer, precision=torch.float32, **more):
    return tiny_model(method="lpt-mppg", prompt_layers=str(layer), **{**NO_DROPOUT, **more}).to(precision)


@pytest.mark.parametrize("layer", [1, 2])
@pytest.mark.parametrize("swapped", ["none", "append"])
@pytest.mark.parametrize("shortened", [{}, {"shorten_method": "truncate", "max_positions": 14}])
def test_no_layer_below_is_run_and_the_states_are_those_of_a_pass(folder, tmp_path, layer, swapped, shortened):
    model = model_at(layer).train()
    task, dataset = opened(folder, model, tmp_path, swap_pairs=swapped, **shortened)
    assert all("states" not in batch["net_input"] for batch in some_batches(dataset))
    task.begin_epoch(1, model)
    assert model.training and np.load(next(tmp_path.glob("*.npy"))).shape == (int(dataset.sizes.sum()), 32)
    stack, reached = model.encoder.sentence_encoder, []
    for below in stack.layers[:layer]:
        below.register_forward_pre_hook(lambda *_: reached.append(1))
    head = "sentence_classification_head"
    for batch in some_batches(dataset):
        inputs = batch["net_input"]
        torch.manual_seed(5)
        logits, _ = model(**inputs, classification_head_name=head)
        assert not reached
        with torch.no_grad():
            expected = stack.states_before(layer, inputs["src_tokens"])
        text = inputs["src_tokens"].ne(1).t()
        torch.testing.assert_close(inputs["states"][text], expected[text], atol=2e-6, rtol=0)
        assert not inputs["states"][~text].any()
        torch.manual_seed(5)
        whole, _ = model(**{**inputs, "states": None}, classification_head_name=head)
        torch.testing.assert_close(logits, whole, atol=2e-6, rtol=0)
        reached.clear()


@pytest.mark.parametrize("precision", [torch.float32, *HALF])
@pytest.mark.parametrize("dtype", ["model", "float16"])
def test_precisions(folder, tmp_path, precision, dtype):
    """Rows are as narrow as the model, and float16 rounds those of float32 by less than 2^-11 of each number."""
    model = model_at(2, precision)
    task, dataset = opened(folder, model, tmp_path, state_cache_dtype=dtype)
    task.begin_epoch(1, model)
    for batch in some_batches(dataset):
        states, tokens = batch["net_input"]["states"], batch["net_input"]["src_tokens"]
        assert states.dtype == (precision if dtype == "model" else torch.float16)
        with torch.no_grad():
            expected = model.encoder.sentence_encoder.states_before(2, tokens).float()
            logits, _ = model(**batch["net_input"], classification_head_name="sentence_classification_head")
        text = tokens.ne(1).t()
        rounding = {torch.bfloat16: 2**-6, torch.float16: 2**-9}.get(precision, 2**-11)
        torch.testing.assert_close(states.float()[text], expected[text], atol=rounding, rtol=rounding)
        assert logits.dtype == precision and logits.isfinite().all()


def test_rows_follow_the_precision_of_the_moment(folder, tmp_path):
    model = model_at(2)
    task, dataset = opened(folder, model, tmp_path)
    task.begin_epoch(1, model)
    model.half()
    assert not dataset.states.complete
    task.begin_epoch(1, model)
    assert some_batches(dataset)[0]["net_input"]["states"].dtype == torch.float16
    assert sorted(np.load(path).dtype.name for path in tmp_path.glob("*.npy")) == ["float16", "float32"]


def test_what_the_name_depends_on(folder, tmp_path):
    def name(model, **more):
        return opened(more.pop("data", folder), model, tmp_path, **more)[1].states.key.name

    usual = name(model_at(2))
    assert name(model_at(2, generator_hidden_size=7)) == usual == name(model_at(2, generator_input="last"))
    other = model_at(2)
    other.backbone_fingerprint[0] = 1
    names = [
        usual,
        name(model_at(1)),
        name(other),
        name(model_at(2, activation_fn="relu")),
        name(model_at(2, layer_norm_eps=1e-12)),
        name(model_at(2), state_cache_dtype="float16"),
        name(model_at(2), swap_pairs="append"),
        name(model_at(2), separator_token=None),
        name(model_at(2), data=write_folder(tmp_path / "other", longest=11)),
    ]
    assert len(set(names)) == len(names)
