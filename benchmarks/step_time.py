"""Seconds of a training step of every method, beside the same methods of peft and AdapterHub, measured in one run.

    python benchmarks/step_time.py [--json FILE] [--no-peers] [--cases m-idpg-phm '*lora*' prompt-tuning ...]
    python benchmarks/step_time.py --device cuda --dtype float16 --size roberta-large --batch 32 --length 128

A step is forward, backward and Adam over what is trained, in float32 on the CPU, on a random RoBERTa of 24 layers and
width 256 with dropout 0.1; batches of 16 sentences of about 40 tokens, the same for all cases. Every case is a process
of its own (so its peak memory is its own); they take turns step by step, and while one runs, the others sleep. A case's
figure is the mean over the batches of each one's median over the rounds; a target's is the median of the rounds'
ratios. More than 14 cases are measured in several parts, each with prompt-tuning and floor, and a table of all follows.
The peers need bash benchmarks/setup_peers.sh once, or an environment that has them.

"floor" is stock fairseq's RoBERTa, frozen, with a gradient to the word embeddings, on the rows that prompt tuning runs
(the text and 5 rows more); "floor-text" is the same on the text alone. "- built" is the peak above what the process
held with imports and model; "kept" is what autograd keeps between forward and backward. Every preset has its own prompt
length, unless --prompt-length says another for all, and peers the rows, hidden sizes and ranks of the preset that they
stand beside; dropout is their library's own. Trainable is without the head.
"tokens/s" counts the text, without padding and prompt; "of floor" is the floor's time over the case's.

--length gives all sentences the same number of tokens instead of drawing it from N(40, 10). Where text and prompt need
more than RoBERTa's 512 positions, the table of positions is longer, so that no case gets less text than another.

--dtype float16 and bfloat16 train as fairseq's --fp16 and --bf16: the model, the frozen weights too, in half precision,
Adam on float32 copies of what is trained, float16 with a dynamic loss scale (step_half.py). On the CPU, the peak then
includes the float32 model that the half one is made from.

--clock cpu counts the seconds that the process computed, which is what to compare on a machine that others use as well;
with --threads 1, because threads that wait for each other may count too.

--device cuda: the batches lie on the GPU before the first step, the clock is read when the GPU has finished, memory is
what torch has allocated there. Every case keeps its model on the GPU; the memory of steps goes back after its turn, and
before the clock starts the next one it runs its batches once to get it again.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere, installed or not

from step_cases import Case, blocks, chosen
from step_measure import check_device, check_folder, check_peers, measure, write_json
from step_report import libraries, summary, table, targets
from step_settings import NUMBERS, SIZES, Settings, add_device, add_numbers, changed, positive
from step_targets import targets_of

from preprocess.errors import InputError, command_line


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--size", choices=SIZES, default="small", help="of the model (default small)")
    sizes = dict.fromkeys(("layers", "width", "ffn", "heads"), "that of --size")
    notes = {"length": "drawn, 40 on average", "prompt_length": "each preset's own", **sizes}
    add_numbers(parser, Settings(), **notes)
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="after one to warm up (default 5)")
    add_device(parser)
    clocks = "seconds: the wall's, or those that the CPU computed, for machines that others use too (default wall)"
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help=clocks)
    parser.add_argument(
        "--cases", nargs="+", action="extend", metavar="CASE", help="names or patterns, such as '*lora*' (default: all)"
    )
    parser.add_argument("--list", action="store_true", help="print the cases, measure nothing")
    parser.add_argument("--no-peers", action="store_true", help="leave peft and adapters out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the figures")
    return parser.parse_args(arguments)


def check(args: argparse.Namespace) -> tuple[Settings, list[Case]]:
    """What to measure.

    Raises:
        InputError: numbers or names that cannot be measured; peers or a device that are not there.
    """
    if args.clock == "cpu" and args.device != "cpu":
        raise InputError(f"--clock cpu does not see the work of --device {args.device}: give --clock wall")
    positive(args, "rounds")
    numbers = positive(args, *NUMBERS)
    fixed = {"length_spread": 0.0} if args.length else {}
    shown = {"device": args.device, "dtype": args.dtype, "clock": args.clock}
    settings = changed(SIZES[args.size], **shown, **fixed, **numbers)
    cases = chosen(args.cases or ["*"])
    if args.no_peers:
        if args.cases and any(case.peer for case in cases):
            raise InputError("--no-peers and --cases with peers exclude each other: leave one of them out")
        cases = [case for case in cases if not case.peer]
    if args.list:
        return settings, cases
    check_peers(cases)
    check_folder("--json", args.json)
    check_device(args.device)
    return settings, cases


@command_line("error", "nothing is kept")
def main() -> None:
    args = parse(sys.argv[1:])
    settings, cases = check(args)
    if args.list:
        print("\n".join(case.name for case in cases))
        return
    print(f"{settings}; {settings.steps} batches in each of {args.rounds} rounds", flush=True)
    measured, failed = [], []
    for family, members in blocks(cases):
        found, errors = measure(members, settings, args.rounds, f"{family}: " if family else "")
        measured.append(found)
        failed += [name for name in errors if name not in failed]
        print("\n".join(["", *([family] if family else []), *table(found)]), flush=True)
    figures = {case.name: found[case.name] for case in cases for found in reversed(measured) if case.name in found}
    print(f"\n{libraries(figures)}")
    if len(measured) > 1:
        print("\n".join(["\nmedians of the rounds' ratios", *summary(measured)]))
    lines = targets(measured, targets_of(cases, settings))
    if lines:
        print("\n".join(["", "targets", *lines]))
    if args.json:
        shared = {"settings": asdict(settings), "rounds": args.rounds}
        write_json(args.json, {name: {**found, **shared} for name, found in figures.items()})
    if failed:
        sys.exit(f"error: {', '.join(failed)} failed, see above")


if __name__ == "__main__":
    main()
