"""LPT's pooling of a batch against torch's own, which takes one example; where its rows start."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_idpg.backbone.injection import States
from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.base import WordEmbeddings
from fairseq_idpg.methods.prompts.lpt import adaptive_bins, adaptive_max, adaptive_mean
from tests.helpers import enlarge, tiny_model


def pads(length: int, examples: int = 4):
    """B x T, at least one real token each."""
    row = st.lists(st.booleans(), min_size=length, max_size=length).filter(lambda row: not all(row))
    return st.lists(row, min_size=1, max_size=examples)


@settings(deadline=None, max_examples=200)
@given(padding=st.integers(1, 17).flatmap(pads), bins=st.integers(1, 9))
def test_bins_are_torchs(padding, bins):
    """Pads may stand anywhere: late rows join behind them. More bins than tokens, too."""
    padding = torch.tensor(padding)
    x = torch.randn(padding.size(1), len(padding), 3, dtype=torch.float64)
    states = States(x.masked_fill(padding.t()[..., None], float("nan")), padding)
    whole = States(x)
    for pool, torchs in ((adaptive_max, F.adaptive_max_pool1d), (adaptive_mean, F.adaptive_avg_pool1d)):
        for given_states, real in ((states, ~padding), (whole, torch.ones_like(padding))):
            ours = pool(*adaptive_bins(given_states, given_states.x.nan_to_num(7.0), bins))
            for example, chosen in enumerate(real):
                theirs = torchs(x[chosen, example].t()[None], bins)[0].t()
                torch.testing.assert_close(ours[example], theirs, atol=1e-12, rtol=0)


def test_the_largest_of_equals_alone_gets_the_gradient():
    """As in torch: a bin of equal tokens does not spread it."""
    x = torch.ones(4, 1, 1, requires_grad=True)
    adaptive_max(*adaptive_bins(States(x), x, 1)).sum().backward()
    assert sorted(x.grad.flatten().tolist()) == [0, 0, 0, 1]


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
