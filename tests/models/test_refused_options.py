"""Options that would have no effect: one line each that says why; and those that only seem to have none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fairseq_idpg.errors import InputError
from fairseq_idpg.models.prepare import check_effects
from fairseq_idpg.representations.kinds import GLOVE
from tests.helpers import logits, pair_batch, tiny_model

from .started import OF_THE_TASK, behaviour, differ, made, usual

ONE_PLACE = {"prompt_layers": "first"}
INPUT = {**ONE_PLACE, "prompt_insertion": "add"}
NO_INPUT = {"prompt_insertion": "key-value", "prompt_layers": "1,2"}


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        (
            "prompt-tuning",
            {"prompt_insertion": "replace"},
            "--prompt-insertion replace has no effect: with a prompt in th",
        ),
        ("s-idpg-phm", {"generator_sharing": "L"}, "--generator-sharing L has no effect: one prompt shares with none"),
        ("m-idpg-phm", {**NO_INPUT, "prompt_layers": "2", "generator_sharing": "S"}, "--generator-sharing S has no"),
        (
            "s-idpg-phm",
            {"representation": "previous-layer"},
            "previous-layer has no effect: the input's prompt is made",
        ),
        (
            "m-idpg-phm",
            {**NO_INPUT, "generator_residual": True},
            "--generator-residual has no effect: --prompt-layers 1,2",
        ),
        (
            "m-idpg-phm",
            {**NO_INPUT, "generator_layer_norm": True},
            "--generator-layer-norm has no effect: --prompt-lay",
        ),
        (
            "m-idpg-phm",
            {**NO_INPUT, "representation_dropout": True},
            "--representation-dropout has no effect: no layer",
        ),
        ("lpt-npg", {"prompt_layers": "first"}, "--prompt-layers first has no effect: below layer 0 <s> is the same"),
        ("lpt-appg", {"generator_sharing": "L"}, "--generator-sharing L has no effect: one prompt shares with none"),
        ("id-spam", {"prompt_layers": "all", "generator_sharing": "M"}, "M has no effect: without biases M is S"),
        ("lpt-appg", {**INPUT, "generator_input": "words"}, "words has no effect: the input's prompt is made from th"),
        ("id-spam", {**INPUT, "generator_input": "states"}, "states has no effect: the input's prompt is made from t"),
        ("id-spam", {"prompt_layers": "first", "generator_input": "embeddings"}, "embeddings has no effect: what ente"),
        (
            "adapter",
            {"train_layer_norms": "true", "no_freeze_backbone": True},
            "true has no effect: --no-freeze-backbone",
        ),
        (
            "compacter-shared",
            {"train_layer_norms": "false", "no_freeze_backbone": True},
            "false has no effect: --no-free",
        ),
        (
            "head-on-representation",
            {"head_input": "token-mean", "no_freeze_backbone": True},
            "token-mean reads word embeddings alone, and --no-freeze-backbone trains the layers",
        ),
        (
            "head-on-representation+bitfit",
            {"head_input": "token-mean"},
            "token-mean reads word embeddings alone, and --method head-on-representation.bitfit trains the layers",
        ),
        (
            "m-idpg-phm",
            {"representation": GLOVE, "representation_width": 8, "generator_residual": True},
            "--representation glove needs word vectors of 32 numbers",
        ),
    ],
)
def test_refused(method, options, message):
    with pytest.raises(InputError, match=message):
        made(method, **{**usual(method), **options})


def test_a_preset_may_say_what_another_option_says_already():
    made("compacter-shared", no_freeze_backbone=True)
    made("m-idpg-phm", phm_n=4, **ONE_PLACE)


def test_word_vectors_as_wide_as_the_rows_can_be_added():
    both = {"representation": GLOVE, "representation_width": 32}
    assert differ(*(behaviour(made("s-idpg-dnn", generator_residual=r, **both)) for r in (True, False)))


def test_a_generator_that_reads_previous_layers_alone_needs_no_second_pass():
    model = made("m-idpg-phm", phm_n=4, **NO_INPUT).train()
    passes = []
    model.encoder.register_forward_hook(lambda *_: passes.append(1))
    logits(model, pair_batch()).sum().backward()
    assert model.method.representation is None and len(passes) == 1
    assert all(p.grad is not None for p in model.method.parameters())


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"prompt_position": 1}, "--prompt-position 1 has no effect: --method adapter inserts no rows into the input"),
        ({"representation_cache_dtype": "float16"}, "float16 has no effect without --representation-cache"),
        ({"state_cache_dtype": "float16"}, "--state-cache-dtype float16 has no effect without --state-cache"),
        ({"group_by_length": True, "no_shuffle": True}, "--group-by-length has no effect with --no-shuffle"),
    ],
)
def test_options_of_the_task(task, message):
    cfg = SimpleNamespace(**{**OF_THE_TASK, **task})
    model = tiny_model(method="adapter")
    with pytest.raises(InputError, match=message):
        check_effects(cfg, model.args, model.method)
