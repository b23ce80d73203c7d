"""--method A+B: prompts and adapters together; whatever would enter at one place is refused."""

from __future__ import annotations

import pytest
import torch

from fairseq_idpg.backbone.cpu import QuickDropout
from fairseq_idpg.backbone.injection import Injection, filled_fields
from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.base import Method
from fairseq_idpg.methods.combination import Combination
from fairseq_idpg.methods.prompts.base import PromptMethod
from fairseq_idpg.methods.registry import PRESETS, find_preset
from tests.folders import train, validate, write_backbone, write_folder
from tests.helpers import PAD, TINY, enlarge, logits, pair_batch, prompted, tiny_model
from tests.methods.prompts.plain_prompts import plain_features
from tests.models.started import made

PHM = {"phm_n": 4}
WIDTH = TINY["encoder_embed_dim"]


def test_both_take_part():
    """Each part alone gives other logits; with the other part's effect switched off, the combination is that part."""
    both = tiny_model(method="p-tuning-v2+adapter")
    enlarge(both.method)
    prompts, adapters = both.method.parts
    expected = {}
    for name, part in (("p-tuning-v2", prompts), ("adapter", adapters)):
        alone = tiny_model(method=name)
        alone.method.load_state_dict(part.state_dict())
        alone.classification_heads.load_state_dict(both.classification_heads.state_dict())
        expected[name] = logits(alone, pair_batch())
    together = logits(both, pair_batch())
    assert not torch.allclose(together, expected["p-tuning-v2"]) and not torch.allclose(together, expected["adapter"])
    with torch.no_grad():
        adapters.up.zero_()
        adapters.up_bias.zero_()
    assert torch.equal(logits(both, pair_batch()), expected["p-tuning-v2"])


def test_dropout_of_the_input_of_one_part_is_the_whole_ones():
    for dropout in (True, False):
        model, seen = tiny_model(method="adapter+s-idpg-phm", representation_dropout=dropout, dropout=0.5, **PHM), []
        prompts = model.train().method.parts[1]
        prompts.injection = lambda read, inject=prompts.injection, seen=seen: seen.append(read) or inject(read)
        for _ in range(2):
            logits(model, pair_batch())
        assert torch.equal(*seen) != dropout


@pytest.fixture
def double_precision():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def plain_lora(method, i):
    """2 = alpha / r."""
    return {
        "additions": {
            name: lambda x, a=method.a[name][i], b=method.b[name][i]: 2 * (x @ a.t() @ b.t()) for name in method.a
        }
    }


def bottleneck(method, k, activation):
    return lambda x: activation(x @ method.down[k] + method.down_bias[k]) @ method.up[k] + method.up_bias[k]


def plain_adapter(method, i):
    first, second = (bottleneck(method, 2 * i + j, torch.relu) for j in range(2))
    return {"adapters": (lambda f, x, norm: f + first(f), lambda f, x, norm: f + second(f))}


def plain_parallel(method, i):
    return {"adapters": (None, lambda f, x, norm: f + 4 * bottleneck(method, i, torch.relu)(x))}


BESIDE = {  # adapter -> what is beside a layer; BitFit's biases are the layer's own
    "lora": plain_lora,
    "bitfit": lambda method, i: {},
    "adapter": plain_adapter,
    "mam": plain_parallel,
}


@pytest.mark.parametrize(
    ("name", "beside"),
    [
        ("lora+id-spam", "lora"),
        ("lora+dept", "lora"),
        ("p-tuning-v2-kv+lora", "lora"),
        ("bitfit+prompt-tuning", "bitfit"),
        ("bitfit+m-idpg-dnn", "bitfit"),
        ("adapter+lpt-mppg", "adapter"),
        ("m-idpg-phm+adapter", "adapter"),
        ("mam", "mam"),
    ],
)
def test_joined_methods_equal_a_plain_pass(name, beside, double_precision):
    """In values and gradients; what a prompt is made from is, where it is M(x), the backbone's alone."""
    options = {"prompt_length": 3, **(PHM if "phm" in name else {})}
    if beside == "adapter":
        options["adapter_activation"] = "relu"  # fairseq's gelu rounds to float32
    model = tiny_model(method=name, **options)
    enlarge(model.encoder)
    enlarge(model.method)
    for layer in model.encoder.sentence_encoder.layers:
        layer.activation_fn = torch.nn.functional.gelu
    model.method.train()  # in evaluation a network is folded
    prompt = next(part for part in model.method.parts if isinstance(part, PromptMethod))
    other = next(part for part in model.method.parts if part is not prompt)
    for part in model.method.modules():
        if isinstance(part, (torch.nn.Dropout, QuickDropout)):
            part.p = 0.0
    tokens = pair_batch()[:2]
    extra = vars(prompted(tokens, 0, model.prompt_length)) if model.prompt_length else {}
    ours, _ = model(tokens, **extra, features_only=True)
    plain = [
        plain_features(model, row[row != PAD], prompt=prompt, beside=lambda i: BESIDE[beside](other, i))
        for row in tokens
    ]
    for mine, theirs in zip(ours, plain):
        torch.testing.assert_close(mine[: len(theirs)], theirs, atol=1e-9, rtol=0)
    trained = [p for n, p in model.named_parameters() if p.requires_grad and not n.startswith("classification")]
    draw = torch.randn(WIDTH)
    loss = sum(mine[0] @ draw for mine in ours), sum(theirs[0] @ draw for theirs in plain)
    gradients = [torch.autograd.grad(each, trained) for each in loss]
    for one, other_one in zip(*gradients):
        torch.testing.assert_close(one, other_one, atol=1e-9 * max(1, float(other_one.abs().max())), rtol=0)


def test_the_representation_is_the_untouched_backbones():
    both, alone = tiny_model(method="m-idpg-phm+adapter", **PHM), tiny_model(method="m-idpg-phm", **PHM)
    enlarge(both.method.parts[1])
    seen = []
    for model in (both, alone):
        method = model.method
        method.injection = lambda m_of_x, old=method.injection: (seen.append(m_of_x), old(m_of_x))[1]
        logits(model, pair_batch())
    assert torch.equal(seen[0], seen[1])


class Filling(Method):
    """Fills the slots it is given with values of its own."""

    def __init__(self, *slots: str):
        super().__init__()
        self.slots = slots

    def injection(self, representation):
        return Injection(**dict.fromkeys(self.slots, self))

    def describe(self):
        return ""


ALSO = {
    "m-idpg-phm-glove": {"representation_width": WIDTH},
    "p-tuning": {"prompt_reparameterization": "prefix-mlp"},  # which makes keys and values too
}
SLOTS = ("words", "input", "hidden", "late", "key_value", "sublayer", "projection")


def test_what_is_injected_is_joined():
    parts = [Filling("words", "late"), Filling("projection")]
    joined = Combination("a+b", parts)
    assert set(joined.slots) == {"words", "late", "projection"}
    first, second = joined.parts
    assert joined.injection(None) == Injection(words=first, late=first, projection=second)


def test_a_part_that_fills_more_than_it_says_is_refused():
    part = Filling("late")
    joined = Combination("a+b", [part, Filling("projection")])
    part.slots = ()
    part.injection = lambda representation: Injection(late=part)
    with pytest.raises(ValueError, match="Filling fills late, which its slots do not name"):
        joined.injection(None)


@pytest.mark.parametrize("slot", SLOTS)
def test_two_parts_in_one_slot_are_refused(slot):
    message = rf"--method a\+b\+c: a and c enter at the same place \({slot}\): choose one"
    with pytest.raises(InputError, match=message):
        Combination("a+b+c", [Filling(slot), Filling(), Filling(slot, "input")])


@pytest.mark.parametrize("name", sorted(name for name, preset in PRESETS.items() if preset.methods))
@pytest.mark.parametrize(
    "options", [{}, {"prompt_insertion": "key-value"}, {"prompt_layers": "0,2"}, {"prompt_insertion": "late"}], ids=str
)
def test_methods_fill_the_slots_that_they_name(name, options):
    options = {option: value for option, value in options.items() if option in PRESETS[name].options}
    method = tiny_model(method=name, **(PHM if "phm" in name else {}), **ALSO.get(name, {}), **options).method
    filled = filled_fields(method.injection(torch.randn(3, WIDTH) if method.representation else None))
    assert set(filled) - {"insertion"} == set(method.slots) <= set(SLOTS)


class Reading(Filling):
    """Reads M(x) of a kind."""

    def __init__(self, slot: str, kind: str, dropout: bool = False):
        super().__init__(slot)
        self.representation, self.representation_dropout = kind, dropout


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ([("backbone",), ("mean-pooled",)], "a reads M.x. as backbone and c as mean-pooled, but a pass computes one"),
        ([("previous-layer",), ("last-states",)], "a reads M.x. as backbone and c as last-states"),
        ([("backbone", True), ("backbone",)], "a reads M.x. as backbone with dropout and c as backbone, but"),
        ([("backbone",), ("previous-layer",)], None),  # which is M(x) of the backbone at the input
        ([("glove",), ("glove",)], None),
    ],
)
def test_parts_that_read_different_representations_are_refused(kinds, message):
    one, other = (Reading(slot, *kind) for slot, kind in zip(("input", "late"), kinds))
    parts = [one, Filling("projection"), other]
    if message is None:
        assert Combination("a+b+c", parts).representation == kinds[0][0]
        return
    with pytest.raises(InputError, match=message):
        Combination("a+b+c", parts)


def test_a_preset_of_several_methods_is_joined_like_one():
    three = tiny_model(method="mam+lora").method
    assert [type(part).__name__ for part in three.parts] == ["TaskPrompts", "ParallelAdapters", "LoRA"]
    assert set(three.slots) == {"key_value", "sublayer", "projection"}
    with pytest.raises(InputError, match=r"--method mam\+adapter: mam and adapter share --adapter-hidden-size"):
        find_preset("mam+adapter")
    parts = [Filling("words"), Filling("late"), Filling("late")]
    with pytest.raises(InputError, match=r"--method two\+one: two and one enter at the same place \(late\)"):
        Combination("two+one", parts, ("two", "two", "one"))


def test_counts_add_up():
    both = tiny_model(method="compacter+m-idpg-phm", **PHM).parameter_counts()["method"]
    parts = [
        tiny_model(method=m, **o).parameter_counts()["method"] for m, o in (("compacter", {}), ("m-idpg-phm", PHM))
    ]
    assert both == sum(parts)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("prompt-tuning+m-idpg-phm", "prompt-tuning and m-idpg-phm share --prompt-length, which cannot have two"),
        ("adapter+compacter", "adapter and compacter share --adapter-hidden-size"),
        ("adapter+adapter", "adapter and adapter share --adapter-hidden-size"),
        ("adapter+head-only", "head-only injects nothing"),
        ("prompt-tunning", "did you mean prompt-tuning"),
        ("prompt-tuning+", "^--method 'prompt-tuning\\+': give a name, or several with a \\+ and no space between$"),
        ("prompt-tuning + lora", "^--method 'prompt-tuning \\+ lora': give a name, or several"),
    ],
)
def test_refused(name, message):
    with pytest.raises(InputError, match=message):
        find_preset(name)


def test_settings_of_both_are_filled():
    defaults = find_preset("s-idpg-dnn+adapter-pfeiffer").defaults
    assert defaults["generator"] == "dnn" and defaults["adapter_activation"] == "relu"
    assert set(defaults) == {*PRESETS["s-idpg-dnn"].defaults, *PRESETS["adapter"].defaults}


def test_training_resume_and_validation(tmp_path):
    data, backbone = write_folder(tmp_path / "data"), write_backbone(tmp_path / "model.pt")
    options = ["--backbone", backbone, "--method", "m-idpg-phm+adapter"]
    whole = train(data, tmp_path / "whole", *options, "--max-epoch", 3)
    assert "prompt: 5 rows (add) at layers 0,1,2; adapters: after attention and FFN" in whole.output
    first = train(data, tmp_path / "parts", *options, "--max-epoch", 1)
    second = train(data, tmp_path / "parts", *options, "--max-epoch", 3)
    assert first.log("train_loss") + second.log("train_loss") == whole.log("train_loss")
    checked = validate(data, tmp_path / "whole" / "checkpoint_last.pt")
    assert checked.log("valid_loss") == pytest.approx(whole.log("valid_loss")[-1:], abs=1e-3)


def test_a_part_is_saved_folded():
    model = tiny_model(method="adapter+p-tuning").train()
    prompt = model.method.parts[1]
    with torch.no_grad():
        prompt.reparameterization.embedding.zero_()
    made_rows = prompt.made_rows(prompt.reparameterization)
    torch.testing.assert_close(model.state_dict()["method.parts.1.table"], made_rows)
    model.args.no_save_optimizer_state = True
    assert {n for n in model.state_dict() if "parts.1" in n} == {"method.parts.1.table"}


@pytest.mark.parametrize("name", ["adapter+s-idpg-phm", "s-idpg-phm+adapter"])
def test_sharing_of_one_prompt_has_no_effect_in_a_part_either(name):
    with pytest.raises(InputError, match="--generator-sharing L has no effect: one prompt shares with none"):
        made(name, phm_n=4, generator_sharing="L")
