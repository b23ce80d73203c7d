"""LPT: its parameters, its dropout, where its rows start; pooling of a batch against torch's own of one example."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_idpg.backbone.injection import States
from fairseq_idpg.methods.prompts.lpt import POOLS, adaptive_bins
from tests.contract import Row
from tests.helpers import enlarge, tiny_model
from tests.models.started import started
from tests.plain import plain_linear_of


def states_of(text):
    """What a generator reads, T x d."""
    kinds = {"states": text.below, "words": text.words, "embeddings": text.embedded, "last": text.last}
    return kinds[str(text.args.generator_input)]


def generator_and_bias(method, number):
    bias = None if method.bias is None else method.bias[number % len(method.bias)]
    return method.generators[number % len(method.generators)], bias


def by_hand(method, number, text):
    x, (generator, bias) = states_of(text), generator_and_bias(method, number)
    kind, length = str(text.args.lpt_generator), text.args.prompt_length
    if kind == "npg":
        rows = generator.up(F.relu(plain_linear_of(generator.down, x[0]))).view(method.rows, -1)
        return rows if bias is None else rows + bias
    parts = method.rows // length
    tokens = torch.stack([plain_linear_of(generator.down, token) for token in x])
    pool = F.adaptive_max_pool1d if kind == "mppg" else F.adaptive_avg_pool1d
    made = [generator.up(F.relu(each)).view(parts, -1) for each in pool(tokens.t()[None], length)[0].t()]
    return torch.stack([each[part] + (0 if bias is None else bias[part]) for part in range(parts) for each in made])


OWN = " ".join(["bias", *(f"generators.0.{name}" for name in ("down.weight", "down.bias", "up.weight"))])
SHARED = ({"generator_sharing": "L", "prompt_layers": "all"}, {"generator_sharing": "M", "prompt_layers": "all"})
CONTRACT = {
    "lpt-npg": Row(791_680, OWN, by_hand, variants=SHARED, published={"generator_dropout": 0.1}),
    "lpt-mppg": Row(263_296, OWN, by_hand, variants=({"generator_bias": "false"},)),
    "lpt-appg": Row(263_296, OWN, by_hand, variants=SHARED),
}


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


def test_the_table_starts_as_the_released_one():
    """From N(0, 1); joined rows need no positions, so there may be many."""
    table = started("lpt-naive", prompt_length=300).method.table.detach()
    assert table.shape == (1, 300, 32) and table.std().item() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(("layers", "place"), [(1, 0), (2, 1), (24, 13)])
def test_the_middle_is_the_papers_best_layer(layers, place):
    """LPT's k = 13 of 24; in a stack of two there is nothing above the second layer."""
    assert tiny_model(method="lpt-naive", encoder_layers=layers).method.places == (place,)


def pads(length: int, examples: int = 4):
    """B x T, at least one real token each."""
    row = st.lists(st.booleans(), min_size=length, max_size=length).filter(lambda row: not all(row))
    return st.lists(row, min_size=1, max_size=examples)


@settings(max_examples=200)
@given(padding=st.integers(1, 17).flatmap(pads), bins=st.integers(1, 9))
def test_bins_are_torchs(padding, bins):
    """Pads may stand anywhere: late rows join behind them. More bins than tokens, too."""
    padding = torch.tensor(padding)
    x = torch.randn(padding.size(1), len(padding), 3, dtype=torch.float64)
    states = States(x.masked_fill(padding.t()[..., None], float("nan")), padding)
    whole = States(x)
    for pool, torchs in ((POOLS["mppg"], F.adaptive_max_pool1d), (POOLS["appg"], F.adaptive_avg_pool1d)):
        for given_states, real in ((states, ~padding), (whole, torch.ones_like(padding))):
            ours = pool(*adaptive_bins(given_states, given_states.x.nan_to_num(7.0), bins))
            for example, chosen in enumerate(real):
                theirs = torchs(x[chosen, example].t()[None], bins)[0].t()
                torch.testing.assert_close(ours[example], theirs, atol=1e-12, rtol=0)
