"""LPT: its parameters, its dropout, where its rows start."""

from __future__ import annotations

import pytest
import torch

from fairseq_idpg.backbone.injection import States
from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.base import WordEmbeddings
from tests.helpers import enlarge, tiny_model


@pytest.mark.parametrize(("options", "own"), [({}, 4), ({"prompt_layers": "0,2"}, 4), ({"generator_bias": "false"}, 2)])
def test_shared_parameters_do_not_grow_with_places(options, own):
    assert len(list(tiny_model(method="lpt-mppg", **options).method.parameters())) == own


def test_dropout_is_on_the_rows():
    """In training a share of the rows' numbers is zero and the others are larger, in evaluation none is."""
    model = tiny_model(method="lpt-npg", generator_dropout=0.5)
    enlarge(model)
    states = States(torch.randn(5, 3, 32))
    torch.manual_seed(0)
    rows = model.method.begin_pass(None)(2, states)
    dropped = model.train().method.begin_pass(None)(2, states)
    kept = dropped != 0
    assert rows.all() and 0.3 < kept.float().mean() < 0.7
    torch.testing.assert_close(dropped[kept], 2 * rows[kept])


def started(method, **options):
    """What --prompt-init sets, as a run starts with it."""
    model = tiny_model(method=method, **options)
    words = WordEmbeddings(model.encoder.sentence_encoder.embed_tokens.weight, 4, lambda text: [4])
    model.method.set_initial_values(model.args, words)
    return model.method.initial_rows


def test_the_table_starts_as_the_released_one():
    """From N(0, 1), or from words of the vocabulary; joined rows need no positions, so there may be many."""
    table = started("lpt-naive", prompt_length=300).detach()
    assert table.shape == (1, 300, 32) and table.std().item() == pytest.approx(1, abs=0.05)
    words = tiny_model(method="lpt-naive").encoder.sentence_encoder.embed_tokens.weight.detach()
    for row in started("lpt-naive", prompt_init="vocabulary")[0]:
        assert (words == row).all(1).any()


@pytest.mark.parametrize(
    "options",
    [{"method": "lpt-mppg"}, {"method": "id-spam"}, {"method": "lpt-npg", "generator_bias": "false"}],
    ids=str,
)
def test_without_rows_of_their_own_there_is_nothing_to_start_from(options):
    with pytest.raises(InputError, match="--prompt-init uniform: --method .* has no rows to start from: leave it out"):
        started(**options, prompt_init="uniform")
    assert started(**options) is None


def test_an_output_bias_of_all_rows_can_start_from_words():
    bias = started("lpt-npg", prompt_init="text", prompt_init_text="0").detach()
    assert bias.shape == (1, 5, 32) and torch.equal(bias[0, 0], bias[0, 1])


@pytest.mark.parametrize("method", ["lpt-npg", "lpt-mppg", "id-spam"])
def test_a_hidden_size_that_is_none(method):
    with pytest.raises(InputError, match="--generator-hidden-size 0 is no size"):
        tiny_model(method=method, generator_hidden_size=0)
