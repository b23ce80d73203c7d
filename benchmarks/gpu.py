"""Run the parts of benchmarks/gpu.sh, one after another, and write their tables; the script says how it is asked."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from settings import ROOT, check_device, write_json
from step_cases import Case, blocks, chosen
from step_time import PEERS_FOLDER, environment_of, libraries, of_floor, ratio, skipped

from preprocess.errors import InputError, command_line
from preprocess.flags import positive_number

# case, what it is measured beside, the most that its step may take of the other's time; of peers, also of their memory
TARGETS = (
    ("prompt-tuning", "peft-prompt-tuning", 0.5),
    ("p-tuning-v2-kv", "peft-prefix-features", 0.6),
    ("lora", "peft-lora", 0.75),
    ("m-idpg-phm-cached", "prompt-tuning", 1.1),
    ("m-idpg-phm", "prompt-tuning", 1.6),
)
OF_TARGETS = tuple(dict.fromkeys(name for target in TARGETS for name in target[:2]))
SIZES_OF_BATCHES = {  # defaults of DTYPES, BATCHES, LENGTHS and CASES for "sizes"
    "roberta-large": ("bfloat16", "16 32", "32 128 512", "floor prompt-tuning m-idpg-phm-cached peft-prompt-tuning"),
    "tiny": ("bfloat16", "2", "8 16", "floor m-idpg-phm"),
}
SHAPE = {"roberta-large": ("32", "128"), "tiny": ("2", "8")}  # sentences of a batch, tokens of each
TINY_CASES = "m-idpg-phm"
LOOKS, STEPS = "benchmarks/gpu_looks.py", "benchmarks/step_time.py"
# The parts, in this order: what says whether figures can be trusted, what is asked most often, the longest last.
# Seconds that a part takes: of itself, and for each case, on an H200 with 16 cores; corrected by those that are done.
ITSELF = dict(environment=5, agree=10, targets=25, sizes=20, predict=15, checks=120, inspect=15, steps=30)
A_CASE = {"agree": 1.5, "targets": 2.0, "sizes": 3.0, "predict": 3.0, "inspect": 1.5, "steps": 4.0}
PEAK_TFLOPS = {"H100": 989, "H200": 989, "A100": 312}  # of a card's bfloat16 and float16, by its data sheet
STOPPED = "stopped by --limit"
LARGEST_DIFFERENCE = 1e-3  # of float32 gradients
LAST_LINES = 30  # of the log of a part that failed, in the report


@dataclass(frozen=True)
class Part:
    """A command that leaves a JSON file. ``peers``: it needs the libraries of setup_peers.sh."""

    name: str
    kind: str
    command: tuple[str, ...]
    seconds: float
    peers: bool = False

    def full_command(self, out: Path) -> list[str]:
        return [sys.executable, *self.command, "--json", str(out / f"{self.name}.json")]


def words(name: str) -> list[str]:
    """Return those of a variable of the environment."""
    return os.environ.get(name, "").split()


def parts(device: str, size: str, more: list[str]) -> list[Part]:
    """Return all parts that are asked for, in the order in which they run; ``more`` goes to step_time.py.

    Raises InputError for a part that is not one of ITSELF.
    """
    kinds = words("PARTS") or [kind for kind in ITSELF if device == "cuda" or kind not in ("checks", "targets")]
    for kind in kinds:
        if kind not in ITSELF:
            raise InputError(f"PARTS={kind} is unknown: give some of {' '.join(ITSELF)}")
    names, tiny = words("CASES"), size == "tiny"
    dtypes = words("DTYPES") or (["bfloat16"] if tiny else ["bfloat16", "float16", "float32"])
    found: list[Part] = []

    def add(name: str, kind: str, command: list[str], cases: list[Case]) -> None:
        named = ["--cases", *(case.name for case in cases)] if cases else []
        seconds = ITSELF[kind] + A_CASE.get(kind, 0) * len(cases)
        found.append(Part(name, kind, (*command, *named), seconds, any(case.peer for case in cases)))

    def shaped(batch: str, length: str, dtype: str) -> list[str]:
        return ["--device", device, "--size", size, "--batch", batch, "--length", length, "--dtype", dtype]

    for kind in filter(kinds.__contains__, ITSELF):
        if kind in ("environment", "checks"):
            add(kind, kind, [LOOKS, kind, "--device", device], [])
        elif kind == "sizes":
            usual = [values.split() for values in SIZES_OF_BATCHES[size]]
            given = [words(name) or values for name, values in zip(("DTYPES", "BATCHES", "LENGTHS"), usual)]
            for dtype, batch, length in product(*given):
                command = [STEPS, *shaped(batch, length, dtype), "--rounds", "3", *more]
                add(f"{dtype}-batch{batch}-length{length}", kind, command, here(names or usual[3]))
        elif kind in ("targets", "steps"):
            timed = list(OF_TARGETS) if kind == "targets" else names or [TINY_CASES if tiny else "*"]
            for dtype in [each for each in dtypes if kind == "steps" or each != "float32"]:
                command = [STEPS, *shaped(*SHAPE[size], dtype), "--rounds", "3", "--steps", "4", *more]
                for number, (_, cases) in enumerate(blocks(here(timed)), 1):
                    add(f"{kind}-{dtype}-{number}", kind, command, cases)
        else:
            usual_cases = ["floor", TINY_CASES] if tiny else ["*"] if kind == "inspect" else list(OF_TARGETS)
            cases = here(names or usual_cases)
            for dtype in ["float32"] if kind == "agree" else dtypes:
                command = [LOOKS, kind, *shaped(*SHAPE[size], dtype)]
                if own := [case for case in cases if not case.peer]:
                    add(f"{kind}-{dtype}", kind, command, own)
                if kind != "agree" and (peers := [case for case in cases if case.peer]):
                    add(f"{kind}-{dtype}-peers", kind, command, peers)
    return found


def here(names: list[str]) -> list[Case]:
    """Return the cases of these names or patterns, without peers whose library is missing."""
    return [
        case
        for case in chosen(names)
        if not case.peer or find_spec(case.maker) is not None or (PEERS_FOLDER / case.maker).is_dir()
    ]


class Campaign:
    """The parts in a folder."""

    def __init__(self, out: Path, chosen: list[Part], limit: float | None):
        self.out, self.chosen = out, chosen
        self.end = None if limit is None else time.monotonic() + limit
        file = out / "parts.json"  # of each part that was run: seconds, status, command
        self.states: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    def state(self, part: Part) -> dict[str, Any]:
        """Return {} where the part was not run as it is asked for now: other CASES or --rounds are another command."""
        state = self.states.get(part.name, {})
        return state if state.get("command") == [*part.command] else {}

    def done(self, part: Part) -> bool:
        return (self.out / f"{part.name}.json").exists() and bool(self.state(part))

    def left(self) -> list[Part]:
        return [part for part in self.chosen if not self.done(part)]

    def estimate(self) -> float:
        """Return seconds of the parts that are left: the guess of each, times what those that are done took of it."""
        taken = [(self.states[part.name]["seconds"], part.seconds) for part in self.chosen if self.done(part)]
        pace = sum(own for own, _ in taken) / sum(guess for _, guess in taken) if taken else 1.0
        return pace * sum(part.seconds for part in self.left())

    def run(self) -> None:
        for part in self.left():
            remaining = None if self.end is None else self.end - time.monotonic()
            if remaining is None or remaining > 0:
                print(f"{part.name}, about {self.estimate() / 60:.0f} minutes are left", flush=True)
                self.run_part(part, remaining)

    def run_part(self, part: Part, remaining: float | None) -> None:
        start = time.monotonic()
        (self.out / f"{part.name}.json").unlink(missing_ok=True)  # of another command
        with open(self.out / f"{part.name}.log", "w", encoding="utf-8") as log:
            # step_time.py finds the peers' libraries itself, for those of its processes that need them
            environment = environment_of(part.peers and part.command[0] != STEPS, PYTHONUNBUFFERED="1")
            streams: dict[str, Any] = {"stdout": log, "stderr": subprocess.STDOUT}
            process = subprocess.Popen(
                part.full_command(self.out), cwd=ROOT, env=environment, start_new_session=True, **streams
            )
            try:
                status: int | str = process.wait(remaining)
            except subprocess.TimeoutExpired:
                status = STOPPED
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # with the processes that it has started
                process.wait()
        seconds = time.monotonic() - start
        self.states[part.name] = {"seconds": seconds, "status": status, "command": [*part.command]}
        write_json(self.out / "parts.json", self.states)
        if not self.done(part) and status != STOPPED:
            print(f"    fails: {self.last_lines(part)[-1]}", flush=True)

    def last_lines(self, part: Part) -> list[str]:
        file = self.out / f"{part.name}.log"
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
        return lines[-LAST_LINES:] or ["nothing"]

    def found(self) -> dict[str, Any]:
        """Return all that is known of each part: the file to send."""
        found = {}
        for part in self.chosen:
            state = {"kind": part.kind, **self.state(part)}
            if self.done(part):
                state["found"] = json.loads((self.out / f"{part.name}.json").read_text(encoding="utf-8"))
            elif "status" in state:
                state["log"] = self.last_lines(part)
            found[part.name] = state
        return found


def failed(found: dict[str, Any]) -> list[str]:
    """Return the parts that ended without figures, or with a test or case of ours that failed or does not agree."""

    def wrong(name: str, part: dict[str, Any]) -> bool:
        kind, figures = part["kind"], part.get("found")
        if figures is None:
            return part.get("status") not in (None, STOPPED)
        if kind == "checks":
            return bool(figures.get("error") or figures["failed"])
        if kind in ("steps", "sizes", "targets"):  # peers may fail
            return part["status"] != 0
        if kind == "environment" or name.endswith("-peers"):
            return False
        return any("error" in each for each in figures.values()) or kind == "agree" and bool(too_far(figures))

    return [name for name, part in found.items() if wrong(name, part)]


def too_far(found: dict[str, Any]) -> list[str]:
    """Return the cases whose gradients differ from the CPU's, or are not numbers."""
    return [name for name, each in found.items() if "error" not in each and not each["gradient"] <= LARGEST_DIFFERENCE]


# the report


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Return a table in Markdown."""
    return [f"| {' | '.join(cells)} |".replace("\n", " ") for cells in (head, ["---"] * len(head), *rows)]


def of_kind(found: dict[str, Any], *kinds: str) -> Iterator[dict[str, Any]]:
    yield from (part["found"] for part in found.values() if part["kind"] in kinds and "found" in part)


def report(environment: dict[str, Any], found: dict[str, Any]) -> str:
    lines = ["# RoBERTa on a GPU", "", *(f"- {name}: {value}" for name, value in environment.items()), ""]
    for agreed in of_kind(found, "agree"):
        rows = []
        for name, each in agreed.items():
            rows.append([name, *(f"{each.get(what, math.nan):.1e}" for what in ("loss", "gradient"))])
        lines += ["GPU beside CPU, float32, relative differences of losses and gradients:", ""]
        lines += [*table(["case", "loss", "gradient"], rows), *(f"{name}: TOO FAR" for name in too_far(agreed)), ""]
    for figures in of_kind(found, "targets"):
        lines += [*targets(figures, environment.get("hardware", "")), ""]
    for figures in of_kind(found, "sizes", "steps"):
        lines += [*steps(figures), ""]
    for looked in of_kind(found, "predict"):
        rows = [[name, each.get("error") or f"{each['sentences_per_s']:,.0f}"] for name, each in looked.items()]
        lines += [*table(["case", "sentences/s predicted"], rows), ""]
    for tests in of_kind(found, "checks"):
        if "error" in tests:
            lines += [f"Tests: {tests['error']}.", ""]
            continue
        lines += [f"Tests: {tests['passed']} passed, {tests['skipped']} skipped, {len(tests['failed'])} failed."]
        lines += [*(f"- {name}: {said}" for name, said in tests["failed"].items()), ""]
    for looked in of_kind(found, "inspect"):
        rows = []
        for name, each in looked.items():
            rows.append([name, each.get("error") or str(each["synchronisations"]), str(each.get("kernels"))])
        lines += [*table(["case", "waits in a step", "attention"], rows), ""]
    for name, part in found.items():
        if "log" in part:
            lines += ["", f"`{name}` ended ({part['status']}) without figures:", "", "```", *part["log"], "```"]
    return "\n".join(lines) + "\n"


def steps(figures: dict[str, Any]) -> list[str]:
    """Return times and memory of all cases of a run, and the others they are compared with."""
    rows = []
    for name, each in figures.items():
        if "error" in each:
            rows.append([name, f"fails: {each['error']}", "", "", "", "", ""])
            continue
        memory = [f"{each['peak_mib']:,.0f}", f"{each['kept_mib']:,.0f}"]
        speed = [f"{each['tokens_per_s']:,.0f}", ratio(figures, name, "prompt-tuning"), of_floor(figures, name)]
        rows.append([name, f"{each['median_s'] * 1000:.2f}", *speed, *memory])
    head = ["case", "ms a step", "tokens/s", "/ prompt-tuning", "of floor", "peak MiB", "kept MiB"]
    settings = next(each["settings"] for each in figures.values() if "settings" in each)
    size = f"{settings['layers']} layers, width {settings['width']}, {settings['batch']} x {settings['length']} tokens"
    return [f"{settings['dtype']}, {size}; {libraries(figures)}", "", *table(head, rows), *skipped(figures)]


def targets(figures: dict[str, Any], hardware: str) -> list[str]:
    """Return the steps of a run, then each of TARGETS, with the share of the card's nominal rate."""
    rows = []
    for case, beside, most in TARGETS:
        own, other = figures.get(case, {}), figures.get(beside, {})
        if "median_s" not in own or "median_s" not in other:
            continue
        measured, memory = own["median_s"] / other["median_s"], own["peak_mib"] / other["peak_mib"]
        rows.append([case, beside, f"{most}", f"{measured:.2f}", "yes" if measured <= most else "NO", f"{memory:.2f}"])
    head = ["case", "beside", "at most", "of its time", "met", "of its peak memory"]
    lines = [*steps(figures), "", *table(head, rows)]
    nominal = next((rate for card, rate in PEAK_TFLOPS.items() if card in hardware), None)
    step = figures.get("prompt-tuning", {})
    if nominal and "median_s" in step:
        flops = step_flops(step["settings"], step["settings"]["prompt_length"] or 5)
        share = flops / step["median_s"] / nominal / 1e12
        lines += ["", f"prompt-tuning: {share:.0%} of {nominal} TFLOP/s ({hardware})"]
    return lines


def step_flops(settings: dict[str, Any], rows: int) -> float:
    """Count those of a step through a frozen encoder: forward, and as many backward to its inputs."""
    width, length = settings["width"], settings["length"] + rows
    weights = 4 * width * width + 2 * width * settings["ffn"]  # of a layer
    return 2 * settings["layers"] * settings["batch"] * length * (2 * weights + 4 * length * width)


@command_line("error", "parts that are done are kept: the same command goes on")
def main() -> None:
    parser = argparse.ArgumentParser(prog="gpu.sh", description=__doc__.split(";")[0], allow_abbrev=False)
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run none")
    parser.add_argument(
        "--limit", type=positive_number, metavar="SECONDS", help="end in time; the same command goes on later"
    )
    args, more = parser.parse_known_args()  # more: what goes to step_time.py
    device, size = os.environ.get("DEVICE") or "cuda", os.environ.get("SIZE") or "roberta-large"
    out = Path(os.environ.get("OUT") or ROOT / "outputs" / f"{device}-{size}")
    campaign = Campaign(out, parts(device, size, more), args.limit)
    if args.dry_run:
        for part in campaign.chosen:
            command = shlex.join(["python", *part.full_command(out)[1:]])
            print(f"{'done' if campaign.done(part) else f'{part.seconds:.0f} s':>6}  {command}")
        print(f"{len(campaign.left())} parts, about {campaign.estimate() / 60:.0f} minutes")
        return
    check_device(device)
    from gpu_looks import environment

    known, file = environment(device), out / "environment.json"
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else known
    for name in ("hardware", "torch"):  # figures of one folder share them
        if before[name] != known[name]:
            raise InputError(f"{out} holds figures of {name} {before[name]}, here is {known[name]}: give another OUT")
    out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("error: terminated"))  # the part that runs ends too
    try:
        campaign.run()
    finally:
        found = campaign.found()
        write_json(out / "report.json", {"environment": known, "parts": found})
        (out / "report.md").write_text(report(known, found), encoding="utf-8")
        told = f"{out / 'report.md'} has the tables; {out / 'report.json'} is all there is to send"
        print(f"{told}; {len(campaign.left())} parts are left")
    if wrong := failed(found):
        sys.exit(f"error: failures in {', '.join(wrong)}, see {out / 'report.md'}")


if __name__ == "__main__":
    main()
