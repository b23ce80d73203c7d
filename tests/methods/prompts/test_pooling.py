"""Pooling of a batch against torch's own, which takes one example."""

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_idpg.backbone.injection import States
from fairseq_idpg.methods.prompts.lpt import adaptive_bins, adaptive_max, adaptive_mean


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
    for pool, torchs in ((adaptive_max, F.adaptive_max_pool1d), (adaptive_mean, F.adaptive_avg_pool1d)):
        for given_states, real in ((states, ~padding), (whole, torch.ones_like(padding))):
            ours = pool(*adaptive_bins(given_states, given_states.x.nan_to_num(7.0), bins))
            for example, chosen in enumerate(real):
                theirs = torchs(x[chosen, example].t()[None], bins)[0].t()
                torch.testing.assert_close(ours[example], theirs, atol=1e-12, rtol=0)
