"""Recorded training passes: on a GPU they give the losses and weights of passes that are launched one by one."""

import pytest
import torch

from fairseq_idpg.models import graphs
from fairseq_idpg.models.graphs import BUCKET, lengthened, recordable, usable

from .cases import CASES, IDPG
from .steps import batch, started, step

NOT_RECORDABLE = {"adamix", "efl", "fine-tuning", "trained backbone", "n drawn", "SMoP's dropout"}
NOT_RECORDABLE |= {"AdaMix, none shared", "AdaMix, one pass"}


@pytest.mark.parametrize("case", sorted({*NOT_RECORDABLE, "prompt-tuning", "m-idpg-phm", "lora", "mlm", "smop"}))
def test_which_passes_can_be_recorded(place, case):
    """Not those in which the host draws (test_meta_step.py finds them), nor with terms of the loss beside logits."""
    assert recordable(started(place, **CASES[case]).model) == (case not in NOT_RECORDABLE)


def test_options_without_recordings(place):
    assert not recordable(started(place, **IDPG, checkpoint_activations=True).model)
    assert started(place, **IDPG, gpu_graphs="off").model.graphs is None


def test_when_passes_are_replayed(monkeypatch):
    gpu = torch.device("cuda")
    assert usable(gpu) and not usable(torch.device("cpu"))
    with torch.no_grad():
        assert not usable(gpu)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", iter((1, 2)).__next__)
    assert usable(gpu) and not usable(gpu)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: device == "cuda")
    assert not usable(gpu)


def test_the_second_batch_of_a_shape_is_recorded(place, monkeypatch):
    """With a stand-in for recordings, whose logits are none: what is launched has some."""

    class Recorded:
        def __init__(self, owner, model, batch, trained, options):
            assert model(**batch, **options)[0].requires_grad  # launched, not recorded within itself

        def replay(self, batch, trained):
            return {"logits": None}

    monkeypatch.setattr(graphs, "usable", lambda device: True)
    monkeypatch.setattr(graphs, "Recording", Recorded)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    model = (trainer := started(place, **IDPG)).model.train()

    def replayed(size=3, **more):
        given = batch(trainer, size=size)["net_input"]
        return model(**given, **more, classification_head_name="sentence_classification_head")[0] is None

    assert [replayed() for _ in range(3)] == [False, True, True]
    assert not replayed(return_all_hiddens=True) and not replayed(inspect=lambda injection: injection)
    assert [replayed(size=2) for _ in range(2)] == [False, True] and len(model.graphs.recordings) == 2
    monkeypatch.setattr(graphs, "MOST", 2)
    assert [replayed(size=4) for _ in range(3)] == [False] * 3 and replayed()
    model.eval()
    assert not replayed()
    model.train().double()  # the weights have moved
    assert not model.graphs.recordings


@pytest.mark.parametrize(
    "entry", [IDPG, {"method": "lpt-npg", "predict_with": "mlm"}, {**IDPG, "task": {"prompt_position": 4}}], ids=str
)
def test_a_longer_batch_has_the_same_logits(place, entry):
    trainer = started(place, **entry)
    model, given = trainer.model.eval(), batch(trainer)["net_input"]
    tensors = {name: value for name, value in given.items() if torch.is_tensor(value) and name != "src_lengths"}
    given = dict(given, classification_head_name="sentence_classification_head")
    longer = lengthened(tensors, pad=1)
    assert longer.get("prompted_tokens", longer["src_tokens"]).size(1) % BUCKET == 0
    assert longer["src_tokens"].size(1) > tensors["src_tokens"].size(1)
    with torch.no_grad():
        expected, _ = model(**given)
        found, _ = model(**{**given, **longer, "padded": True})
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-6)


def test_a_cpu_records_nothing(place):
    trainer = started(place, **IDPG)
    for _ in range(3):
        step(trainer, batch(trainer))
    assert trainer.model.graphs is not None and not trainer.model.graphs.seen


def test_a_pass_before_there_is_a_recording_is_as_long(place, monkeypatch):
    """Dropout draws by the shape: a training that goes on, and records anew, draws what one without a stop does."""
    monkeypatch.setattr("fairseq_idpg.models.graphs.usable", lambda device: True)
    model, lengths = (trainer := started(place, **IDPG)).model.train(), []
    model.encoder.sentence_encoder.layers[0].register_forward_pre_hook(lambda _, given: lengths.append(len(given[0].x)))
    given = batch(trainer)["net_input"]
    model(**given, classification_head_name="sentence_classification_head")
    assert given["prompted_tokens"].size(1) % BUCKET and lengths[-1] % BUCKET == 0 and not model.graphs.recordings


def long(samples):
    """A batch as the recordings have it: dropout draws for pads too, so that other lengths have other draws."""
    given = {name: each for name, each in samples["net_input"].items() if name in ("src_tokens", "prompted_tokens")}
    samples["net_input"].update(lengthened(given, pad=1), padded=True)
    return samples


def trained(place, graphs, entry, precision):
    """Losses and weights of steps on batches of three shapes, in turns; how many shapes were recorded."""
    trainer = started(place, device="cuda", gpu_graphs=graphs, common=precision, **entry)
    samples = [long(batch(trainer, size=size)) for size in (2, 3, 4)]
    losses = [step(trainer, each)["loss"] for _ in range(4) for each in samples]
    weights = {name: p.detach().clone() for name, p in trainer.model.named_parameters() if p.requires_grad}
    return losses, weights, 0 if trainer.model.graphs is None else len(trainer.model.graphs.recordings)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(
    ("case", "precision"),
    [*((case, {}) for case in CASES), ("prompt-tuning", {"bf16": True}), ("lora", {"fp16": True})],
)
def test_on_a_gpu_they_train_alike(place, case, precision):
    """With dropout: a recording draws what its passes would draw."""
    one, own, recorded = trained(place, "auto", CASES[case], precision)
    other, expected, none = trained(place, "off", CASES[case], precision)
    assert none == 0 and recorded == (0 if case in NOT_RECORDABLE else 3)
    close = {"rtol": 2e-2, "atol": 2e-3} if precision else {"rtol": 1e-3, "atol": 1e-4}
    torch.testing.assert_close(torch.tensor(one), torch.tensor(other), **close)
    for name in own:
        torch.testing.assert_close(own[name], expected[name], **close)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gradients_of_two_batches_add_up_and_crossed_passes_are_refused(place):
    trainer = started(place, device="cuda", **IDPG, dropout=0.0, attention_dropout=0.0, generator_dropout=0.0)
    model = trainer.model.train()
    given = dict(long(batch(trainer))["net_input"], classification_head_name="sentence_classification_head")

    def gradients(passes):
        model.zero_grad()
        for _ in range(passes):
            model(**given)[0].sum().backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    launched, replayed, twice = gradients(1), gradients(1), gradients(2)
    assert len(model.graphs.recordings) == 1
    for one, other, both in zip(launched, replayed, twice):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)
        torch.testing.assert_close(2 * other, both, rtol=1e-5, atol=1e-7)
    first, _ = model(**given)
    model(**given)
    with pytest.raises(RuntimeError, match="--gpu-graphs off"):
        first.sum().backward()
