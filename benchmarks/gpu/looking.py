"""What one process of benchmarks/gpu.sh finds out about each case, one after another.

    python benchmarks/gpu/looking.py inspect --cases 'm-idpg*' --device cuda --dtype float16 --json FILE

agree: how far loss and gradients of a step on the device are from those on the CPU, without dropout (float32); with
LAYERS layers and SENTENCES sentences.
inspect: in a step of training, which kernel of scaled_dot_product_attention is called how often, and where Python waits
for the GPU, as far as torch.cuda.set_sync_debug_mode tells; with LAYERS layers.
predict: sentences a second, from token ids on the device to logits; a method that can stand in the weights does.

What fails of one case is in its {"error"}, and the next one follows.
"""

from __future__ import annotations

import argparse
import copy
import gc
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # installed or not

import torch
from step_cases import Case, chosen
from step_measure import ROOT, write_json
from step_settings import NUMBERS, SIZES, Settings, add_device, add_numbers, changed, positive
from step_worker import Steps, first_line
from torch import nn
from torch.nn.functional import cross_entropy
from torch.profiler import ProfilerActivity, profile

from preprocess.errors import command_line

LAYERS = 4  # enough for every preset's places, and quickly made
SENTENCES = 4  # of the batch of agree, which a CPU takes too
ATTENTION = "scaled_dot_product_"
WAITS = "synchronizing CUDA operation"
PASSES = 5  # over the batches, of which the median counts


def agree(case: Case, settings: Settings) -> dict[str, Any]:
    """||a - b|| / ||b|| of the loss and of all gradients together."""
    few = replace(settings, layers=LAYERS, batch=min(SENTENCES, settings.batch), steps=1)
    cpu = Steps(replace(case, dropout=False), replace(few, device="cpu", dtype="float32"))
    device = copy.copy(cpu)
    device.model = copy.deepcopy(cpu.model).to(settings.device)
    found = []
    for steps, place in ((cpu, "cpu"), (device, settings.device)):
        steps.model.eval()
        for part in steps.model.modules():
            part.train(isinstance(part, nn.RNNBase))  # cuDNN's has no backward pass in evaluation
        steps.place = place
        arguments, labels = cpu.batches[0]
        steps.model.zero_grad()
        logits = steps.logits(steps.model(**steps.placed(arguments)))
        loss = cross_entropy(logits, labels.to(place))
        loss.backward()
        gradients = [p.grad.flatten().double().cpu() for p in steps.model.parameters() if p.grad is not None]
        found.append((loss.detach().double().cpu(), torch.cat(gradients)))
    (loss, gradient), (other_loss, other_gradient) = found
    return {
        "loss": float((other_loss - loss).abs() / loss.abs()),
        "gradient": float((other_gradient - gradient).norm() / gradient.norm()),
    }


def inspect(case: Case, settings: Settings) -> dict[str, Any]:
    steps = Steps(case, replace(settings, layers=LAYERS, steps=1))
    steps.run(1)  # what is made once
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        steps.step()
    calls = {event.key.split("::")[-1]: event.count for event in seen.key_averages()}
    kernels = {name.lstrip("_"): count for name, count in sorted(calls.items()) if name.startswith("_" + ATTENTION)}
    waits = synchronisations(steps.step) if settings.device == "cuda" else None
    return {"layers": LAYERS, "kernels": kernels, "synchronisations": waits}


def synchronisations(step: Callable[[], Any]) -> dict[str, int]:
    """Where Python waits for the GPU -> how often."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return waits_of(seen)


def waits_of(seen: list[warnings.WarningMessage]) -> dict[str, int]:
    places = Counter(f"{_short(each.filename)}:{each.lineno}" for each in seen if WAITS in str(each.message))
    return dict(places.most_common())


def _short(file: str) -> str:
    """A path from the root of the project, or of the packages."""
    for root in (str(ROOT) + "/", "site-packages/", "dist-packages/"):
        before, found, after = file.partition(root)
        if found and ".venv" not in after:
            return after
    return file


def predict(case: Case, settings: Settings) -> dict[str, Any]:
    steps = Steps(case, settings)
    steps.optimizer = None
    steps.model.eval()
    getattr(steps.model, "merge_method", lambda: None)()
    if settings.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with torch.inference_mode():
        seconds = [_pass(steps) for _ in range(PASSES + 1)][1:]
    count = settings.batch * settings.steps
    return {"sentences_per_s": count / median(seconds), "peak_mib": steps.device.peak_mib(), "seconds": seconds}


def _pass(steps: Steps) -> float:
    """Over all batches, told one by one to the device."""
    steps.device.finish()
    start = steps.clock()
    for arguments, _ in steps.batches:
        logits = steps.logits(steps.model(**arguments))
    steps.device.finish()
    seconds = steps.clock() - start
    assert torch.isfinite(logits).all(), "a logit is not finite"
    return seconds


LOOKS: dict[str, Callable[[Case, Settings], dict[str, Any]]] = {"agree": agree, "inspect": inspect, "predict": predict}


def look(what: str, cases: list[Case], settings: Settings) -> dict[str, Any]:
    found = {}
    for case in cases:
        try:
            found[case.name] = LOOKS[what](case, settings)
        except Exception as error:
            traceback.print_exc()
            found[case.name] = {"error": first_line(error)}
        print(f"{what} {case.name}: {found[case.name]}", flush=True)
        gc.collect()
        if settings.device == "cuda":
            torch.cuda.empty_cache()
    return found


def parse_look(text: str, *looks: str) -> argparse.Namespace:
    """The options of every process of benchmarks/gpu.sh that is not step_time.py."""
    parser = argparse.ArgumentParser(description=text.split("\n\n")[0])
    if looks:
        parser.add_argument("look", choices=looks)
    parser.add_argument("--cases", nargs="+", action="extend", metavar="NAME", help="names or patterns")
    parser.add_argument("--size", choices=SIZES, default="roberta-large")
    add_numbers(parser, Settings())
    add_device(parser)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    return parser.parse_args()


@command_line("error", "nothing is kept")
def main() -> None:
    args = parse_look(__doc__, *LOOKS)
    numbers = positive(args, *NUMBERS)
    settings = changed(SIZES[args.size], device=args.device, dtype=args.dtype, length_spread=0.0, **numbers)
    write_json(args.json, look(args.look, chosen(args.cases or ["*"]), settings))


if __name__ == "__main__":
    main()
