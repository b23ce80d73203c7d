"""Seconds and memory of K tasks on one backbone beside K predictions one after another, on the same sentences.

    python benchmarks/many_tasks.py quickstart/my-run/checkpoint_best.pt --text FILE [--tasks 8] [--rounds 3]

One checkpoint stands for all K: what is computed is the same for K different ones of its method. Both take turns;
medians. Of the 2 K passes of K M-IDPG predictions 1 + K are left: M(x) is computed once. The target is 10% above that.
"""

from __future__ import annotations

from statistics import median
from timeit import timeit

import torch
from settings import new_parser, parsed, write_json

from fairseq_idpg import load
from fairseq_idpg.inference.files import TextFile
from preprocess.errors import command_line

MIB = 2**20


@command_line("error", "nothing is kept")
def main() -> None:
    parser = new_parser(
        __doc__,
        sentences=(256, "of the file's beginning"),
        tasks=(8, ""),
        batch_size=(64, ""),
        rounds=(3, ""),
    )
    parser.add_argument("checkpoint")
    parser.add_argument("--text", required=True, metavar="FILE")
    parser.add_argument("--pairs", action="store_true", help="two columns")
    args = parsed(parser)
    count, size = args.tasks, args.batch_size
    lines = TextFile(args.text, "tab" if args.pairs else "lines").lines()
    texts = [line.text for _, line in zip(range(args.sentences), lines)]
    single = load(args.checkpoint)
    many = load({f"task{number}": args.checkpoint for number in range(count)})

    def one_after_another() -> None:
        for _ in range(count):
            single.predict(texts, size)

    single.predict(texts[:size], size)  # to warm up
    many.predict(texts[:size], batch_size=size)
    separate, shared = [], []
    for _ in range(args.rounds):
        separate.append(timeit(one_after_another, number=1))
        shared.append(timeit(lambda: many.predict(texts, batch_size=size), number=1))
    one, together = median(separate), median(shared)
    models = [many[name].model for name in many.names]
    # by their places in memory: what the tasks share counts once
    weights = {p.data_ptr(): p.numel() * p.element_size() for model in models for p in model.parameters()}
    backbone = sum(p.numel() * p.element_size() for p in models[0].encoder.parameters())
    print(f"{count} tasks, {len(texts):,} sentences, {torch.get_num_threads()} threads, {single.device}")
    print(f"one after another  {one:8.2f} s  {count * len(texts) / one:8.0f} answers a second")
    print(f"together           {together:8.2f} s  {count * len(texts) / together:8.0f} answers a second")
    print(f"ratio              {together / one:8.3f}    target {1.1 * (1 + count) / (2 * count):.3f}")
    print(f"weights            {sum(weights.values()) / MIB:8.1f} MiB, one backbone {backbone / MIB:.1f} MiB")
    write_json(args.json, {"one_after_another_s": separate, "together_s": shared})


if __name__ == "__main__":
    main()
