"""A backbone's weights stay in its file: the model is the same, and nothing reaches another process or is lost."""

import os
import shutil
from types import SimpleNamespace

import pytest
import torch

from fairseq_idpg.backbone.weights import ALIGNMENT, as_own
from fairseq_idpg.errors import InputError
from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
from fairseq_idpg.saving.backbone_file import read_backbone
from tests.helpers import dictionary, logits, model_args, pair_batch

TASK = SimpleNamespace(source_dictionary=dictionary())
MODES = {
    "prompts": {},
    "fine-tuning": {"method": "fine-tuning", "no_freeze_backbone": True},
    "bitfit": {"method": "bitfit"},
    "lora": {"method": "lora"},
    "words": {"method": "prompt-tuning", "predict_with": "mlm"},
}


def build(path, **options) -> RobertaIDPGModel:
    torch.manual_seed(5)
    model = RobertaIDPGModel.build_model(model_args(backbone=str(path), **options), TASK)
    model.register_classification_head("sentence_classification_head", num_classes=2)
    return model


@pytest.mark.parametrize("options", MODES.values(), ids=list(MODES))
def test_what_is_frozen_stays_in_the_file(own_backbone, options):
    read = read_backbone(str(own_backbone))
    model = build(own_backbone, **options)
    model.load_backbone(read)
    known = {name: parameter for name, parameter in model.named_parameters() if name in read.weights}
    assert len(known) > 50
    for name, parameter in known.items():
        assert (parameter.data_ptr() == read.weights[name].data_ptr()) != parameter.requires_grad, name
        assert torch.equal(parameter, read.weights[name]) and parameter.data_ptr() % ALIGNMENT == 0, name
    assert model.encoder.lm_head.weight is model.encoder.sentence_encoder.embed_tokens.weight


def test_training_and_merging_do_not_touch_the_file(own_backbone):
    content = own_backbone.read_bytes()
    model = build(own_backbone, method="fine-tuning", no_freeze_backbone=True).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    logits(model, pair_batch()).sum().backward()
    optimizer.step()
    model.half()
    merged = build(own_backbone, method="lora").eval()
    with torch.no_grad():
        for parameter in merged.method.parameters():
            parameter.add_(0.1)
    expected = logits(merged, pair_batch())
    merged.merge_method()
    assert torch.allclose(logits(merged, pair_batch()), expected, atol=1e-5)
    assert own_backbone.read_bytes() == content


@pytest.mark.parametrize(
    "how", [os.unlink, lambda path: os.replace(shutil.copy(path, f"{path}.new"), path)], ids=["removed", "replaced"]
)
def test_a_file_that_is_removed_or_replaced_is_still_there(own_backbone, how):
    model = build(own_backbone).eval()
    expected = logits(build(own_backbone).eval(), pair_batch())
    how(own_backbone)
    assert torch.equal(logits(model, pair_batch()), expected)
    model.state_dict()


def test_a_file_that_is_written_to_is_noticed(own_backbone):
    model = build(own_backbone)
    os.utime(own_backbone, ns=(0, 0))
    with pytest.raises(InputError, match=f"--backbone {own_backbone} was written to while it was in use"):
        model.state_dict()


def test_tensors_in_the_same_memory_are_copied():
    one = torch.arange(64.0)
    parameters = {name: torch.nn.Parameter(torch.zeros(()), False) for name in "abcd"}
    found = as_own({"a": one, "b": one, "c": one[:32], "d": one[1:33]}, parameters)
    assert len({tensor.data_ptr() for tensor in found.values()}) == 4
    assert all(tensor.data_ptr() % ALIGNMENT == 0 for tensor in found.values())
    for name, value in {"a": one, "b": one, "c": one[:32], "d": one[1:33]}.items():
        assert torch.equal(found[name], value)
