"""Counts that the papers print of other settings than the presets', which are in ``CONTRACT``; tests/test_count.py."""

import pytest
import torch

from fairseq_idpg.methods.base import Geometry
from fairseq_idpg.methods.registry import PRESETS
from tests.helpers import model_args

LARGE = Geometry(layers=24, width=1024, inner=4096, heads=16)
BASE = Geometry(layers=12, width=768, inner=3072)  # of T5
NORM, PHM_S = 2 * 1024, 107_776
RESIDUAL, LAYER_NORM = {"generator_residual": True}, {"generator_layer_norm": True}
RELEASED = {**RESIDUAL, "generator_residual_norm": "released"}
DEEP, NPG = {"prompt_reparameterization": "deep-mlp"}, {"prompt_length": 10, "generator_hidden_size": 256}
TABLE = {"prompt_reparameterization": "none", "prompt_length": 30}
CASES = [  # backbone, preset, options, expected
    # the released code keeps two shared matrices
    (LARGE, "s-idpg-phm", {"phm_shared_a": "false"}, 111_872),
    # W1, b1, W2 of m = 16, n = 16 and one or 24 of them; output bias 5 x 1024, one or 24
    (LARGE, "m-idpg-phm", {"generator_sharing": "S"}, 2 * 16**3 + 1024 + 16 + 5120 + 5120),
    (LARGE, "m-idpg-phm", {"generator_sharing": "L"}, 24 * (2 * 16**3 + 1024 + 16 + 5120 + 5120)),
    # IDPG's Table 7
    (LARGE, "s-idpg-phm", RESIDUAL, PHM_S),
    (LARGE, "s-idpg-phm", LAYER_NORM, PHM_S + NORM),
    (LARGE, "s-idpg-phm", {**RESIDUAL, **LAYER_NORM}, PHM_S + 3 * NORM),
    (LARGE, "s-idpg-phm", RELEASED, PHM_S + NORM),
    (LARGE, "s-idpg-phm", {**RELEASED, **LAYER_NORM}, PHM_S + 2 * NORM),
    # P-tuning: its code's MLP, peft's (ID-SPAM's baseline), the second Linear makes 24 rows of each
    (LARGE, "p-tuning", {"prompt_reparameterization": "mlp"}, 2_104_320),
    (LARGE, "p-tuning", {**DEEP, "reparameterization_hidden_size": 1024}, 3_153_920),
    (LARGE, "p-tuning", {**DEEP, "reparameterization_hidden_size": 128}, 284_928),
    (LARGE, "p-tuning", {"prompt_reparameterization": "mlp", "prompt_layers": "all"}, 2_104_320 + 23 * 1_049_600),
    # P-tuning v2's shipped setting: 20 x 1024 + 1024 x 512 + 512 + 512 x 49,152 + 49,152
    (LARGE, "p-tuning-v2-kv", {"prompt_length": 20, "prompt_reparameterization": "prefix-mlp"}, 25_760_256),
    # ID-SPAM's Tables 12 and 13, without biases; its LPT. The wider two are printed as 8.3 and 13.4 million
    *(
        (Geometry(layers=24, width=width, inner=4 * width), "id-spam", {}, expected)
        for width, expected in ((768, 2_064_384), (1600, 8_294_400), (2048, 13_369_344))
    ),
    *(
        (Geometry(layers=24, width=width, inner=4 * width), "lpt-npg", {**NPG, "generator_bias": "false"}, expected)
        for width, expected in ((768, 2_162_688), (1024, 2_883_584))
    ),
    (LARGE, "id-spam", {"generator_bias": "true"}, 3_538_944 + 64 + 5 * 1024),
    (LARGE, "id-spam", {"id_spam_pooling": "mean"}, 3_538_944 - 3 * 1024**2),
    # EPT's parts; its Table 1 has T5-base: 76.8K, 232K and 77.6K
    (LARGE, "ept", {"ept_experts": 0}, 99_840),
    (LARGE, "ept", {"ept_experts": 0, "ept_decomposition": "false", "ept_fusion": "none"}, 60 * 1024),
    (BASE, "spot", {}, 76_800),
    (BASE, "attempt", {}, 231_936),
    (BASE, "mpt", {}, 77_668),
    # DePT is as large as 100 rows at any length of its prompt
    *((BASE, "dept", {"prompt_length": s, "words_rank": r}, 76_800) for s, r in ((40, 45), (60, 30), (20, 60))),
    (LARGE, "lpt-npg", NPG, 2_894_080),
    (LARGE, "lpt-appg", {"prompt_layers": "all", "generator_sharing": "M"}, 263_296 + 23 * 1024),
    (LARGE, "lpt-appg", {"prompt_layers": "all", "generator_sharing": "L"}, 24 * 263_296),
    # the slides: 2 l d for each attention; in the feed-forward 2 r d of an adapter and 10 r d of LoRA, biases aside
    (LARGE, "prefix-tuning", TABLE, 2 * 30 * 1024 * 24),
    (LARGE, "mam", {**TABLE, "adapter_hidden_size": 512}, (2 * 30 + 2 * 512 + 1) * 1024 * 24 + 24 * 512),
    (LARGE, "lora", {"lora_projections": "fc1,fc2", "lora_rank": 102}, 10 * 102 * 1024 * 24),
]


@pytest.mark.parametrize(("geometry", "name", "options", "expected"), CASES)
def test_counts_of_the_papers(geometry, name, options, expected):
    with torch.device("meta"):
        module = PRESETS[name].build(model_args(method=name, **options), geometry)
    assert sum(p.numel() for p in module.parameters() if p.requires_grad) == expected
