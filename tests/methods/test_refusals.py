"""Options that make no method, or change nothing: refused in a line that names the option, before anything is built."""

import pytest

from fairseq_idpg.errors import InputError
from tests.models.started import made

REFUSED = [  # --method, options, what the line begins with
    # names
    ("prompt-tunning", {}, "--method prompt-tunning is unknown: did you mean prompt-tuning?"),
    ("prompt-tuning+", {}, "--method"),
    ("prompt-tuning+m-idpg-phm", {}, "--method prompt-tuning+m-idpg-phm: prompt-tuning and m-idpg-phm share --prompt"),
    ("adapter+adapter", {}, "--method adapter+adapter: adapter and adapter share --adapter-hidden-size"),
    ("mam+adapter", {}, "--method mam+adapter: mam and adapter share --adapter-hidden-size"),
    ("adapter+head-only", {}, "--method adapter+head-only: head-only"),
    ("lora+adapter-multihead-parallel", {}, "--method lora+adapter-multihead-parallel: lora and adapter-multihead"),
    ("head-on-representation+s-idpg-phm", {}, "--method"),
    ("lora+head-on-representation", {}, "--method"),
    ("bitfit+head-on-representation", {"predict_with": "mlm", "verbaliser_loss": "vocabulary"}, "--method head-on"),
    # options of others
    ("prompt-tuning", {"phm_n": 4}, "--phm-n 4 has no effect with --method prompt-tuning"),
    # options that need another
    ("m-idpg-dnn", {"phm_n": 4}, "--phm-n 4 has no effect with --generator dnn"),
    ("m-idpg-phm", {"generator_residual_norm": "released"}, "--generator-residual-norm released has no effect"),
    ("adapter+s-idpg-phm", {"phm_n": 4, "generator_sharing": "L"}, "--generator-sharing L has no effect"),
    ("prompt-tuning", {"prompt_insertion": "replace"}, "--prompt-insertion replace has no effect"),
    ("m-idpg-phm", {"phm_n": 4, "prompt_insertion": "late", "generator_residual": True}, "--generator-"),
    # sizes and rates
    ("prompt-tuning", {"prompt_length": 0}, "--prompt-length 0"),
    ("m-idpg-phm", {"generator_dropout": 1.0}, "--generator-dropout 1.0"),
    ("m-idpg-phm", {"phm_n": 3}, "--phm-n 3 does not divide the width d = 32"),
    ("m-idpg-phm", {"generator_hidden_size": 12, "phm_n": 8}, "--phm-n 8 does not divide --generator-hidden-size m"),
    ("m-idpg-phm-glove", {"representation_width": 10, "phm_n": 5, "generator_hidden_size": 10, "prompt_length": 3},
     "--phm-n 5 does not divide t x d = 96"),
    *(("attempt", {"attempt_temperature": text}, f"--attempt-temperature {text}") for text in ("0", "-1", "warm")),
    ("ept", {"words_rank": 33}, "--words-rank 33"),  # more than the width
    ("ept", {"ept_decomposition": "false"}, "--ept-decomposition false: --ept-fusion lowrank"),
    ("ept", {"ept_decomposition": "false", "ept_fusion": "none", "ept_init_length": 90}, "--ept-init-length 90 has no"),
    ("ept", {"ept_init_length": 6, "words_rank": 7, "ept_init_split": "both", "prompt_length": 3},
     "--ept-init-length 6 with --words-rank 7"),
    ("smop", {"smop_chosen": 5}, "--smop-chosen 5"),
    ("smop", {"smop_chosen": 4, "smop_balance": 0.5}, "--smop-balance 0.5"),
    ("pt-moe", {"moe_chosen": 3}, "--moe-chosen 3"),
    # one prompt for all inputs
    ("smop", {"smop_prompts": 1}, "--smop-prompts 1 has no effect"),
    ("pt-moe", {"moe_experts": 1}, "--moe-experts 1 has no effect"),
    ("dynamic-prompt-pool", {"dynamic_position": "false", "dynamic_temperature": 0.5}, "--dynamic-temperature 0.5 has"),
    ("adapter", {"adapter_init_std": 0.0}, "--adapter-init-std 0.0"),
    ("compacter", {"compacter_n": 3}, "--compacter-n 3 does not divide the width d = 32"),
    ("compacter", {"adapter_hidden_size": 6}, "--compacter-n 4 does not divide --adapter-hidden-size m = 6"),
    ("lora", {"lora_projections": "q,w"}, "--lora-projections q,w"),
    *(("adapter-parallel", {"adapter_scale": text}, f"--adapter-scale {text}") for text in ("four", "0", "-1")),
    *(("adapter-drop", {"adapter_drop": text}, f"--adapter-drop {text}") for text in ("3", "some")),
    ("adapter-drop", {"adapter_drop": "2", "adapter_layers": "0,1"}, "--adapter-drop"),
    # layers
    *(("adapter", {"adapter_layers": text}, f"--adapter-layers {text}") for text in ("3", "-1,0", "some")),
    ("lora", {"lora_layers": "0,3"}, "--lora-layers 0,3"),
    *(("p-tuning-v2", {"prompt_layers": text}, f"--prompt-layers {text}") for text in ("1,2", "0,3")),
    ("p-tuning-v2-kv", {"prompt_layers": "3"}, "--prompt-layers 3"),
    ("lpt-npg", {"prompt_insertion": "add"}, "--prompt-layers middle: add 0"),
    # starts
    ("p-tuning", {"prompt_init": "uniform"}, "--prompt-init uniform"),
    ("prompt-tuning", {"prompt_init": "class-labels"}, "--prompt-init"),
    ("prompt-tuning", {"prompt_init": "class-labels", "prompt_init_text": "1|"}, "--prompt-init-text"),
    ("prompt-tuning", {"prompt_init": "class-labels", "prompt_init_text": "1|2|3", "prompt_length": 2},
     "--prompt-init-text"),
    ("prompt-tuning", {"prompt_init": "text"}, "--prompt-init"),
    ("prompt-tuning", {"prompt_init": "saved"}, "--prompt-init"),
    ("prompt-tuning", {"prompt_init": "saved", "prompt_init_from": "/nowhere.pt"}, "--prompt-init-from /nowhere.pt"),
    ("p-tuning-v2-kv", {"prompt_init": "vocabulary"}, "--prompt-init vocabulary"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "options", "begins"), REFUSED, ids=[f"{m} {o}" for m, o, _ in REFUSED])
def test_refused(method, options, begins):
    with pytest.raises(InputError) as error:
        made(method, **options)
    assert str(error.value).startswith(begins) and "\n" not in str(error.value)
