"""Options that make no method, or change nothing: refused in a line that names the option, before anything is built."""

import pytest

from fairseq_idpg.errors import InputError
from tests.models.started import made

REFUSED = [  # --method, options, what the line begins with
    # names
    ("m-idpg", {}, "--method m-idpg is unknown: did you mean m-idpg-phm?"),
    ("prompt-tunning", {}, "--method prompt-tunning is unknown: did you mean prompt-tuning?"),
    ("prompt-tuning+", {}, "--method"),
    ("prompt-tuning + lora", {}, "--method"),
    ("prompt-tuning+m-idpg-phm", {}, "--method prompt-tuning+m-idpg-phm: prompt-tuning and m-idpg-phm share --prompt"),
    ("adapter+adapter", {}, "--method adapter+adapter: adapter and adapter share --adapter-hidden-size"),
    ("mam+adapter", {}, "--method mam+adapter: mam and adapter share --adapter-hidden-size"),
    ("adapter+head-only", {}, "--method adapter+head-only: head-only"),
    ("lora+adapter-multihead-parallel", {}, "--method lora+adapter-multihead-parallel: lora and adapter-multihead"),
    *((f"head-on-representation+{name}", {}, "--method") for name in ("s-idpg-phm", "adapter", "p-tuning-v2-kv")),
    *((f"{name}+head-on-representation", {}, "--method") for name in ("lora", "lpt-naive")),
    ("bitfit+head-on-representation", {"predict_with": "mlm", "verbaliser_loss": "vocabulary"}, "--method head-on"),
    # options of others
    ("prompt-tuning", {"phm_n": 4}, "--phm-n 4 has no effect with --method prompt-tuning"),
    ("adapter", {"lora_rank": 4}, "--lora-rank 4 has no effect with --method adapter"),
    # options that need another
    ("m-idpg-dnn", {"phm_n": 4}, "--phm-n 4 has no effect with --generator dnn"),
    ("m-idpg-phm", {"representation_width": 300}, "--representation-width 300 has no effect with --representation"),
    ("m-idpg-phm", {"generator_residual_norm": "released"}, "--generator-residual-norm released has no effect"),
    ("prompt-tuning", {"prompt_init_text": "good"}, "--prompt-init-text good has no effect with --prompt-init normal"),
    ("prompt-tuning", {"prefix_dropout": 0.1}, "--prefix-dropout 0.1 has no effect with --prompt-insertion add"),
    ("p-tuning", {"reparameterization_hidden_size": 9}, "--reparameterization-hidden-size 9 has no effect"),
    ("adapter+s-idpg-phm", {"phm_n": 4, "generator_sharing": "L"}, "--generator-sharing L has no effect"),
    ("prompt-tuning", {"prompt_insertion": "replace"}, "--prompt-insertion replace has no effect"),
    *(
        ("m-idpg-phm", {"phm_n": 4, "prompt_insertion": insertion, option: True}, "--generator-")
        for insertion in ("key-value", "late")
        for option in ("generator_residual", "generator_layer_norm")
    ),
    # sizes and rates
    ("prompt-tuning", {"prompt_length": 0}, "--prompt-length 0"),
    ("m-idpg-phm", {"generator_hidden_size": 0}, "--generator-hidden-size 0"),
    ("id-spam", {"generator_hidden_size": 0}, "--generator-hidden-size 0"),
    ("m-idpg-phm", {"generator_dropout": 1.0}, "--generator-dropout 1.0"),
    ("id-spam", {"generator_dropout": -0.1}, "--generator-dropout -0.1"),
    ("m-idpg-phm", {"phm_n": 0}, "--phm-n 0"),
    ("m-idpg-phm", {"phm_n": 3}, "--phm-n 3 does not divide the width d = 32"),
    ("m-idpg-phm", {"generator_hidden_size": 12, "phm_n": 8}, "--phm-n 8 does not divide --generator-hidden-size m"),
    ("m-idpg-phm-glove", {"representation_width": 10, "phm_n": 5, "generator_hidden_size": 10, "prompt_length": 3},
     "--phm-n 5 does not divide t x d = 96"),
    ("p-tuning", {"prompt_reparameterization": "prefix-mlp", "reparameterization_hidden_size": 0},
     "--reparameterization-hidden-size 0"),
    ("prefix-tuning", {"prefix_dropout": 1.0}, "--prefix-dropout 1.0"),
    ("attempt", {"attempt_sources": 0}, "--attempt-sources 0"),
    ("attempt", {"attempt_hidden_size": 0}, "--attempt-hidden-size 0"),
    *(("attempt", {"attempt_temperature": text}, f"--attempt-temperature {text}") for text in ("0", "-1", "warm")),
    ("ept", {"words_rank": 0}, "--words-rank 0"),
    ("dept", {"words_length": 0}, "--words-length 0"),
    ("ept", {"words_rank": 33}, "--words-rank 33"),  # more than the width
    ("ept", {"ept_experts": -1}, "--ept-experts -1"),
    ("ept", {"ept_hidden_size": 0}, "--ept-hidden-size 0"),
    ("ept", {"ept_decomposition": "false"}, "--ept-decomposition false: --ept-fusion lowrank"),
    ("ept", {"ept_init_length": 6, "words_rank": 7, "ept_init_split": "both", "prompt_length": 3},
     "--ept-init-length 6 with --words-rank 7"),
    ("smop", {"smop_chosen": 0}, "--smop-chosen 0"),
    ("smop", {"smop_chosen": 5}, "--smop-chosen 5"),
    ("smop", {"smop_balance": -0.1}, "--smop-balance -0.1"),
    ("adapter", {"adapter_hidden_size": 0}, "--adapter-hidden-size 0"),
    ("adapter", {"adapter_dropout": 1.0}, "--adapter-dropout 1.0"),
    ("adapter", {"adapter_init_std": 0.0}, "--adapter-init-std 0.0"),
    ("compacter", {"compacter_n": 3}, "--compacter-n 3 does not divide the width d = 32"),
    ("compacter", {"adapter_hidden_size": 6}, "--compacter-n 4 does not divide --adapter-hidden-size m = 6"),
    ("compacter-shared", {"compacter_n": 0}, "--compacter-n 0"),
    ("adamix", {"adamix_consistency": -1.0}, "--adamix-consistency -1.0"),
    ("lora", {"lora_rank": 0}, "--lora-rank 0"),
    ("lora", {"lora_alpha": 0.0}, "--lora-alpha 0.0"),
    ("lora", {"lora_dropout": 1.0}, "--lora-dropout 1.0"),
    ("lora", {"lora_projections": "q,w"}, "--lora-projections q,w"),
    *(("adapter-parallel", {"adapter_scale": text}, f"--adapter-scale {text}") for text in ("four", "0", "-1")),
    *(("adapter-drop", {"adapter_drop": text}, f"--adapter-drop {text}") for text in ("3", "-1", "some", "1.5")),
    *(
        ("adapter-drop", {"adapter_drop": "2", "adapter_layers": "0,1", "adapter_drop_random": drawn}, "--adapter-drop")
        for drawn in (True, False)
    ),
    # layers
    *(("adapter", {"adapter_layers": text}, f"--adapter-layers {text}") for text in ("3", "-1,0", "some", "0,,1", "")),
    ("lora", {"lora_layers": "0,3"}, "--lora-layers 0,3"),
    *(("p-tuning-v2", {"prompt_layers": text}, f"--prompt-layers {text}") for text in ("1,2", "0,3", "some", "-1,0")),
    ("p-tuning-v2-kv", {"prompt_layers": "3"}, "--prompt-layers 3"),
    *(("lpt-npg", {"prompt_insertion": kind}, "--prompt-layers middle: add 0") for kind in ("add", "replace")),
    # starts
    *(
        ("p-tuning", {"prompt_init": init}, f"--prompt-init {init}")
        for init in ("standard-normal", "uniform", "vocabulary", "class-labels", "text")
    ),
    ("prompt-tuning", {"prompt_init": "class-labels"}, "--prompt-init"),
    ("prompt-tuning", {"prompt_init": "class-labels", "prompt_init_text": "1|"}, "--prompt-init-text"),
    ("prompt-tuning", {"prompt_init": "class-labels", "prompt_init_text": "1|2|3", "prompt_length": 2},
     "--prompt-init-text"),
    ("prompt-tuning", {"prompt_init": "text"}, "--prompt-init"),
    ("prompt-tuning", {"prompt_init": "saved"}, "--prompt-init"),
    ("prompt-tuning", {"prompt_init": "saved", "prompt_init_from": "/nowhere.pt"}, "--prompt-init-from /nowhere.pt"),
    ("p-tuning-v2-kv", {"prompt_init": "vocabulary"}, "--prompt-init vocabulary"),
    ("lpt-mppg", {"prompt_init": "uniform"}, "--prompt-init uniform"),
    ("id-spam", {"prompt_init": "uniform"}, "--prompt-init uniform"),
    ("lpt-npg", {"generator_bias": "false", "prompt_init": "uniform"}, "--prompt-init uniform"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "options", "begins"), REFUSED, ids=[f"{m} {o}" for m, o, _ in REFUSED])
def test_refused(method, options, begins):
    with pytest.raises(InputError) as error:
        made(method, **options)
    assert str(error.value).startswith(begins) and "\n" not in str(error.value)
