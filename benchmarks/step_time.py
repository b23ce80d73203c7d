"""Seconds of a training step of every method, beside the same methods of peft and AdapterHub, measured in one run.

    python benchmarks/step_time.py --no-peers --cases m-idpg-phm '*lora*' prompt-tuning

A step is forward, backward and Adam over what is trained, on a random RoBERTa with dropout 0.1; all cases have the same
batches. Every case is a process, so its peak memory is its own; while one runs, the others sleep. A case's figure is
the mean over the batches of each one's median over the rounds. More than 14 cases are measured in several parts, each
with prompt-tuning and floor. The peers need bash benchmarks/setup_peers.sh once, or an environment that has them. They
have the rows, hidden sizes and ranks of the preset that they stand beside, and their library's own dropout.

"floor" is stock fairseq's RoBERTa, frozen, with a gradient to the word embeddings, on the rows that prompt tuning runs;
"floor-text" is the same on the text alone. "- built" is the peak above what the process held with imports and model;
"kept" is what autograd keeps between forward and backward. "trainable" is without the head, "tokens/s" without padding
and prompt. "/ peer" is the ratio to the fastest of the peers that stand beside the preset.

--predict times predictions of the same batches; a method that can stand in the weights does then.
--dtype float16 and bfloat16 train as fairseq's --fp16 and --bf16: the frozen weights too are in half precision, Adam
works on float32 copies. On the CPU, the peak then includes the float32 model that the half one is made from.
--clock cpu counts the seconds that the process computed; with --threads 1, as threads that wait may count too.
--device cuda: the batches lie on the GPU before the first step, the clock is read when the GPU has finished, memory is
what torch has reserved there. Every case keeps its model there, but gives the memory of steps back after its turn.
"""

import argparse
import json
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from fnmatch import filter as filter_names
from functools import cache, partial
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

from common import (
    PEERS_FOLDER,
    ROOT,
    SIZES,
    Settings,
    add_step_options,
    check_device,
    child_environment,
    make_parser,
    parse,
    step_settings,
    take_turns,
    write_json,
)

from preprocess.errors import InputError, command_line, did_you_mean
from preprocess.flags import aligned

REFERENCES = ("prompt-tuning", "floor")  # what every case is compared with
TOGETHER = 14  # cases that are measured at the same time, at most
FLOOR_ROWS = 5  # prompt tuning's
LATE = "late"  # a --prompt-insertion, and the group of all presets that have it
Figures = dict[str, dict[str, Any]]


# the cases: every preset of the registry, and what stands beside it


@dataclass(frozen=True)
class Case:
    """One line of the table; cases of a group are measured at the same time."""

    name: str
    maker: str  # method (of this plugin), floor (stock fairseq), peft, adapters or transformers
    what: str  # the plugin's --method, or the kind of tuning
    group: str = "floors"
    options: dict[str, Any] = field(default_factory=dict)  # of the method, or of the preset that a peer stands beside
    cached: bool = False  # the batches bring M(x), as with --representation-cache
    cached_states: bool = False  # they bring what enters the first layer with a prompt, as with --state-cache
    dropout: bool = True  # whether the backbone has its own; --state-cache needs it to be off
    checkpointed: bool = False  # as with --checkpoint-activations
    checkout: str = ""  # another folder of this project whose code is measured; empty for this one

    @property
    def peer(self) -> bool:
        return self.name in PEERS

    @property
    def rows(self) -> int:
        """Rows of the prompt unless --prompt-length says another number."""
        return self.options.get("prompt_length", FLOOR_ROWS)


CHECKPOINTED: dict[str, dict[str, Any]] = {"-checkpointed": {"checkpointed": True}}
VARIANTS = {  # preset -> ending of the name -> what is different
    "m-idpg-phm": {"-cached": {"cached": True}, **CHECKPOINTED},
    "fine-tuning": CHECKPOINTED,
    "lora": CHECKPOINTED,
    # without dropout it stands beside cached states
    "prompt-tuning": {**CHECKPOINTED, "-no-dropout": {"dropout": False, "group": LATE}},
}
LATE_VARIANTS = {"-cached-states": {"cached_states": True, "dropout": False}}  # of every late preset
# MAKER-KIND of other libraries -> the presets that it stands beside; the sizes are those of the first
PEERS: dict[str, tuple[str, ...]] = {
    "peft-prompt-tuning": ("prompt-tuning",),
    "adapters-prompt-tuning": ("prompt-tuning",),
    "peft-prefix-tuning": ("p-tuning-v2-kv",),
    # peft's prefix tuning for classification takes the cache for the pooled output of a RoBERTa and fails; this is
    # its prefix tuning of the encoder, with the head put behind it here
    "peft-prefix-features": ("p-tuning-v2-kv",),
    "adapters-prefix-tuning": ("p-tuning-v2-kv",),
    "adapters-adapter": ("adapter",),
    "adapters-adapter-pfeiffer": ("adapter-pfeiffer",),
    "adapters-compacter": ("compacter", "compacter-shared"),
    "peft-lora": ("lora",),
    "adapters-lora": ("lora",),
    "transformers-bitfit": ("bitfit",),  # neither library has one
    "transformers-fine-tuning": ("fine-tuning",),
}
# a frozen forward and a gradient to the word embeddings: of the rows that prompt tuning runs, or of the text
FLOORS = (Case("floor", "floor", "prompted"), Case("floor-text", "floor", "text"))


@cache
def all_cases() -> dict[str, Case]:
    """Return all cases in the table's order: each preset with its variants and peers behind it, group by group."""
    from fairseq_idpg.methods.registry import PRESETS  # imports fairseq, which the peers' processes do without

    leaders = {preset: beside[0] for beside in PEERS.values() for preset in beside}
    cases: list[Case] = []
    for name, preset in PRESETS.items():
        late = preset.defaults.get("prompt_insertion") == LATE
        own = Case(name, "method", name, LATE if late else leaders.get(name, name), preset.defaults)
        variants = LATE_VARIANTS if late else VARIANTS.get(name, {})
        cases += [own, *(replace(own, name=name + end, **change) for end, change in variants.items())]
        for peer in (peer for peer, beside in PEERS.items() if beside[0] == name):
            maker, _, what = peer.partition("-")
            cases.append(replace(own, name=peer, maker=maker, what=what))
    groups = list(dict.fromkeys(case.group for case in cases))
    cases.sort(key=lambda case: groups.index(case.group))  # stable
    return {case.name: case for case in (*cases, *FLOORS)}


def find_cases(patterns: list[str]) -> list[Case]:
    """Return the cases that a pattern (``lora``, ``*lora*``) fits, in the table's order; InputError for no match."""
    names: set[str] = set()
    for pattern in patterns:
        matches = filter_names(all_cases(), pattern)
        if not matches:
            hint = did_you_mean(pattern, all_cases())
            raise InputError(f"--cases {pattern} is unknown: {hint}--list names all cases")
        names.update(matches)
    return [case for name, case in all_cases().items() if name in names]


def installed(case: Case) -> bool:
    """Return whether the library of a peer is in this environment or made by setup_peers.sh."""
    return not case.peer or find_spec(case.maker) is not None or (PEERS_FOLDER / case.maker).is_dir()


def make_blocks(cases: list[Case]) -> list[list[Case]]:
    """Return the cases of each part that is measured by itself, with the references that are among ``cases``.

    What is compared must be measured at the same time, but every case's process holds its memory as long as its part
    lasts. So a preset stays with its variants and peers, and else there are TOGETHER cases at most.
    """
    if len(cases) <= TOGETHER:
        return [cases]
    references = [case for case in cases if case.name in REFERENCES]
    blocks: list[list[Case]] = [references]
    for _, group in groupby(cases, lambda case: case.group):
        more = [case for case in group if case not in references]
        if len(blocks[-1]) + len(more) > TOGETHER and len(blocks[-1]) > len(references):
            blocks.append(references)
        blocks[-1] = [*blocks[-1], *more]
    return blocks


def changed_fields(values: Case | Settings) -> dict[str, Any]:
    """Return the fields without their defaults: another checkout may not know all of them. ``checkout`` is ours."""
    usual = {each.name: each.default for each in fields(values)}
    return {name: value for name, value in asdict(values).items() if value != usual[name] and name != "checkout"}


class Worker:
    """A case's process; ``figures`` grows with each answer, or ends with an ``error``."""

    def __init__(self, case: Case, settings: Settings, log: Path):
        self.case, self.log, root = case, log, Path(case.checkout or ROOT)
        self.figures: dict[str, Any] = {}
        self.seconds: list[float] = []  # of every step
        command = [sys.executable, str(root / "benchmarks" / "step_worker.py")]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        environment = child_environment(settings.threads, case.peer)
        with open(log, "w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(command, cwd=root, env=environment, stderr=errors, **pipes)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.requests, self.answers = self.process.stdin, self.process.stdout
        self.ask({"case": changed_fields(case), **changed_fields(settings)})

    def ask(self, request: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # it has ended: the answer says how
            print(json.dumps(request), file=self.requests, flush=True)

    def answer(self) -> None:
        """Wait for the answer, and keep its figures; an error replaces them."""
        line = self.answers.readline()
        ended = f"its process ended with exit status {self.process.wait()}" if not line else ""
        answer: dict[str, Any] = {"error": ended} if ended else json.loads(line)
        self.seconds += answer.pop("seconds", [])
        self.figures = answer if "error" in answer else {**self.figures, **answer}

    def run(self, steps: int) -> None:
        if "error" not in self.figures:
            self.ask({"run": steps})
            self.answer()

    def finish(self, steps: int) -> dict[str, Any]:
        """Return the case's figures, of rounds of so many steps; only the error where it failed."""
        if "error" not in self.figures:
            # the first round warms up
            rounds = [self.seconds[start : start + steps] for start in range(steps, len(self.seconds), steps)]
            # what a step costs on average: the mean over the batches of each one's median over the rounds
            step = mean(median(times) for times in zip(*rounds))
            self.figures |= {"median_s": step, "tokens_per_s": self.figures["tokens"] / step}
            self.figures["rounds_s"] = [mean(seconds) for seconds in rounds]
        return self.figures

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


def measure(cases: list[Case], settings: Settings, rounds: int) -> tuple[Figures, list[str]]:
    """Return (figures of each case, the cases of this plugin and of fairseq that failed), and show the first one's log.

    On a CPU the cases take turns after every step, so that a slow minute is in all of them; after every round on a GPU,
    whose memory is given back at each turn.
    """
    steps = 1 if settings.device == "cpu" else settings.steps
    workers: dict[str, Worker] = {}
    with ExitStack() as at_end:
        logs = Path(at_end.enter_context(TemporaryDirectory()))
        for case in cases:
            workers[case.name] = Worker(case, settings, logs / case.name)
            at_end.callback(workers[case.name].stop)
        for worker in workers.values():
            worker.answer()  # what was built
        turns = {name: partial(worker.run, steps) for name, worker in workers.items()}
        take_turns(turns, (rounds + 1) * settings.steps // steps, "steps")
        figures = {name: worker.finish(settings.steps) for name, worker in workers.items()}
        failed = [worker for worker in workers.values() if "error" in worker.figures and not worker.case.peer]
        for worker in failed[:1]:
            print(worker.log.read_text(encoding="utf-8"), file=sys.stderr)
    return figures, [worker.case.name for worker in failed]


def ratio(figures: Figures, case: str, other: str) -> str:
    """Return it to two places, or - where one of the two was not measured."""
    own, others = (figures.get(name, {}).get("median_s") for name in (case, other))
    return f"{own / others:.2f}" if own and others else "-"


def libraries(figures: Figures) -> str:
    """Return on which hardware with which versions was measured, as far as the cases say."""
    versions = {name: number for case in figures.values() for name, number in case.get("libraries", {}).items()}
    hardware = {case["hardware"] for case in figures.values() if "hardware" in case}
    return ", ".join([*sorted(hardware), *(f"{name} {number}" for name, number in versions.items())])


def table(figures: Figures) -> list[str]:
    """Return the lines of the table; below it the cases that failed, and those with steps that did not train."""
    head = ["s/step", "/ prompt-tuning", "/ floor", "peak MiB", "- built", "kept", "trainable", "tokens/s", "/ peer"]
    rows, notes = [["case", *head]], []
    for name, case in figures.items():
        if "error" in case:
            notes.append(f"{name} fails: {case['error']}")
            continue
        peers = [peer for peer, beside in PEERS.items() if name in beside and "median_s" in figures.get(peer, {})]
        fastest = min(peers, key=lambda peer: figures[peer]["median_s"], default="")
        memory = (case["peak_mib"], case["peak_mib"] - case["built_mib"], case["kept_mib"])
        row = [f"{case['median_s']:.4f}", ratio(figures, name, "prompt-tuning"), ratio(figures, name, "floor")]
        row += [f"{value:,.0f}" for value in (*memory, case["trainable"], case["tokens_per_s"])]
        rows.append([name, *row, ratio(figures, name, fastest)])
        if case.get("skipped"):
            notes.append(f"{name}: {case['skipped']} steps overflowed and were skipped")
    if measured := [case for case in figures.values() if "rounds_s" in case]:
        worst = max(max(case["rounds_s"]) / case["median_s"] for case in measured)
        notes.insert(0, f"slowest round: {worst:.2f} of the s/step of its case")
    return [*aligned(rows), *notes]


def cases_to_measure(args: argparse.Namespace) -> list[Case]:
    """Return the cases that are asked for. Raises InputError for peers that are not installed."""
    cases = [case for case in find_cases(args.cases or ["*"]) if not (args.no_peers and case.peer)]
    if args.against is not None:
        if not (args.against / "benchmarks" / "step_worker.py").is_file():
            raise InputError(f"--against {args.against} is not a checkout of this project")
        # Each stands behind its counterpart, and so in the same part.
        checkout, ending = str(args.against.resolve()), f" ({args.against.name})"
        pairs = [(case, replace(case, name=case.name + ending, checkout=checkout)) for case in cases]
        cases = [each for own, other in pairs for each in ((own,) if own.peer else (own, other))]
    for case in cases:
        if not args.list and not installed(case):
            raise InputError(f"{case.maker} is not installed: run bash benchmarks/setup_peers.sh, or give --no-peers")
    return cases


@command_line("error", "nothing is kept")
def main() -> None:
    parser = make_parser(__doc__, clock=True, rounds=(5, "after one to warm up"))
    add_step_options(parser)
    add = parser.add_argument
    names = "names or patterns, such as '*lora*' (default: all)"
    add("--cases", nargs="+", action="extend", metavar="CASE", help=names)
    add("--predict", action="store_true", help="time predictions of batches instead of training steps")
    add("--list", action="store_true", help="print the cases, measure nothing")
    add("--no-peers", action="store_true", help="leave peft and adapters out")
    add("--against", type=Path, metavar="DIR", help="another checkout, whose cases run in turns with these")
    args = parse(parser)
    if args.clock == "cpu" and args.device != "cpu":
        raise InputError(f"--clock cpu does not see the work of --device {args.device}: give --clock wall")
    same_length = {"length_spread": 0.0} if args.length else {}
    settings = step_settings(args, SIZES[args.size], clock=args.clock, predict=args.predict, **same_length)
    cases = cases_to_measure(args)
    if args.list:
        print("\n".join(case.name for case in cases))
        return
    check_device(args.device)
    print(f"{settings}; {settings.steps} batches in each of {args.rounds} rounds", flush=True)
    figures: Figures = {}
    failed: list[str] = []
    for members in make_blocks(cases):
        block, errors = measure(members, settings, args.rounds)
        figures = {**block, **figures}  # of references the first block's
        failed += [name for name in errors if name not in failed]
        print("\n".join(["", *table(block)]), flush=True)
    print(f"\n{libraries(figures)}")
    shared = {"settings": asdict(settings), "rounds": args.rounds}
    write_json(args.json, {case.name: {**figures[case.name], **shared} for case in cases})
    if failed:
        sys.exit(f"error: {', '.join(failed)} failed, see above")


if __name__ == "__main__":
    main()
