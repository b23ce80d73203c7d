"""IPL: relevance written out; pads count only where the released code is asked for."""

import pytest
import torch

from tests.contract import Row
from tests.helpers import PAD, enlarge, logits, pair_batch, tiny_model


def by_hand(method, number, text):
    """Each row times the sigmoid of its mean agreement with the words."""
    rows = []
    for row in method.table[number]:
        row = method.mlp(row)
        agreements = [method.query(row) @ method.key(word) for word in text.words]
        relevance = torch.sigmoid(sum(agreements) / len(agreements) / method.key.out_features**0.5)
        rows.append(relevance * row)
    return torch.stack(rows)


LAYERS = [f"{name}.{part}" for name in ("mlp.0", "mlp.2", "query", "key") for part in ("weight", "bias")]
CONTRACT = {
    "ipl": Row(
        *(2_246_784, " ".join(["table", *LAYERS]), by_hand),
        variants=({"prompt_layers": "all"}, {"ipl_hidden_size": 3}),
        published={"prompt_init": "standard-normal", "prompt_length": 16},
    )
}


@pytest.mark.parametrize("pads", ["left-out", "counted"])
def test_only_the_released_mean_depends_on_the_padding(pads):
    model = tiny_model(method="ipl", ipl_pads=pads)
    enlarge(model)
    model.method.key.bias.data.fill_(1.0)
    longer = torch.nn.functional.pad(pair_batch(), (0, 7), value=PAD)
    same = torch.allclose(logits(model, pair_batch()), logits(model, longer), atol=1e-5)
    assert same == (pads == "left-out")
