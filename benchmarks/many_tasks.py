"""Seconds and memory of K tasks on one backbone beside K predictions one after another, on the same sentences.

    python benchmarks/many_tasks.py quickstart/runs/m-idpg-phm/checkpoint_best.pt --text FILE --tasks 8

One checkpoint stands for all K: what is computed is the same for K different ones of its method. Both take turns;
medians. Of the 2 K passes of K M-IDPG predictions 1 + K are left: M(x) is computed once. The target is 10% above that.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from time import perf_counter

import torch
from common import make_parser, parse, write_json
from predict_speed import Block, for_each

from fairseq_idpg import load
from fairseq_idpg.inference.files import TextFile
from preprocess.errors import command_line

APART, MIB = "one after another", 2**20


@command_line("error", "nothing is kept")
def main() -> None:
    parser = make_parser(
        __doc__,
        sentences=(256, "sentences of the file's beginning"),
        tasks=(8, "K"),
        batch_size=(64, "sentences that are run together"),
        rounds=(3, "after one to warm up"),
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT")
    parser.add_argument("--text", required=True, metavar="FILE", help="a sentence in each line")
    parser.add_argument("--pairs", action="store_true", help="two columns of sentences")
    args = parse(parser)
    lines = TextFile(args.text, "tab" if args.pairs else "lines").lines()
    texts = [line.text for line in islice(lines, args.sentences)]
    single = load(args.checkpoint)
    many = load({f"task{number}": args.checkpoint for number in range(args.tasks)})
    models = [many[name].model for name in many.names]
    # by their places in memory: what the tasks share counts once
    weights = {p.data_ptr(): p.numel() * p.element_size() for model in models for p in model.parameters()}
    backbone = sum(p.numel() * p.element_size() for p in models[0].encoder.parameters())
    target = 2 * args.tasks / (1.1 * (1 + args.tasks))
    print(f"{args.tasks} tasks, {len(texts):,} sentences, {torch.get_num_threads()} threads, {single.device}")
    print(f"weights {sum(weights.values()) / MIB:.1f} MiB, one backbone {backbone / MIB:.1f} MiB")
    print(f"target: {target:.3f} times as fast as {APART}", flush=True)
    block = Block("answers", args.tasks * len(texts), perf_counter, peers=(APART,))
    block.add(APART, partial(for_each, partial(single.predict, batch_size=args.batch_size), [texts] * args.tasks))
    block.add("together", partial(many.predict, texts, batch_size=args.batch_size))
    block.measure(args.rounds)
    write_json(args.json, {f"{name.replace(' ', '_')}_s": seconds for name, seconds in block.rounds.items()})


if __name__ == "__main__":
    main()
