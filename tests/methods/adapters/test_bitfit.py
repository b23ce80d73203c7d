"""BitFit: the slot "weights". Its pass is the backbone's own; its parameters are too."""

import pytest

from fairseq_idpg import count
from tests.contract import Row
from tests.helpers import tiny_model

TRAINS = {"trains": lambda name: name.endswith(".bias"), "of_backbone": 271_360}
CONTRACT = {"bitfit": Row(0, "", lambda method, layer: {}, start=1e-6, **TRAINS)}
ENCODER = "encoder.sentence_encoder"


def biases(model):
    parameters = model.encoder.sentence_encoder.named_parameters(prefix=ENCODER)
    return {name: parameter for name, parameter in parameters if name.endswith(".bias")}


def test_without_layer_norms():
    model = tiny_model(method="bitfit", bitfit_layer_norms="false")
    trained = {name for name, p in model.encoder.named_parameters(prefix="encoder") if p.requires_grad}
    assert trained == {name for name in biases(model) if "norm" not in name}
    row = count.count_preset("roberta_idpg_large", "bitfit", bitfit_layer_norms="false")
    assert (row.own, row.of_backbone) == (0, 221_184)


@pytest.mark.parametrize("other", ["m-idpg-phm", "compacter-shared"])
def test_what_others_train_besides(other):
    """Parts of the backbone that either names, each once, are trained and saved."""
    model = tiny_model(method=f"bitfit+{other}")
    trained = {name for name, p in model.named_parameters() if p.requires_grad and name.startswith(ENCODER)}
    also = {name for name, _ in model.named_parameters() if other == "compacter-shared" and "norm" in name}
    assert trained == set(biases(model)) | {name for name in also if name.startswith(ENCODER)}
    assert trained <= set(model.state_dict())
