"""Seconds and memory of K tasks on one backbone beside K predictions one after another, on the same sentences.

    python benchmarks/many_tasks.py quickstart/my-run/checkpoint_best.pt --text FILE [--tasks 8] [--rounds 3]

One checkpoint stands for all K: what is computed is the same for K different ones of its method. Both take turns;
medians. Of the 2 K passes of K M-IDPG predictions 1 + K are left: M(x) is computed once. The target is 10% above that.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere, installed or not

import torch
from settings import positive

from fairseq_idpg import load
from fairseq_idpg.inference.files import TextFile
from fairseq_idpg.inference.many import ManyTasks
from preprocess.errors import command_line

MIB = 2**20


def seconds(predict) -> float:
    start = time.perf_counter()
    predict()
    return time.perf_counter() - start


def parameter_bytes(many: ManyTasks) -> int:
    """Of all tasks, what they share counted once."""
    parameters = [parameter for name in many.names for parameter in many[name].model.parameters()]
    return sum({p.data_ptr(): p.numel() * p.element_size() for p in parameters}.values())


@command_line("error", "nothing is kept")
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("checkpoint")
    parser.add_argument("--text", required=True, metavar="FILE")
    parser.add_argument("--pairs", action="store_true", help="two columns")
    parser.add_argument("--sentences", type=int, default=256, metavar="N", help="of the file's beginning")
    parser.add_argument("--tasks", type=int, default=8, metavar="K")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    positive(args, "sentences", "tasks", "batch_size", "rounds")
    count = args.tasks
    lines = TextFile(args.text, "tab" if args.pairs else "lines").lines()
    texts = [line.text for _, line in zip(range(args.sentences), lines)]
    single = load(args.checkpoint)
    many = load({f"task{number}": args.checkpoint for number in range(count)})
    warm, size = texts[: args.batch_size], args.batch_size
    single.predict(warm, size), many.predict(warm, batch_size=size)
    separate, shared = [], []
    for _ in range(args.rounds):
        separate.append(seconds(lambda: [single.predict(texts, size) for _ in range(count)]))
        shared.append(seconds(lambda: many.predict(texts, batch_size=size)))
    one, together = median(separate), median(shared)
    target = 1.1 * (1 + count) / (2 * count)
    backbone = sum(p.numel() * p.element_size() for p in many[many.names[0]].model.encoder.parameters())
    print(f"{count} tasks, {len(texts):,} sentences, {torch.get_num_threads()} threads, {single.device}")
    print(f"one after another  {one:8.2f} s  {count * len(texts) / one:8.0f} answers a second")
    print(f"together           {together:8.2f} s  {count * len(texts) / together:8.0f} answers a second")
    print(f"ratio              {together / one:8.3f}    target {target:.3f}")
    print(f"weights            {parameter_bytes(many) / MIB:8.1f} MiB, one backbone {backbone / MIB:.1f} MiB")


if __name__ == "__main__":
    main()
