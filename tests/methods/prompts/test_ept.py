"""EPT: where A and B start, the folded prompt, what is refused; DePT's and SMoP's refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.base import WordEmbeddings
from fairseq_idpg.methods.prompts.ept import ALIGN, low_rank
from fairseq_idpg.models.prepare import check_method_effects
from tests.golden.golden2.case import FOLDER
from tests.helpers import enlarge, logits, pair_batch, tiny_model

SMALL = {"method": "ept", "prompt_length": 3, "words_rank": 2, "words_length": 12, "ept_init_length": 6}


def started(**options):
    """A model as a run has it at its start."""
    model = tiny_model(**{**SMALL, **options})
    words = WordEmbeddings(model.encoder.sentence_encoder.embed_tokens.weight, 4, lambda text: [])
    model.method.set_initial_values(model.args, words)
    return model


@pytest.mark.skipif(not FOLDER.is_dir(), reason="golden numbers of the other systems are not here")
@pytest.mark.parametrize(("split", "theirs"), [("first", "us_v"), ("both", "sqrt"), ("none", "u_v")])
@pytest.mark.parametrize("align", ALIGN)
def test_factors_are_those_of_the_plain_reading(align, split, theirs):
    sizes = json.loads((FOLDER / "ept_init.json").read_text())["hyper"]
    with np.load(FOLDER / "ept_init.npz") as file:
        rows = ALIGN[align](torch.from_numpy(file["P"]), sizes["M"])
        assert np.array_equal(rows.numpy(), file[f"aligned/{align}"])
        a, b = low_rank(rows, sizes["r"], split)
        np.testing.assert_allclose((a @ b).numpy(), file[f"AB/{align}/{theirs}"], atol=2e-5)
        np.testing.assert_allclose(a.abs().numpy(), np.abs(file[f"A/{align}/{theirs}"]), atol=2e-5)


def test_matrices_start_as_linears_do():
    """Uniform in 1/sqrt(inputs), of A's factor r; B is 0."""
    pair = tiny_model(method="dept", words_rank=4).method.words
    experts = tiny_model(method="ept").method.reparameterization.experts
    assert not pair.b.any()
    for parameter, inputs in ((pair.a, 4), (experts.down, 32), (experts.up, 256), (experts.up_bias, 256)):
        assert 0.95 < parameter.abs().max() * inputs**0.5 <= 1


@pytest.mark.parametrize("align", ALIGN)
def test_prompt_and_pair_start_from_one_long_prompt(align):
    """All of whose rows are words; full rank gives them back."""
    model = started(ept_init_align=align, words_rank=12)
    vectors, method = model.encoder.sentence_encoder.embed_tokens.weight.detach(), model.method
    added = method.words().detach()
    torch.testing.assert_close(added[:3], method.reparameterization.rows[0], atol=1e-5, rtol=0)
    nearest = torch.cdist(added[:6], vectors).min(1)
    assert nearest.values.max() < 1e-4 and len(set(nearest.indices.tolist())) == 6
    behind = added[:6] if align == "repeat" else torch.zeros(6, 32)
    torch.testing.assert_close(added[6:], behind, atol=1e-5, rtol=0)


def test_the_folded_prompt_gives_the_same_pass_and_needs_no_network():
    model = started()
    enlarge(model.method)
    model.method.train()
    made = logits(model, pair_batch())
    torch.testing.assert_close(logits(model.eval(), pair_batch()), made)
    model.args.no_save_optimizer_state = True
    state = model.state_dict()
    kept = {name for name in state if name.startswith("method.")}
    assert kept == {"method.table", "method.words.a", "method.words.b"}
    other = started()
    other.load_state_dict(state)
    torch.testing.assert_close(logits(other, pair_batch()), made)
    with pytest.raises(InputError, match="holds a folded prompt without the network that made it: train on from a"):
        logits(other.train(), pair_batch())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"words_rank": 13}, "--words-rank 13: an SVD of M x d rows has 12 values: give fewer"),
        ({"words_rank": 0}, "--words-rank 0 is no size"),
        ({"words_length": 0}, "--words-length 0 is no size"),
        ({"ept_experts": -1}, "--ept-experts -1: give 0 or more"),
        ({"ept_hidden_size": 0}, "--ept-hidden-size 0 is no size"),
        ({"ept_init_length": 2}, "--ept-init-length 2 has no 3 rows, which the prompt starts from: give 3 or more"),
        ({"ept_decomposition": "false"}, "--ept-decomposition false: --ept-fusion lowrank attends to A B"),
        (
            {"words_rank": 7, "ept_init_split": "both"},
            "--ept-init-length 6 with --words-rank 7: --ept-init-split both .*: give 7 or more rows",
        ),
    ],
)
def test_refused(options, message):
    with pytest.raises(InputError, match=message):
        started(**options)


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ({"ept_decomposition": "false", "ept_fusion": "none"}, "nothing is added to the words"),
        ({"prompt_init": "saved"}, "--prompt-init saved takes prompt and pair over"),
    ],
)
def test_a_long_prompt_that_starts_nothing(before, message):
    model = tiny_model(method="ept", **before)
    check_method_effects(model.args, model.method)
    model.args.ept_init_length = 90
    with pytest.raises(InputError, match=f"--ept-init-length 90 has no effect: {message}"):
        check_method_effects(model.args, model.method)


@pytest.mark.parametrize("split", ["first", "both", "none"])
@pytest.mark.parametrize("align", ["zeros", "repeat"])
def test_every_rank_can_be_trained(split, align):
    rank = SMALL["ept_init_length"] + (split != "both")
    words = started(words_rank=rank, ept_init_split=split, ept_init_align=align).method.words
    words().pow(3).sum().backward()
    assert (words.a.grad.abs().amax(0) + words.b.grad.abs().amax(1) > 1e-9).all()


@pytest.mark.parametrize("length", [11, 12, 13])
def test_nothing_is_put_behind_a_prompt_that_is_long_enough(length):
    model = started(ept_init_length=length, ept_init_align="repeat")
    if length < SMALL["words_length"]:
        return check_method_effects(model.args, model.method)
    with pytest.raises(InputError, match="--ept-init-align repeat has no effect: the long prompt has 12 rows and more"):
        check_method_effects(model.args, model.method)


def test_a_prompt_alone_may_be_longer_than_the_long_one():
    more = {"ept_decomposition": "false", "ept_fusion": "none", "prompt_length": 7, "ept_init_length": 5}
    assert started(**more).method.reparameterization.rows.shape == (1, 7, 32)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "dept", "words_alpha": 0.0}, "--words-alpha 0.0: A B would not be added"),
        ({"method": "dept", "words_alpha": float("nan")}, "--words-alpha nan"),
        ({"method": "dept", "words_rank": -1}, "--words-rank -1 is no size"),
        ({"method": "smop", "smop_prompts": 1}, "--smop-prompts 1: give 2 or more to choose from"),
        ({"method": "smop", "smop_chosen": 5}, "--smop-chosen 5: give 1 to --smop-prompts 4"),
        ({"method": "smop", "smop_chosen": 0}, "--smop-chosen 0: give 1 to --smop-prompts 4"),
    ],
)
def test_refused_of_the_others(options, message):
    with pytest.raises(InputError, match=message):
        tiny_model(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"words_alpha": float("inf")}, "--words-alpha inf"), ({"words_length": 0}, "--words-length 0 is no size")],
)
def test_sizes_of_dept_that_are_none(options, message):
    with pytest.raises(InputError, match=message):
        tiny_model(method="dept", **options)


def test_normal_rows_have_their_deviation():
    rows = started(prompt_init="normal", prompt_length=30, ept_init_length=40).method.reparameterization.rows
    assert rows.std().item() == pytest.approx(0.02, rel=0.1)


def test_words_begin_with_the_rows_of_the_first_layer():
    method = started(prompt_layers="all", words_rank=12).method
    torch.testing.assert_close(method.words()[:3], method.reparameterization.rows[0], atol=1e-5, rtol=0)


def test_a_rank_that_no_svd_has():
    with pytest.raises(InputError, match="--words-rank 33: an SVD of M x d rows has 32 values"):
        started(words_rank=33, words_length=40)


def test_the_table_begins_with_what_the_network_makes():
    method = started().method
    assert torch.equal(method.table, method.made_rows(method.reparameterization))


def test_which_parameters_are_prompt_and_words():
    method = started().method
    (rows,) = method.prompt_parameters()
    assert rows is method.reparameterization.rows
    assert set(method.word_parameters()) == {method.words.a, method.words.b}


@pytest.mark.parametrize(
    ("option", "value"), [("ept_init_length", 90), ("ept_init_align", "repeat"), ("ept_init_split", "both")]
)
def test_options_of_what_a_saved_prompt_brings_have_no_effect(option, value):
    model = tiny_model(method="ept", prompt_init="saved")
    check_method_effects(model.args, model.method)
    setattr(model.args, option, value)
    with pytest.raises(InputError, match=f"{value} has no effect: --prompt-init saved takes prompt and pair over"):
        check_method_effects(model.args, model.method)
