"""An example's logits do not depend on its place in the batch, on padding, or on the device."""

from __future__ import annotations

import pytest
import torch

from tests.helpers import PAD, enlarge, logits, pair_batch, prompted, single_batch, tiny_model

METHODS = ["head-only", "prompt-tuning", "p-tuning-v2", "s-idpg-phm", "m-idpg-phm", "m-idpg-dnn"]
METHODS += ["lpt-naive", "lpt-npg", "lpt-mppg", "lpt-appg", "id-spam", "prefix-tuning", "mam"]
METHODS += ["dept", "ept", "smop", "attempt", "adamix"]
SHORT = {name: {"prompt_length": 5} for name in ("ept", "attempt", "mpt")}  # which fits in the tiny model's positions


@pytest.fixture(params=METHODS)
def model(request):
    options = {"phm_n": 4, "generator_hidden_size": 8} if "phm" in request.param else SHORT.get(request.param, {})
    built = tiny_model(method=request.param, **options)
    enlarge(built)
    return built.eval()


@pytest.mark.parametrize(("batch", "positions"), [(pair_batch, range(5)), (single_batch, (0, 1, 4))])
def test_order_and_padding(model, batch, positions):
    tokens = batch()
    wider = torch.nn.functional.pad(tokens, (0, 4), value=PAD)
    order = torch.tensor([2, 0, 1])
    with torch.no_grad():
        for position in positions:
            together = logits(model, tokens, position)
            torch.testing.assert_close(logits(model, tokens[order], position), together[order], atol=1e-5, rtol=0)
            torch.testing.assert_close(logits(model, wider, position), together, atol=1e-5, rtol=0)
            for i, row in enumerate(tokens):
                alone = logits(model, row[row != PAD][None], position)
                torch.testing.assert_close(alone[0], together[i], atol=1e-5, rtol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_device(model):
    tokens = pair_batch()
    with torch.no_grad():
        here = logits(model, tokens)
        model.cuda()
        extra = vars(prompted(tokens, 0, model.prompt_length)) if model.prompt_length else {}
        there, _ = model(
            tokens.cuda(),
            **{name: value.cuda() for name, value in extra.items()},
            classification_head_name="sentence_classification_head",
        )
    torch.testing.assert_close(there.cpu(), here, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "m-idpg-phm", "phm_n": 4, "generator_residual": True, "generator_layer_norm": True},
        *({"method": method, "prompt_layers": "all"} for method in METHODS if method.startswith(("lpt", "id-spam"))),
        *(
            {"method": method, **SHORT.get(method, {})}
            for method in ("dept", "ept", "smop", "attempt", "mpt", "adamix")
        ),
    ],
    ids=lambda options: options["method"],
)
def test_half_precision_modules_agree_with_float(options):
    """bfloat16 weights everywhere: no operation mixes precisions."""
    model = tiny_model(**options)
    enlarge(model)
    model.eval()
    with torch.no_grad():
        expected = logits(model, pair_batch())
        torch.testing.assert_close(logits(model.bfloat16(), pair_batch()).float(), expected, atol=0.04, rtol=0)


def test_positions_differ_and_the_prompt_matters():
    model = tiny_model(method="m-idpg-phm", phm_n=4)
    enlarge(model)
    with torch.no_grad():
        outputs = [logits(model, pair_batch(), position) for position in range(5)]
        model.method.bias.add_(1.0)
        outputs.append(logits(model, pair_batch(), 0))
    for i, one in enumerate(outputs):
        for other in outputs[i + 1 :]:
            assert (one - other).abs().max() > 1e-3
