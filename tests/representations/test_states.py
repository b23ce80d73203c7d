"""The states that enter a layer, kept on disk: what is kept, for whom, and what is refused."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fairseq_idpg.errors import InputError
from fairseq_idpg.representations.cache import CacheKey
from fairseq_idpg.representations.states import StateCache, find_state_caches
from tests.folders import write_folder
from tests.helpers import tiny_model
from tests.tasks.test_dataset import make_task

WIDTH = 6
LENGTHS = np.array([3, 1, 7, 2, 7, 4])
TRUE = torch.randn(int(LENGTHS.sum()), WIDTH, generator=torch.Generator().manual_seed(0))
OF_EACH = TRUE.split(LENGTHS.tolist())


def cache(folder, precision="float32", rounded=False, lengths=LENGTHS, **changes):
    dtype = "float16" if rounded else precision
    usual = {"backbone": "b", "tokens": "t", "kind": "states before layer 2", "width": WIDTH}
    key = CacheKey(**{**usual, "rows": int(lengths.sum()), "dtype": dtype, "precision": precision, **changes})
    return StateCache(str(folder), key, lengths, 2, rounded)


def encode(index):
    return torch.cat([OF_EACH[i] for i in index])


def batches(size=2):
    order = np.argsort(-LENGTHS, kind="stable")
    return iter(np.array_split(order, range(size, len(order), size)))


@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("rounded", [False, True])
def test_states_come_back_in_batches(tmp_path, precision, rounded):
    dtype = getattr(torch, precision)
    made = cache(tmp_path / "new", precision, rounded)
    assert made.batch(np.array([0]), 3) is None
    made.fill(lambda index: encode(index).to(dtype), batches())
    index = np.array([4, 1, 4, 0])
    for found in (made, pickle.loads(pickle.dumps(made)), cache(tmp_path / "new", precision, rounded)):
        states = found.batch(index, 9)
        assert states.shape == (9, 4, WIDTH) and states.dtype == (torch.float16 if rounded else dtype)
        for place, example in enumerate(index):
            expected = OF_EACH[example].to(dtype).to(states.dtype)
            assert torch.equal(states[: len(expected), place], expected)
            assert not states[len(expected) :, place].any()


NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}


def find(folder, method, training=True, shorten_method="none"):
    cfg = SimpleNamespace(state_cache=str(folder), state_cache_dtype="model", shorten_method=shorten_method)
    return find_state_caches(cfg, tiny_model(**{**NO_DROPOUT, **method}), training)


LATE = {"method": "lpt-naive"}
CHANGING = [  # (model, task, the option that is named)
    ({"method": "prompt-tuning"}, {}, "--method prompt-tuning"),
    ({"method": "bitfit"}, {}, "--method bitfit"),
    ({**LATE, "no_freeze_backbone": True}, {}, "--no-freeze-backbone"),
    ({**LATE, "dropout": 0.1, "attention_dropout": 0.2}, {}, "--dropout 0.1 --attention-dropout 0.2"),
    ({**LATE, "activation_dropout": 0.1}, {}, "--activation-dropout 0.1"),
    (LATE, {"shorten_method": "random_crop"}, "--shorten-method random_crop"),
]


@pytest.mark.parametrize(("method", "task", "named"), CHANGING)
def test_states_that_change_are_not_kept(tmp_path, method, task, named):
    with pytest.raises(InputError, match=f"^--state-cache with {named}"):
        find(tmp_path, method, **task)


def test_nothing_is_drawn_where_nothing_is_trained(tmp_path):
    assert find(tmp_path, {**LATE, "dropout": 0.1}, training=False) is not None


def opened(folder, model, place, **more):
    """(task, training data) whose batches bring states once they are there."""
    task = make_task(folder, prompt_length=0, state_cache=str(place), **more)
    task.state_cache = find_state_caches(task.cfg, model, training=True)
    return task, task.load_dataset("train")


def some_batches(dataset):
    return [dataset.collater([dataset[i] for i in part]) for part in (range(5), range(5, 9), [11], [3, 20, 7])]


def model_at(layer, precision=torch.float32, **more):
    return tiny_model(method="lpt-mppg", prompt_layers=str(layer), **{**NO_DROPOUT, **more}).to(precision)


@pytest.mark.parametrize("layer", [1, 2])
@pytest.mark.parametrize("swapped", ["none", "append"])
@pytest.mark.parametrize("shortened", [{}, {"shorten_method": "truncate", "max_positions": 14}])
def test_no_layer_below_is_run_and_the_states_are_those_of_a_pass(pairs, tmp_path, layer, swapped, shortened):
    model = model_at(layer).train()
    task, dataset = opened(pairs, model, tmp_path, swap_pairs=swapped, **shortened)
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


def test_what_the_name_depends_on(pairs, tmp_path):
    def name(model, **more):
        return opened(more.pop("data", pairs), model, tmp_path, **more)[1].states.key.name

    usual = name(model_at(2))
    assert name(model_at(2, generator_hidden_size=7)) == usual == name(model_at(2, generator_input="last"))
    other = model_at(2)
    other.backbone_fingerprint[0] = 1
    models = [model_at(1), other, model_at(2, activation_fn="relu"), model_at(2, layer_norm_eps=1e-12)]
    # a whole model has its own weights, whatever file it came from
    models += [model_at(2, save_full_model=True), model_at(2, save_full_model=True)]
    models[-1].encoder.half().float()
    changes = [{"state_cache_dtype": "float16"}, {"swap_pairs": "append"}, {"separator_token": None}]
    changes.append({"data": write_folder(tmp_path / "other", longest=11)})
    names = [usual, *map(name, models), *(name(model_at(2), **change) for change in changes)]
    assert len(set(names)) == len(names)
