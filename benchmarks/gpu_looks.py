"""What one process of benchmarks/gpu.sh finds out about each case, one after another.

    python benchmarks/gpu_looks.py predict --cases 'm-idpg*' --device cuda --dtype float16 --json FILE

agree: how far loss and gradients of a step on the device are from those on the CPU, without dropout (float32); with
LAYERS layers and SENTENCES sentences.
predict: sentences a second, from token ids on the device to logits; a method that can stand in the weights does.

What fails of one case is in its {"error"}, and the next one follows.
"""

from __future__ import annotations

import copy
import gc
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import torch
from common import Settings, add_step_options, make_parser, parse, step_settings, write_json
from step_time import PEERS, Case, find_cases
from step_worker import Steps, first_line
from torch import nn
from torch.nn.functional import cross_entropy

from preprocess.errors import command_line
from preprocess.flags import aligned

LAYERS = 4  # enough for every preset's places, and quickly made
SENTENCES = 4  # of the batch of agree, which a CPU takes too
LARGEST_DIFFERENCE = 1e-3  # of float32 gradients
PASSES = 5  # over the batches, of which the median counts
Figures = dict[str, Any]


def agree(case: Case, settings: Settings) -> Figures:
    """Return ||a - b|| / ||b|| of the loss and of all gradients together."""
    few = replace(settings, layers=LAYERS, batch=min(SENTENCES, settings.batch), steps=1)
    cpu = Steps(replace(case, dropout=False), replace(few, device="cpu", dtype="float32"))
    device = copy.copy(cpu)
    device.model = copy.deepcopy(cpu.model).to(settings.device)
    results = []
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
        results.append((loss.detach().double().cpu(), torch.cat(gradients)))
    (loss, gradient), (other_loss, other_gradient) = results
    difference = float((other_gradient - gradient).norm() / gradient.norm())
    figures = {"loss": float((other_loss - loss).abs() / loss.abs()), "gradient": difference}
    # also where it is not a number
    return figures if difference <= LARGEST_DIFFERENCE else {**figures, "error": f"gradients differ by {difference}"}


def predict(case: Case, settings: Settings) -> Figures:
    """Return sentences a second, and the peak memory."""
    steps = Steps(case, settings)
    del steps.optimizer
    steps.model.eval()
    getattr(steps.model, "merge_method", lambda: None)()
    if settings.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with torch.inference_mode():
        seconds = [_pass(steps) for _ in range(PASSES + 1)][1:]
    count = settings.batch * settings.steps
    return {"sentences_per_s": count / median(seconds), "peak_mib": steps.peak_mib(), "seconds": seconds}


def _pass(steps: Steps) -> float:
    """Return the seconds of all batches, which are launched one by one."""
    steps.finish()
    start = steps.clock()
    for arguments, _ in steps.batches:
        logits = steps.logits(steps.model(**arguments))
    steps.finish()
    seconds = steps.clock() - start
    assert torch.isfinite(logits).all(), "a logit is not finite"
    return seconds


# Of each look: its function, and what is printed of a case, {head of a column: (figure, form)}.
LOOKS: dict[str, tuple[Callable[[Case, Settings], Figures], dict[str, tuple[str, str]]]] = {
    "agree": (agree, {"loss": ("loss", "{:.1e}"), "gradient": ("gradient", "{:.1e}")}),
    "predict": (predict, {"sentences/s": ("sentences_per_s", "{:,.0f}"), "peak MiB": ("peak_mib", "{:,.0f}")}),
}


def look(what: str, cases: list[Case], settings: Settings) -> dict[str, Figures]:
    """Return the figures of each case, and print them."""
    measure, columns = LOOKS[what]
    by_case: dict[str, Figures] = {}
    for case in cases:
        try:
            by_case[case.name] = measure(case, settings)
        except Exception as error:
            traceback.print_exc()
            by_case[case.name] = {"error": first_line(error)}
        gc.collect()
        if settings.device == "cuda":
            torch.cuda.empty_cache()
    rows = [["case", *columns]]
    for name, figures in by_case.items():
        cells = (form.format(figures[key]) if key in figures else "-" for key, form in columns.values())
        rows.append([name, *cells])
    print("\n".join(aligned(rows)))
    return by_case


@command_line("error", "nothing is kept")
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("look", choices=tuple(LOOKS))
    parser.add_argument("--cases", nargs="+", action="extend", metavar="NAME", help="names or patterns (default: all)")
    add_step_options(parser)
    args = parse(parser)
    settings = step_settings(args, length_spread=0.0)
    by_case = look(args.look, find_cases(args.cases or ["*"]), settings)
    write_json(args.json, by_case)
    errors = {name: figures["error"] for name, figures in by_case.items() if "error" in figures}
    print("\n".join(f"{name}: {error}" for name, error in errors.items()))
    if errors.keys() - PEERS.keys():  # peers may fail
        sys.exit(f"error: {args.look} failed")


if __name__ == "__main__":
    main()
