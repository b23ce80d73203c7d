"""--optimizer grouped_adam: factors of the learning rate and of weight decay."""

import pytest
import torch
from omegaconf import OmegaConf

from fairseq_idpg.errors import InputError
from fairseq_idpg.optim.grouped_adam import GroupedAdam, GroupedAdamConfig, mark_groups
from tests.helpers import enlarge, tiny_model


def config(**options):
    settings = {"lr": [0.1], "adam_betas": "(0.9, 0.98)", "weight_decay": 0.5, "tpu": False, **options}
    return OmegaConf.merge(OmegaConf.structured(GroupedAdamConfig()), settings)


def marked_model(**options):
    model = tiny_model(**options)
    mark_groups(model, model.method.prompt_parameters(), model.method.word_parameters())
    return model


def trainable(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def one_step(model, cfg):
    """name -> change after one step with a gradient of ones: Adam's first step is lr times its sign."""
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = GroupedAdam(cfg, trainable(model))
    for parameter in trainable(model):
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return {n: (p.detach() - before[n], before[n]) for n, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("prompts", [False, True])
def test_learning_rates_and_decay(biases, prompts):
    model = marked_model()
    enlarge(model)  # decay of what is 0 would not show
    changes = one_step(model, config(head_lr=3.0, prompt_lr=0.5, no_decay_biases=biases, no_decay_prompts=prompts))
    for name, (change, value) in changes.items():
        lr = 0.1 * (3.0 if name.startswith("classification_heads") else 0.5)
        undecayed = prompts if name == "method.bias" else biases and value.dim() == 1
        expected = -lr - (0.0 if undecayed else lr * 0.5 * value)
        assert torch.allclose(change, torch.as_tensor(expected).expand_as(change), atol=1e-6), name


@pytest.mark.parametrize(
    "method", ["adapter-multihead-parallel", "adamix", "compacter", "ept", "lora+lpt-npg", "bitfit"]
)
def test_no_bias_decays_however_it_is_stacked(method):
    sizes = {"prompt_length": 5} if method == "ept" else {}
    model = marked_model(method=method, **sizes)
    enlarge(model)  # biases that are 0 stay so
    changes = one_step(model, config(no_decay_biases=True))
    prompts = {"method.parts.1.bias"}  # a generator's output bias is a prompt's
    biases = {name for name in changes if name.endswith("bias")} - prompts
    assert any(not name.startswith("classification_heads") for name in biases)
    for name, (change, value) in changes.items():
        undecayed = name in biases or value.dim() == 1
        expected = torch.full_like(value, -0.1) - (0 if undecayed else 0.1 * 0.5 * value)
        assert torch.allclose(change, expected, atol=1e-6), name


def rates(optimizer):
    return {group["name"].split("/")[0]: pytest.approx(group["lr"]) for group in optimizer.param_groups}


@pytest.mark.parametrize("trained", [{}, {"backbone": 1.0}], ids=["frozen", "whole"])
def test_schedulers_set_the_rate_before_the_factors(trained):
    """Also where a plateau lowers it."""
    factors = {"head": 0.0, "method": 10.0, **trained}
    model = marked_model(no_freeze_backbone=bool(trained))
    optimizer = GroupedAdam(config(head_lr=0.0, prompt_lr=10.0), trainable(model))
    optimizer.set_lr(0.02)
    assert rates(optimizer) == {name: 0.02 * factor for name, factor in factors.items()}
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer.optimizer, factor=0.5, patience=0)
    for loss in (1.0, 2.0):
        plateau.step(loss)
    assert optimizer.get_lr() == pytest.approx(0.01)


def test_a_flat_parameter_is_refused():
    flat = torch.nn.Parameter(torch.cat([p.detach().view(-1) for p in trainable(marked_model())]))
    with pytest.raises(InputError, match="--fp16-no-flatten-grads"):
        GroupedAdam(config(), [flat])


@pytest.mark.parametrize(
    ("method", "prompts", "words"),
    [
        ("prompt-tuning", ["table"], []),
        ("p-tuning", [], []),
        ("mpt", ["reparameterization.shared"], []),
        ("ept", ["reparameterization.rows"], ["words.a", "words.b"]),
    ],
)
def test_which_parameters_are_prompt_and_words(method, prompts, words):
    method = tiny_model(method=method, prompt_length=5).method
    for found, names in ((method.prompt_parameters(), prompts), (method.word_parameters(), words)):
        assert list(map(id, found)) == [id(method.get_parameter(name)) for name in names]


@pytest.mark.parametrize("method", ["dept", "lora+dept"])
def test_rows_added_to_words_have_a_rate_of_their_own(method):
    changes = one_step(marked_model(method=method), config(prompt_lr=0.5, words_lr=7.0, weight_decay=0.0))
    rates = {name: -change.mean().item() for name, (change, _) in changes.items() if name.startswith("method.")}
    assert sum(".words." in name for name in rates) == 2 and any(name.endswith(".table") for name in rates)
    assert rates == pytest.approx({name: 0.7 if ".words." in name else 0.05 for name in rates}, rel=1e-4)


@pytest.mark.parametrize(
    ("method", "option"), [("head-only", "prompt_lr"), ("m-idpg-phm", "words_lr"), ("adapter", "no_decay_prompts")]
)
def test_options_without_effect(method, option):
    model = tiny_model(method=method)
    mark_groups(model, [] if model.method is None else model.method.prompt_parameters())
    with pytest.raises(InputError, match=f"--{option.replace('_', '-')} has no effect"):
        GroupedAdam(config(**{option: True if "decay" in option else 2.0}), trainable(model))
