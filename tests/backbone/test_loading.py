"""Backbones as fairseq wrote them over the years all load to the same features."""

from types import SimpleNamespace

import pytest
import torch

from fairseq_idpg.errors import InputError
from fairseq_idpg.inference.load import load_untrained
from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
from fairseq_idpg.saving.backbone_file import read_backbone
from tests.folders import changed
from tests.helpers import dictionary, model_args, pair_batch

TASK = SimpleNamespace(source_dictionary=dictionary())


def old_names(state: dict) -> dict:
    """The names of the released roberta.base and roberta.large archives: decoder., emb_layer_norm, in_proj."""
    old = {}
    for name, value in state.items():
        name = name.replace("encoder.", "decoder.", 1).replace("layernorm_embedding", "emb_layer_norm")
        if not name.endswith("version"):
            old[name] = value
    for name in [name for name in old if ".q_proj." in name]:
        kinds = [name.replace("q_proj", kind) for kind in ("q_proj", "k_proj", "v_proj")]
        old[name.replace("q_proj.", "in_proj_")] = torch.cat([old.pop(kind) for kind in kinds])
    old["classification_heads.mnli.dense.weight"] = torch.zeros(32, 32)
    old["classification_heads.mnli.out_proj.weight"] = torch.zeros(3, 32)
    return old


def features(path) -> torch.Tensor:
    model = RobertaIDPGModel.build_model(model_args(method="head-only", backbone=str(path)), TASK).eval()
    return model(pair_batch(), features_only=True)[0]


def with_old_names(state) -> None:
    state.update(model=old_names(state["model"]))


@pytest.mark.parametrize(
    "form", [with_old_names, lambda state: state.update(cfg={"model": vars(state.pop("args"))})], ids=["names", "cfg"]
)
def test_every_form_has_the_same_features(own_backbone, form):
    expected = features(own_backbone)
    changed(own_backbone, form)
    assert torch.equal(features(own_backbone), expected)


@pytest.mark.parametrize("name", ["encoder_layers", "encoder_ffn_embed_dim"])
def test_sizes_that_its_tensors_do_not_have(name, own_backbone, monkeypatch):
    """They are what an untrained backbone would be built from."""
    changed(own_backbone, lambda state: setattr(state["args"], name, 2**22))
    monkeypatch.setattr("fairseq_idpg.models.roberta_idpg.OpenRobertaEncoder", None)
    with pytest.raises(InputError, match=f"--backbone {own_backbone} "):
        load_untrained(str(own_backbone), dictionary())


@pytest.mark.parametrize("damage", ["missing", "quantized"])
def test_a_tensor_that_does_not_fit_is_named(own_backbone, damage):
    def damaged(state):
        bias = state["model"].pop(name := "encoder.sentence_encoder.layers.1.fc1.bias")
        state["model"].update({name: bias.char()} if damage == "quantized" else {})

    changed(own_backbone, damaged)
    with pytest.raises(InputError, match="^--backbone .*layers.1.fc1.bias"):
        features(own_backbone)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"encoder_layers": 2}, "--encoder-layers is 2 .* 3"),
        ({"layer_norm_eps": 1e-12}, "--layer-norm-eps is 1e-12 .* 1e-05"),
        ({"max_positions": 32}, "--max-positions is 32 .* 64"),
    ],
)
def test_sizes_of_another_model(own_backbone, options, named):
    with pytest.raises(InputError, match=f"^{named}"):
        RobertaIDPGModel.build_model(model_args(method="head-only", backbone=str(own_backbone), **options), TASK)


def test_layer_norm_epsilon_is_the_backbones(own_backbone):
    changed(own_backbone, lambda state: setattr(state["args"], "layer_norm_eps", 1e-12))
    args = model_args(method="head-only", backbone=str(own_backbone), layer_norm_eps=1e-12)
    encoder = RobertaIDPGModel.build_model(args, TASK).encoder  # the LM head's is another
    assert [m.eps for m in encoder.modules() if isinstance(m, torch.nn.LayerNorm)] == [1e-12] * (2 + 2 * 3)


def fingerprint(path) -> str:
    model = RobertaIDPGModel.build_model(model_args(method="head-only", backbone=str(path)), TASK)
    found = bytes(model.backbone_fingerprint.tolist()).hex()
    assert found == read_backbone(str(path)).fingerprint()
    return found


def one_bit(state):
    state["model"]["encoder.sentence_encoder.layers.1.fc1.bias"].view(torch.int32)[3] ^= 1


def exchanged(state):
    names = [f"encoder.sentence_encoder.layers.{i}.fc1.weight" for i in (0, 1)]
    state["model"].update(zip(names, [state["model"][name] for name in reversed(names)]))


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (with_old_names, True),
        (lambda state: state["model"]["encoder.lm_head.dense.bias"].add_(1), True),
        *((other, False) for other in (one_bit, exchanged)),
    ],
)
def test_a_backbone_is_known_by_its_weights(own_backbone, change, same):
    expected, before = fingerprint(own_backbone), own_backbone.read_bytes()
    changed(own_backbone, change)
    torch.save(torch.load(own_backbone, weights_only=True), own_backbone, _use_new_zipfile_serialization=False)
    assert own_backbone.read_bytes() != before and (fingerprint(own_backbone) == expected) == same
