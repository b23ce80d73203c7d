"""Whether there are pads is asked once, on a CPU, and of no other device."""

import pytest
import torch

from fairseq_idpg.backbone import encoder
from fairseq_idpg.backbone.cpu import ALL
from tests.device.watch import Watch
from tests.helpers import enlarge, logits, pair_batch, prompted, stock_twin, tiny_model

SMALL = {"phm_n": 4, "generator_hidden_size": 8}
METHODS = {
    "head-only": {},
    "p-tuning-v2-kv": {},
    "lpt-appg": {"prompt_layers": "all"},
    "id-spam": {},
    "m-idpg-phm+adapter": SMALL,
}
HEAD = "sentence_classification_head"


def batch(model, tokens, **more):
    extra = vars(prompted(tokens, 0, model.prompt_length)) if model.prompt_length else {}
    return {"src_tokens": tokens, **extra, **more}


@pytest.mark.parametrize(("method", "passes"), [("prompt-tuning", 1), ("m-idpg-phm", 2)])
def test_where_nobody_tells_a_cpu_is_asked_once_a_pass(method, passes, monkeypatch):
    """fairseq asks before every layer, which shows that the count counts. Pads are computed, as on other devices."""
    monkeypatch.setattr(encoder, "real_tokens", lambda padding: ALL)
    model = tiny_model(method=method, **(SMALL if "phm" in method else {})).train()
    given = batch(model, pair_batch())
    with Watch(torch.device("cpu")) as watch:
        model(**given, classification_head_name=HEAD)[0].sum().backward()
    assert [operation for _, operation in watch.reads.elements()] == ["_local_scalar_dense"] * passes
    with Watch(torch.device("cpu")) as watch:
        stock_twin(model)(pair_batch(), features_only=True)
    assert watch.reads.total() >= model.args.encoder_layers


ON_A_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


@ON_A_GPU
@pytest.mark.parametrize("method", METHODS)
def test_a_gpu_says_what_a_cpu_says(method):
    model = tiny_model(method=method, **METHODS[method])
    enlarge(model)
    with torch.no_grad():
        here = logits(model, pair_batch())
        given = {name: value.cuda() for name, value in batch(model, pair_batch()).items()}
        there, _ = model.cuda()(**given, classification_head_name=HEAD)
    torch.testing.assert_close(there.cpu(), here, atol=1e-5, rtol=0)


@pytest.mark.parametrize("method", METHODS)
def test_a_mask_without_pads_changes_nothing_but_rounding(method):
    """What other devices get where nobody tells."""
    model = tiny_model(method=method, **METHODS[method])
    enlarge(model)
    tokens = pair_batch()[:, :6]
    with torch.no_grad():
        found = [model(**batch(model, tokens, padded=told), classification_head_name=HEAD)[0] for told in (True, False)]
        torch.testing.assert_close(*found, atol=1e-5, rtol=0)
        assert torch.equal(found[1], logits(model, tokens))
