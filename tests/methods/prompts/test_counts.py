"""Trainable parameters without the head at RoBERTa-large size, as the paper prints them (Table 2, A.1.2)."""

from __future__ import annotations

import pytest
import torch

from fairseq_idpg.methods.base import Geometry
from fairseq_idpg.methods.registry import PRESETS
from tests.helpers import model_args

LARGE = Geometry(layers=24, width=1024, inner=4096, heads=16)
PAPER = {
    "head-only": 0,
    "head-on-representation": 0,
    "fine-tuning": 0,  # of its own; it trains the backbone
    "efl": 0,
    "s-idpg-phm": 107_776,
    "s-idpg-dnn": 1_578_240,
    "m-idpg-phm": 137_232,
    "m-idpg-dnn": 221_200,
    "m-idpg-phm-glove": 144_704,
    "prompt-tuning": 5_120,
    "prompt-tuning-134": 137_216,
    "prompt-tuning-100": 102_400,
    "spot": 102_400,
    "p-tuning": 14_703_616,
    "p-tuning-v2": 122_880,
    "p-tuning-v2-kv": 245_760,
    "prefix-tuning": 25_760_256,  # see FOLDED
    "mam": 16 * 1024 + 1024 * 800 + 800 + 801 * 2 * 24 * 1024 + 811_392,
    "dpt": 11_240,
    "dept": 98_560,
    "ept": 2_206_212,
    "mpt": 100 * 1024 + 100 + 1024,
    "smop": 24_576,
    "attempt": 100 * 1024 + 2 * 1024 * 100 + 2 * 1024,
    "lpt-naive": 5_120,
    "lpt-npg": 791_680,
    "lpt-mppg": 263_296,
    "lpt-appg": 263_296,
    "id-spam": 3_538_944,
    "adapter": 1_622_784,
    "adapter-pfeiffer": 811_392,
    "compacter": 152_832,
    "compacter-shared": 149_824,
    "adapter-drop": 14 * 2 * (2 * 16 * 1024 + 16 + 1024),  # in the upper 14 of 24 layers
    "adapter-parallel": 811_392,
    "adapter-scaled-parallel": 811_392,
    "adapter-multihead-parallel": 24 * (2 * 16 * 1024 + 16 * 16 + 1024),
    "adamix": 24 * (4 * (16 * 1024 + 16) + 16 * 1024 + 1024),
    "lora": 786_432,
    "lora-all": 3_538_944,
    "bitfit": 0,  # of its own; see OF_BACKBONE
}
FOLDED = {  # what is left after training
    "p-tuning": 5_120,
    "prefix-tuning": 983_040,
    "mam": 786_432 + 811_392,
    "dpt": 102_400,
    "ept": 99_840,
    "mpt": 102_400,
    "adamix": 811_392,  # the paper's 0.8M
}
OF_BACKBONE = {"bitfit": 271_360}  # its biases


def count(geometry: Geometry = LARGE, **options) -> int:
    if options["method"] == "m-idpg-phm-glove":
        options = {"representation_width": 300, **options}
    args = model_args(**options)
    with torch.device("meta"):
        module = PRESETS[args.method].build(args, geometry)
    return 0 if module is None else sum(p.numel() for p in module.parameters() if p.requires_grad)


def test_every_registered_method_has_a_count():
    assert set(PAPER) == set(PRESETS)


@pytest.mark.parametrize("method", PAPER)
def test_count_is_the_papers(method):
    assert count(method=method) == PAPER[method]


def test_released_code_keeps_two_shared_matrices():
    assert count(method="s-idpg-phm", phm_shared_a="false") == 111_872


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [
        # W1, b1, W2 of m = 16, n = 16 and one or 24 of them; output bias 5 x 1024, one or 24
        ("S", 2 * 16**3 + 1024 + 16 + 5120 + 5120),
        ("M", 2 * 16**3 + 1024 + 16 + 5120 + 24 * 5120),
        ("L", 24 * (2 * 16**3 + 1024 + 16 + 5120 + 5120)),
    ],
)
def test_sharing(sharing, expected):
    assert count(method="m-idpg-phm", generator_sharing=sharing) == expected


NORM = 2 * 1024


@pytest.mark.parametrize(
    ("kind", "residual", "layer_norm", "both"),
    [("paper", 107_776, 107_776 + NORM, 107_776 + 3 * NORM), ("released", *(107_776 + n * NORM for n in (1, 1, 2)))],
)
def test_table_7_variants_add_their_layer_norms(kind, residual, layer_norm, both):
    def variant(**options):
        norm = {"generator_residual_norm": kind} if options.get("generator_residual") else {}
        return count(method="s-idpg-phm", **options, **norm)

    assert variant() == 107_776
    assert variant(generator_residual=True) == residual
    assert variant(generator_layer_norm=True) == layer_norm
    assert variant(generator_residual=True, generator_layer_norm=True) == both


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"method": "p-tuning", "prompt_reparameterization": "mlp"}, 2_104_320),
        (  # peft's, of which ID-SPAM's baseline is made
            {"method": "p-tuning", "prompt_reparameterization": "deep-mlp", "reparameterization_hidden_size": 1024},
            3_153_920,
        ),
        (
            {"method": "p-tuning", "prompt_reparameterization": "deep-mlp", "reparameterization_hidden_size": 128},
            284_928,
        ),
        # the second Linear makes 24 rows of each
        (
            {"method": "p-tuning", "prompt_reparameterization": "mlp", "prompt_layers": "all"},
            2_104_320 + 23 * 1_049_600,
        ),
        # P-tuning v2's shipped setting: 20 x 1024 + 1024 x 512 + 512 + 512 x 49,152 + 49,152
        ({"method": "p-tuning-v2-kv", "prompt_length": 20, "prompt_reparameterization": "prefix-mlp"}, 25_760_256),
        ({"method": "p-tuning-v2-kv", "prompt_length": 20}, 983_040),
    ],
)
def test_reparameterizations(options, expected):
    assert count(**options) == expected


@pytest.mark.parametrize(
    ("width", "id_spam", "lpt"),
    [(768, 2_064_384, 2_162_688), (1024, 3_538_944, 2_883_584), (1600, 8_294_400, None), (2048, 13_369_344, None)],
)
def test_tables_12_and_13_of_the_id_spam_paper(width, id_spam, lpt):
    """Without biases; its LPT with t = 10 and m = 256. The wider two are printed as 8.3 and 13.4 million."""
    geometry = Geometry(layers=24, width=width, inner=4 * width)
    assert count(geometry, method="id-spam") == id_spam
    table = {"prompt_length": 10, "generator_hidden_size": 256, "generator_bias": "false"}
    assert lpt is None or count(geometry, method="lpt-npg", **table) == lpt


def test_biases_of_id_spam():
    assert count(method="id-spam", generator_bias="true") == 3_538_944 + 64 + 5 * 1024
    assert count(method="id-spam", id_spam_pooling="mean") == 3_538_944 - 3 * 1024**2


def test_folded_ept_is_as_large_as_its_parts():
    network = 4 * (2 * 1024 * 256 + 256 + 1024) + 4 * 1025
    pair = 30 * (256 + 1024)
    assert count(method="ept") == 60 * 1024 + pair + network
    assert count(method="ept", ept_experts=0) == 99_840
    assert count(method="ept", ept_experts=0, ept_decomposition="false", ept_fusion="none") == 60 * 1024


def test_dept_has_one_size_at_any_length_of_its_prompt():
    """The paper's T5-base: 100 rows of 768 in all."""
    base = Geometry(layers=12, width=768, inner=3072)
    for length, rank in ((40, 45), (60, 30), (20, 60)):
        assert count(base, method="dept", prompt_length=length, words_rank=rank) == 76_800


def test_table_1_of_the_ept_paper():
    """T5-base: 76.8K, 232K and 77.6K."""
    base = Geometry(layers=12, width=768, inner=3072)
    assert count(base, method="spot") == 76_800
    assert count(base, method="attempt") == 231_936
    assert count(base, method="mpt") == 77_668


def test_larger_lpt():
    assert count(method="lpt-npg", prompt_length=10, generator_hidden_size=256) == 2_894_080


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [("S", 263_296), ("M", 263_296 + 23 * 1024), ("L", 24 * 263_296)],
)
def test_sharing_of_lpt(sharing, expected):
    assert count(method="lpt-appg", prompt_layers="all", generator_sharing=sharing) == expected
