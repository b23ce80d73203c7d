"""How far loss and gradients of a step on a device are from those on the CPU, in float32 and without dropout.

    python benchmarks/gpu_agree.py --cases 'm-idpg*' --device cuda --json FILE

Every case has LAYERS layers and SENTENCES sentences at most. What fails of one case is in its {"error"}, and the next
one follows.
"""

import copy
import gc
import math
import sys
import traceback
from dataclasses import replace
from typing import Any

import torch
from common import SIZES, Settings, add_step_options, make_parser, parse, step_settings, write_json
from step_time import Case, find_cases
from step_worker import Steps, first_line
from torch import nn
from torch.nn.functional import cross_entropy

from preprocess.errors import command_line
from preprocess.flags import aligned

LAYERS = 4  # enough for every preset's places, and quickly made
SENTENCES = 4  # of the batch, which a CPU takes too
LARGEST_DIFFERENCE = 1e-3  # of float32 gradients
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


@command_line("error", "nothing is kept")
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--cases", nargs="+", action="extend", metavar="NAME", help="names or patterns (default: all)")
    add_step_options(parser)
    args = parse(parser)
    settings = step_settings(args, SIZES[args.size], length_spread=0.0)
    figures: dict[str, Figures] = {}
    for case in (case for case in find_cases(args.cases or ["*"]) if not case.peer):
        try:
            figures[case.name] = agree(case, settings)
        except Exception as error:
            traceback.print_exc()
            figures[case.name] = {"error": first_line(error)}
        gc.collect()
        if settings.device == "cuda":
            torch.cuda.empty_cache()
    rows = [["case", "loss", "gradient"]]
    for name, found in figures.items():
        rows.append([name, *(f"{found.get(key, math.nan):.1e}" for key in rows[0][1:])])
    print("\n".join(aligned(rows)))
    write_json(args.json, figures)
    errors = {name: found["error"] for name, found in figures.items() if "error" in found}
    print("\n".join(f"{name}: {error}" for name, error in errors.items()))
    if errors:
        sys.exit("error: agree failed")


if __name__ == "__main__":
    main()
