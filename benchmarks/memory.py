"""GiB of a training step by calculation, for backbones of up to 10 billion weights.

    python benchmarks/memory.py --sizes roberta-3b roberta-10b --device cuda

A model of the size on torch's meta device has shapes and takes no memory. Its tensors are counted there:

    weights     2 bytes a number in bfloat16, frozen or trained
    gradients   of what is trained: in bfloat16, and in float32 for Adam
    optimizer   of what is trained: weights in float32, and two moments
    kept        what autograd keeps from the forward pass: the input of each layer, as with --checkpoint-activations
    layer       what it keeps of the one layer that is run again; on a GPU, whose attention is fused, it is less

--device cuda trains them, too: "peak" is what torch reserves.
"""

import math
import sys
from dataclasses import asdict, replace
from typing import Any

from common import MEASURED, SIZES, Settings, check_device, make_parser, parse, write_json
from step_time import Case, find_cases, measure
from step_worker import Steps

from preprocess.errors import command_line
from preprocess.flags import aligned

CASES = ("prompt-tuning-checkpointed", "m-idpg-phm-checkpointed", "lora-checkpointed")


def calculated(case: Case, settings: Settings) -> dict[str, float]:
    """Return the GiB of each part of a step in bfloat16."""
    settings = replace(settings, device="meta", dtype="bfloat16", steps=1)
    steps = Steps(case, settings)
    weights = list(steps.model.parameters())
    total, trained = sum(p.numel() for p in weights), sum(p.numel() for p in weights if p.requires_grad)
    # the last layer computes one token alone, so the layer in front of it is counted
    one, two = (Steps(replace(case, checkpointed=False), replace(settings, layers=n)).built for n in (1, 2))
    found = {"weights": 2 * total, "gradients": (2 + 4) * trained, "optimizer": (4 + 4 + 4) * trained}
    found |= {"kept": steps.built["kept_mib"] * 2**20, "layer": (two["kept_mib"] - one["kept_mib"]) * 2**20}
    return {name: size / 2**30 for name, size in {**found, "sum": sum(found.values())}.items()}


@command_line("error", "nothing is kept")
def main() -> None:
    parser = make_parser(__doc__, batch=(8, "sentences"), length=(128, "tokens of each"))
    parser.add_argument("--sizes", nargs="+", action="extend", choices=SIZES, help="of the backbone (default: base on)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: measure, too (default cpu)")
    args = parse(parser)
    check_device(args.device)
    figures: dict[str, Any] = {}
    rows = [["size", "case"]]
    failed: list[str] = []
    for size in args.sizes or MEASURED:
        settings = replace(SIZES[size], batch=args.batch, length=args.length, length_spread=0.0, dtype="bfloat16")
        settings = replace(settings, device=args.device, steps=2)
        for case in find_cases(list(CASES)):
            found = calculated(case, settings)
            if args.device == "cuda":
                done = measure([case], settings, 1)[0][case.name]
                found["peak"] = done.get("peak_mib", math.nan) / 2**10
                if "error" in done:
                    failed.append(f"{size} {case.name} fails: {done['error']}")
            rows[0] = ["size", "case", *found]
            rows.append([size, case.name, *(f"{value:.3f}" for value in found.values())])
            figures[f"{size} {case.name}"] = {**found, "settings": asdict(settings)}
    print("\n".join([f"GiB, bfloat16, batches of {args.batch} x {args.length}", *aligned(rows, left=(0, 1)), *failed]))
    write_json(args.json, figures)
    if failed:
        sys.exit("error: a case failed, see above")


if __name__ == "__main__":
    main()
