"""Seconds of a training step of every method, beside the same methods of peft and AdapterHub, measured in one run.

    python benchmarks/step_time.py [--json FILE] [--no-peers] [--cases m-idpg-phm '*lora*' prompt-tuning ...]
    python benchmarks/step_time.py --device cuda --dtype float16 --size roberta-large --batch 32 --length 128

A step is forward, backward and Adam over what is trained, on a random RoBERTa with dropout 0.1; all cases have the same
batches. Every case is a process of its own, so its peak memory is its own; while one runs, the others sleep. A case's
figure is the mean over the batches of each one's median over the rounds. More than 14 cases are measured in several
parts, each with prompt-tuning and floor, and a table of all follows, whose ratios are medians of the rounds' ratios.
The peers need bash benchmarks/setup_peers.sh once, or an environment that has them; they have the rows, hidden sizes
and ranks of the preset that they stand beside, and their library's own dropout.

"floor" is stock fairseq's RoBERTa, frozen, with a gradient to the word embeddings, on the rows that prompt tuning runs;
"floor-text" is the same on the text alone. "- built" is the peak above what the process held with imports and model;
"kept" is what autograd keeps between forward and backward. "trainable" is without the head, "tokens/s" without padding
and prompt; "of floor" is the floor's time over the case's.

--length gives all sentences the same number of tokens instead of drawing it from N(40, 10).
--dtype float16 and bfloat16 train as fairseq's --fp16 and --bf16: the frozen weights too are in half precision, Adam
works on float32 copies. On the CPU, the peak then includes the float32 model that the half one is made from.
--clock cpu counts the seconds that the process computed; with --threads 1, as threads that wait may count too.
--device cuda: the batches lie on the GPU before the first step, the clock is read when the GPU has finished, memory is
what torch has allocated there. Every case keeps its model there, but gives the memory of steps back after its turn.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import asdict, fields, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

from settings import (
    ROOT,
    SIZES,
    Settings,
    add_clock,
    check_device,
    parsed,
    step_parser,
    step_settings,
    write_json,
)
from step_cases import PEERS, Case, blocks, chosen
from tqdm import tqdm

from preprocess.errors import InputError, command_line

PEERS_FOLDER = ROOT / "benchmarks" / ".peers"
MAKERS = {"peft": "peft", "adapters": "AdapterHub", "transformers": "transformers"}
Figures = dict[str, dict[str, Any]]


def told(values: Case | Settings) -> dict[str, Any]:
    """Return the fields that are not as usual, but ``checkout``: another one may not know all of them."""
    usual = {each.name: each.default for each in fields(values)}
    return {name: value for name, value in asdict(values).items() if value != usual[name] and name != "checkout"}


def environment_of(peer: bool, **more: str) -> dict[str, str]:
    """Return the environment of a child process; a peer's finds the libraries of setup_peers.sh first."""
    found = {**os.environ, "TOKENIZERS_PARALLELISM": "false", **more}
    if peer:
        paths = filter(None, [str(PEERS_FOLDER), found.get("PYTHONPATH")])
        found |= {"PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"}
    return found


class Worker:
    """A case's process; ``figures`` grows with each answer, or ends with an ``error``."""

    def __init__(self, case: Case, settings: Settings, log: Path):
        self.case, self.log, root = case, log, Path(case.checkout or ROOT)
        self.figures: dict[str, Any] = {}
        self.seconds: list[float] = []
        environment = environment_of(case.peer, OMP_NUM_THREADS=str(settings.threads))
        command = [sys.executable, str(root / "benchmarks" / "step_worker.py")]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with open(log, "w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(command, cwd=root, env=environment, stderr=errors, **pipes)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.requests, self.answers = self.process.stdin, self.process.stdout
        self.ask({"case": told(case), **told(settings)})

    def ask(self, request: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # it has ended: the answer says how
            print(json.dumps(request), file=self.requests, flush=True)

    def answer(self) -> dict[str, Any]:
        line = self.answers.readline()
        return json.loads(line) if line else {"error": f"its process ended with exit status {self.process.wait()}"}

    def run(self, steps: int, warm_up: bool) -> None:
        if "error" in self.figures:
            return
        self.ask({"run": steps})
        found = self.answer()
        seconds = found.pop("seconds", [])
        self.seconds += [] if warm_up else seconds
        self.figures = found if "error" in found else {**self.figures, **found}

    def finish(self, steps: int) -> dict[str, Any]:
        """Return the case's figures, of rounds of so many steps; only the error where it failed."""
        if "error" not in self.figures:
            rounds = [self.seconds[start : start + steps] for start in range(0, len(self.seconds), steps)]
            # what a step costs on average: the mean over the batches of each one's median over the rounds
            step = mean(median(times) for times in zip(*rounds))
            speed = {"median_s": step, "tokens_per_s": self.figures["tokens"] / step}
            self.figures |= {**speed, "rounds_s": [mean(seconds) for seconds in rounds]}
        return self.figures

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.requests.close()
        self.answers.close()


def measure(cases: list[Case], settings: Settings, rounds: int, label: str = "") -> tuple[Figures, list[str]]:
    """Return (figures of each case, the cases of this plugin and of fairseq that failed), and show the first one's log.

    On a CPU the cases take turns after every step, so that a slow minute is in all of them; after every round on a GPU,
    whose memory is given back at each turn.
    """
    each = 1 if settings.device == "cpu" else settings.steps
    workers: list[Worker] = []
    with ExitStack() as ended:
        logs = Path(ended.enter_context(TemporaryDirectory()))
        for case in cases:
            workers.append(Worker(case, settings, logs / case.name))
            ended.callback(workers[-1].stop)
        for worker in workers:
            worker.figures = worker.answer()
        for number in tqdm(range(rounds + 1), f"{label}rounds", leave=False, disable=None):  # the first one warms up
            for turn in range(settings.steps // each):
                for worker in workers if (number + turn) % 2 else workers[::-1]:
                    worker.run(each, warm_up=number == 0)
        figures = {worker.case.name: worker.finish(settings.steps) for worker in workers}
        failed = [worker for worker in workers if "error" in worker.figures and not worker.case.peer]
        for worker in failed[:1]:
            print(worker.log.read_text(encoding="utf-8"), file=sys.stderr)
    return figures, [worker.case.name for worker in failed]


def ratio(figures: Figures, case: str, of: str) -> str:
    """Return it to two places, or - where one of the two was not measured."""
    own, other = (figures.get(name, {}).get("median_s") for name in (case, of))
    return f"{own / other:.2f}" if own and other else "-"


def libraries(figures: Figures) -> str:
    """Return on which hardware with which versions was measured, as far as the cases say."""
    versions = {name: number for found in figures.values() for name, number in found.get("libraries", {}).items()}
    hardware = {found["hardware"] for found in figures.values() if "hardware" in found}
    return ", ".join([*sorted(hardware), *(f"{name} {number}" for name, number in versions.items())])


def table(figures: Figures) -> list[str]:
    times = f"{'s/step':>9}{'/ prompt-tuning':>17}{'/ floor':>9}"
    memory = f"{'peak MiB':>10}{'- built':>9}{'kept':>8}"
    lines = [f"{'case':34}{times}{memory}{'trainable':>12}{'tokens/s':>11}{'of floor':>10}"]
    for name, found in figures.items():
        if "error" in found:
            lines.append(f"{name:34}   fails: {found['error']}")
            continue
        own, floor = ratio(figures, name, "prompt-tuning"), ratio(figures, name, "floor")
        peak = f"{found['peak_mib']:10,.0f}{found['peak_mib'] - found['built_mib']:9,.0f}{found['kept_mib']:8,.0f}"
        speed = f"{found['tokens_per_s']:11,.0f}{of_floor(figures, name):>10}"
        lines.append(f"{name:34}{found['median_s']:9.4f}{own:>17}{floor:>9}{peak}{found['trainable']:12,}{speed}")
    return [*lines, *skipped(figures)]


def of_floor(figures: Figures, case: str) -> str:
    """Return the floor's time over the case's: the share of the floor's speed that it reaches."""
    share = ratio(figures, "floor", case)
    return share if share == "-" else f"{float(share):.0%}"


def skipped(figures: Figures) -> list[str]:
    """Return whose figures hold steps without an update, which take less time."""
    counts = {name: found.get("skipped", 0) for name, found in figures.items()}
    return [f"{name}: {count} steps overflowed and were skipped" for name, count in counts.items() if count]


def summary(blocks: list[Figures]) -> list[str]:
    """A line for each preset of several blocks: its ratios to prompt-tuning and to the peers that stand beside it.

    Of two peers of one library the second counts, which is there because the first fails.
    """
    heads = "".join(f"{'/ ' + shown:>16}" for shown in ("prompt-tuning", *MAKERS.values()))
    lines = {"": f"{'case':34}{'s/step':>9}{heads}{'kept MiB':>10}"}
    for block in blocks:
        done = {name: found for name, found in block.items() if "error" not in found}
        for name, found in done.items():
            if name in PEERS or name in lines:
                continue
            beside = {peer.partition("-")[0]: peer for peer in PEERS if peer in done and name in PEERS[peer]}
            others = ["prompt-tuning", *(beside.get(maker, "") for maker in MAKERS)]
            cells = "".join(f"{_round_ratio(found, done.get(other)):>16}" for other in others)
            lines[name] = f"{name:34}{found['median_s']:9.4f}{cells}{found['kept_mib']:10,.0f}"
    return list(lines.values())


def _round_ratio(own: dict[str, Any], other: dict[str, Any] | None) -> str:
    if other is None:
        return ""
    pairs = zip(own["rounds_s"], other["rounds_s"])  # a slower minute is in both
    return f"{median(mine / theirs for mine, theirs in pairs):.2f}"


def parse() -> argparse.Namespace:
    sizes = dict.fromkeys(("layers", "width", "ffn", "heads"), "that of --size")
    drawn = "drawn, 40 on average"
    parser = step_parser(__doc__, Settings(), rounds=5, length=drawn, prompt_length="each preset's own", **sizes)
    parser.add_argument("--size", choices=SIZES, default="small", help="of the model (default small)")
    add_clock(parser)
    parser.add_argument(
        "--cases", nargs="+", action="extend", metavar="CASE", help="names or patterns, such as '*lora*' (default: all)"
    )
    parser.add_argument("--list", action="store_true", help="print the cases, measure nothing")
    parser.add_argument("--no-peers", action="store_true", help="leave peft and adapters out")
    parser.add_argument(
        "--against", type=Path, metavar="DIR", help="another checkout, whose cases run in turns with these"
    )
    return parsed(parser)


def chosen_cases(args: argparse.Namespace) -> list[Case]:
    """Return the cases to measure. Raises InputError for peers that are not installed here nor by setup_peers.sh."""
    cases = chosen(args.cases or ["*"])
    if args.no_peers:
        cases = [case for case in cases if not case.peer]
    if args.against is not None:
        if not (args.against / "benchmarks" / "step_worker.py").is_file():
            raise InputError(f"--against {args.against} is not a checkout of this project")
        checkout = str(args.against.resolve())
        own = [case for case in cases if not case.peer]
        cases += [replace(case, name=f"{case.name} ({args.against.name})", checkout=checkout) for case in own]
    for case in cases if not args.list else []:
        if case.peer and not PEERS_FOLDER.is_dir() and find_spec(case.maker) is None:
            raise InputError(f"{case.maker} is not installed: run bash benchmarks/setup_peers.sh, or give --no-peers")
    return cases


@command_line("error", "nothing is kept")
def main() -> None:
    args = parse()
    if args.clock == "cpu" and args.device != "cpu":
        raise InputError(f"--clock cpu does not see the work of --device {args.device}: give --clock wall")
    same_length = {"length_spread": 0.0} if args.length else {}
    settings = step_settings(args, SIZES[args.size], clock=args.clock, **same_length)
    cases = chosen_cases(args)
    if args.list:
        print("\n".join(case.name for case in cases))
        return
    check_device(args.device)
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
    shared = {"settings": asdict(settings), "rounds": args.rounds}
    write_json(args.json, {name: {**found, **shared} for name, found in figures.items()})
    if failed:
        sys.exit(f"error: {', '.join(failed)} failed, see above")


if __name__ == "__main__":
    main()
