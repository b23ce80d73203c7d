"""benchmarks/step_worker.py's steps, in this process: batches, half precision, and what is done on a shared device."""

from __future__ import annotations

import time
import weakref
from dataclasses import replace

import pytest
import torch
from step_cases import all_cases
from step_data import PAD, batches
from step_device import DEVICES, kept_mib
from step_settings import SIZES, Settings
from step_worker import LEARNING_RATE, Steps

from fairseq_idpg.count import GLOVE_WIDTH, backbone_sizes, method_of, own_parameters
from tests.helpers import model_args

CASES = all_cases()
OURS = [case.name for case in CASES.values() if case.maker == "method"]
SMALL = replace(SIZES["tiny"], batch=3, steps=2, length=8, threads=torch.get_num_threads())
HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def lengths(settings: Settings) -> set[int]:
    return {int(row.ne(PAD).sum()) for tokens, _ in batches(settings) for row in tokens}


def test_roberta_large_has_the_papers_size():
    size = SIZES["roberta-large"]
    args = model_args(encoder_layers=size.layers, encoder_embed_dim=size.width)
    assert own_parameters(method_of(args)) == 137_232
    assert (size.ffn, size.heads) == (4096, 16)


def test_lengths_are_drawn_around_the_mean_or_fixed():
    drawn = lengths(replace(SMALL, batch=200, length=40))
    assert (min(drawn), max(drawn)) == (12, 60)
    assert lengths(replace(SMALL, length=40, length_spread=0.0)) == {40}


@pytest.mark.parametrize("name", OURS)
def test_every_preset_takes_steps_and_trains_itself_alone(name):
    steps = Steps(CASES[name], replace(SMALL, layers=3))
    width = {"representation_width": GLOVE_WIDTH} if "glove" in name else {}
    args = model_args(method=CASES[name].what, encoder_layers=3, max_positions=512, **width)
    method = method_of(args)
    own = [
        size
        for parameter, size in backbone_sizes(args).items()
        if args.no_freeze_backbone or (method is not None and method.trains(parameter))
    ]
    assert steps.built["trainable"] == own_parameters(method_of(args)) + sum(own)
    assert len(steps.run(1)) == 1
    assert steps.optimizer.skipped == 0


def test_prompt_length_and_text_beyond_robertas_positions():
    steps = Steps(CASES["prompt-tuning"], replace(SMALL, prompt_length=7, length=510, length_spread=0.0))
    assert steps.built["trainable"] == 7 * SMALL.width
    assert steps.built["tokens"] == 510 * SMALL.batch
    assert steps.batches[0][0]["prompted_tokens"].shape == (SMALL.batch, 517)
    assert len(steps.run(1)) == 1


def test_keeps_for_the_backward_pass_what_grows_with_the_layers_above_a_late_prompt():
    def kept(name: str, layers: int, **other: int) -> float:
        return Steps(CASES[name], replace(SMALL, layers=layers, **other)).built["kept_mib"]

    late = {layers: kept("lpt-naive", layers, prompt_length=5) for layers in (4, 6, 8)}  # before layers 3, 4 and 5
    whole = {layers: kept("prompt-tuning", layers, prompt_length=5) for layers in (1, 2, 3)}
    assert late[6] - late[4] == pytest.approx(whole[2] - whole[1], rel=1e-3)
    assert late[8] - late[6] == pytest.approx(whole[3] - whole[2], rel=1e-3)
    assert late[4] < whole[1]  # without embeddings


def test_what_was_counted_is_not_kept_for_ever():
    """It would stand in the peak of every case. An output that its own gradient needs is the last to go."""
    weight, outputs = torch.randn(1024, requires_grad=True), []

    def forward() -> torch.Tensor:
        output = weight.exp()
        outputs.append(weakref.ref(output))
        return output

    assert kept_mib(forward, [weight]) == 4 / 1024
    assert outputs[0]() is None


def test_cached_states_begin_at_the_first_layer_with_a_prompt():
    steps = Steps(CASES["lpt-naive-cached-states"], replace(SMALL, layers=4))
    layers = steps.model.encoder.sentence_encoder.layers
    run = [0] * len(layers)
    for i, layer in enumerate(layers):
        layer.register_forward_hook(lambda *_, i=i: run.__setitem__(i, run[i] + 1))
    steps.run(1)
    assert run == [0, 0, 0, 1]
    assert {module.p for module in layers.modules() if hasattr(module, "p")} == {0.0}


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_trains_float32_masters_of_the_method_and_the_head(dtype):
    steps = Steps(CASES["m-idpg-phm-cached"], replace(SMALL, dtype=dtype))
    named = dict(steps.model.named_parameters())
    assert {p.dtype for p in named.values()} == {HALVES[dtype]}
    assert steps.batches[0][0]["representation"].dtype == HALVES[dtype]
    trained = [name for name, p in named.items() if p.requires_grad]
    head = sum(p.numel() for p in steps.model.classification_heads.parameters())
    args = model_args(encoder_layers=SMALL.layers, encoder_embed_dim=SMALL.width)
    masters = steps.optimizer.masters
    assert {p.dtype for p in masters} == {torch.float32}
    assert sum(p.numel() for p in masters) == head + own_parameters(method_of(args))

    before = {name: p.detach().clone() for name, p in named.items()}
    first = [p.detach().clone() for p in masters]
    steps.run(1)
    moved = torch.cat([(p.detach() - old).abs().flatten() for p, old in zip(masters, first)])
    assert moved.max() == pytest.approx(LEARNING_RATE, rel=0.01)  # Adam's first step, whatever the loss was scaled by
    assert moved.median() == pytest.approx(LEARNING_RATE, rel=0.01)
    for name, master in zip(trained, masters):
        assert torch.equal(named[name], master.to(HALVES[dtype]))
    assert all(torch.equal(named[name], old) for name, old in before.items() if name not in trained)
    assert steps.optimizer.skipped == 0


def test_the_clock_of_the_cpu_does_not_count_what_waits():
    seconds = {}
    for clock in ("wall", "cpu"):
        steps = Steps(CASES["head-only"], replace(SMALL, clock=clock))
        steps.step = lambda: time.sleep(0.2) or torch.zeros(())
        seconds[clock] = min(steps.run(3))
    assert seconds["cpu"] < 0.1 < 0.2 <= seconds["wall"]


def test_half_precision_learns():
    steps = Steps(CASES["fine-tuning"], replace(SMALL, dtype="bfloat16", steps=1))
    steps.optimizer.optimizer.set_lr(1e-3)
    losses = [steps.step().item() for _ in range(30)]
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])


def test_float16_skips_a_step_that_overflows():
    steps = Steps(CASES["prompt-tuning"], replace(SMALL, dtype="float16"))
    scaler = steps.optimizer.optimizer.scaler
    scaler.loss_scale = 2.0**60
    first = [p.detach().clone() for p in steps.optimizer.masters]
    steps.run(1)
    assert steps.optimizer.skipped == 1
    assert scaler.loss_scale == 2.0**59
    assert all(torch.equal(p, old) for p, old in zip(steps.optimizer.masters, first))


def test_a_device_that_is_shared_is_warmed_up_waited_for_and_given_back():
    steps, calls = Steps(CASES["prompt-tuning"], SMALL), []
    one_step = steps.step
    steps.step = lambda: calls.append("step") or one_step()
    steps.device = replace(
        DEVICES["cpu"], finish=lambda: calls.append("finish"), release=lambda: calls.append("release")
    )
    assert len(steps.run(2)) == 2
    assert calls == [*["step"] * 2, *["finish", "step", "finish"] * 2, "release"]
