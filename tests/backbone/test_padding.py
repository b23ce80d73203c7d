"""Whether there are pads is asked once, on a CPU, and of no other device."""

from __future__ import annotations

import pytest
import torch

from fairseq_idpg.backbone import encoder
from fairseq_idpg.backbone.real_tokens import ALL
from tests.device.watch import Watch
from tests.helpers import enlarge, logits, pair_batch, prompted, stock_twin, tiny_model

SMALL = {"phm_n": 4, "generator_hidden_size": 8}
METHODS = {
    "head-only": {},
    "fine-tuning": {},
    "prompt-tuning": {},
    "p-tuning-v2-kv": {},
    "lpt-mppg": {},
    "lpt-appg": {"prompt_layers": "all"},
    "id-spam": {},
    "m-idpg-phm+adapter": SMALL,
    "compacter-shared": {},
}
CPU = torch.device("cpu")
HEAD = "sentence_classification_head"


def batch(model, tokens, **more):
    extra = vars(prompted(tokens, 0, model.prompt_length)) if model.prompt_length else {}
    return {"src_tokens": tokens, **extra, **more}


def reads(model, tokens, **more) -> list[str]:
    given = batch(model, tokens, **more)
    with Watch(CPU) as watch:
        model(**given, classification_head_name=HEAD)[0].sum().backward()
    return [operation for _, operation in watch.reads.elements()]


@pytest.fixture
def as_elsewhere(monkeypatch):
    """Pads are computed like all tokens, as on other devices."""
    monkeypatch.setattr(encoder, "real_tokens", lambda padding: ALL)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_no_number_is_read_where_the_batch_tells(method, padded, training, as_elsewhere):
    tokens = pair_batch() if padded else pair_batch()[:, :6]
    model = tiny_model(method=method, dropout=0.1, attention_dropout=0.1, **METHODS[method]).train(training)
    assert reads(model, tokens, padded=padded) == []


@pytest.mark.parametrize(("method", "passes"), [("prompt-tuning", 1), ("m-idpg-phm", 2)])
def test_where_nobody_tells_a_cpu_is_asked_once_a_pass(method, passes, as_elsewhere):
    """fairseq asks before every layer, which shows that the count counts."""
    model = tiny_model(method=method, **(SMALL if "phm" in method else {})).train()
    assert reads(model, pair_batch()) == ["_local_scalar_dense"] * passes
    with Watch(CPU) as watch:
        stock_twin(model)(pair_batch(), features_only=True)
    assert watch.reads.total() >= model.args.encoder_layers


@pytest.mark.parametrize("method", METHODS)
def test_no_other_device_is_asked(method):
    """torch's meta device has shapes and no numbers: whatever asks for one fails."""
    model = tiny_model(method=method, **METHODS[method]).train().to("meta")
    given = {name: value.to("meta") for name, value in batch(model, pair_batch()).items()}
    model(**given, classification_head_name=HEAD)[0].sum().backward()
    assert all(p.grad is not None for p in model.classification_heads.parameters())
    with pytest.raises(RuntimeError):
        bool(given["src_tokens"].eq(1).any())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("method", METHODS)
def test_no_gpu_is_waited_for(method):
    model = tiny_model(method=method, **METHODS[method]).train().cuda()
    given = {name: value.cuda() for name, value in batch(model, pair_batch()).items()}
    torch.cuda.set_sync_debug_mode("error")
    try:
        model(**given, classification_head_name=HEAD)[0].sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


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
