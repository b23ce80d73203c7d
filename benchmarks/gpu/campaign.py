"""Runs the parts of benchmarks/gpu.sh, one after another, and reports; the script says how it is asked."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # installed or not

from gpu.plan import Part, environment_of, parts, wishes
from gpu.report import STOPPED, failed, markdown, size_summary
from settings import ROOT, check_device, write_json

from preprocess.errors import InputError, command_line

SAME = ("hardware", "torch")  # what figures of one folder share
STATES, REPORT, SUMMARY = "parts.json", "report", "summary.txt"
LAST_LINES = 30  # of the log of a part that failed, in the report


def parse(arguments: list[str]) -> tuple[argparse.Namespace, tuple[str, ...]]:
    """Ours, and what is for step_time.py."""
    parser = argparse.ArgumentParser(prog="gpu.sh", description=__doc__.split(";")[0], allow_abbrev=False)
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run none")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="end in time; the same command goes on later")
    args, more = parser.parse_known_args(arguments)
    if args.limit is not None and not args.limit > 0:
        raise InputError(f"--limit {args.limit:g} is no time: give seconds")
    return args, tuple(more)


class Campaign:
    """The parts in a folder.

    Attributes:
        states: of each part that was run, {"seconds", "status", "command"}; kept in the folder.
    """

    def __init__(self, out: Path, chosen: list[Part], limit: float | None):
        self.out, self.chosen, self.limit, self.start = out, chosen, limit, time.monotonic()
        file = out / STATES
        self.states: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    def state(self, part: Part) -> dict[str, Any]:
        """Empty where it was not run as it is asked for now: other CASES or --rounds make another command."""
        state = self.states.get(part.name, {})
        return state if state.get("command", [*part.command]) == [*part.command] else {}

    def done(self, part: Part) -> bool:
        return part.file(self.out).exists() and self.state(part) == self.states.get(part.name, {})

    def remaining(self) -> float | None:
        """Seconds that --limit leaves."""
        return None if self.limit is None else self.limit - (time.monotonic() - self.start)

    def estimate(self, some: list[Part]) -> float:
        """Seconds: the guess of each, times what those that are done took of theirs."""
        taken = [
            (self.states[part.name]["seconds"], part.seconds)
            for part in self.chosen
            if self.done(part) and part.name in self.states
        ]
        pace = sum(own for own, _ in taken) / sum(guess for _, guess in taken) if taken else 1.0
        return pace * sum(part.seconds for part in some)

    def run(self) -> None:
        for number, part in enumerate(self.chosen, 1):
            left = [each for each in self.chosen[number - 1 :] if not self.done(each)]
            remaining = self.remaining()
            if self.done(part) or (remaining is not None and remaining <= 0):
                continue
            about = f"about {self.estimate(left) / 60:.0f} minutes are left"
            print(f"[{number}/{len(self.chosen)}] {part.name}, {about}", flush=True)
            self.run_part(part, remaining)

    def run_part(self, part: Part, remaining: float | None) -> None:
        start = time.monotonic()
        part.file(self.out).unlink(missing_ok=True)  # of another command
        with open(self.out / f"{part.name}.log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                part.full_command(self.out),
                cwd=ROOT,
                env=environment_of(part),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status: int | str = process.wait(remaining)
            except subprocess.TimeoutExpired:
                status = STOPPED
            finally:
                _end(process)
        seconds = time.monotonic() - start
        self.states[part.name] = {"seconds": seconds, "status": status, "command": [*part.command]}
        write_json(self.out / STATES, self.states)
        if not self.done(part) and status != STOPPED:
            print(f"    fails: {self.last_lines(part)[-1]}", flush=True)

    def last_lines(self, part: Part) -> list[str]:
        file = self.out / f"{part.name}.log"
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
        return lines[-LAST_LINES:] or ["nothing"]

    def found(self) -> dict[str, Any]:
        """All that is known: the file to send."""
        found = {}
        for part in self.chosen:
            state = {"kind": part.kind, **self.state(part)}
            if self.done(part):
                state["found"] = json.loads(part.file(self.out).read_text(encoding="utf-8"))
            elif "status" in state:
                state["log"] = self.last_lines(part)
            found[part.name] = state
        return found


def _end(process: subprocess.Popen) -> None:
    """With the processes that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def check_same(out: Path, found: dict[str, Any]) -> None:
    """Raises InputError where the folder holds figures of another GPU or torch."""
    file = out / "environment.json"
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else found
    for name in SAME:
        if before[name] != found[name]:
            raise InputError(f"{out} holds figures of {name} {before[name]}, here is {found[name]}: give another OUT")


def known_environment(out: Path, device: str, dry: bool) -> dict[str, Any]:
    if dry:
        file = out / "environment.json"
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    check_device(device)
    from gpu.looking import environment

    return environment(device)


@command_line("error", "parts that are done are kept: the same command goes on")
def main() -> None:
    args, more = parse(sys.argv[1:])
    plan = wishes(os.environ, more)
    out = Path(os.environ.get("OUT") or ROOT / "outputs" / f"{plan.device}-{plan.size}")
    environment = known_environment(out, plan.device, args.dry_run)
    chosen = parts(wishes(os.environ, more, environment.get("memory_gib")))
    campaign = Campaign(out, chosen, args.limit)
    if args.dry_run:
        for part in chosen:
            print(f"{'done' if campaign.done(part) else f'{part.seconds:.0f} s':>6}  {_shown(part, out)}")
        left = [part for part in chosen if not campaign.done(part)]
        print(f"{len(left)} parts, about {campaign.estimate(left) / 60:.0f} minutes")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("error: terminated"))  # the part that runs ends too
    check_same(out, environment)
    out.mkdir(parents=True, exist_ok=True)
    try:
        campaign.run()
    finally:
        wrong = report(campaign, environment)
    if wrong:
        sys.exit(f"error: failures in {', '.join(wrong)}, see {out / REPORT}.md")


def _shown(part: Part, out: Path) -> str:
    return shlex.join(["python", *part.full_command(out)[1:]])


def report(campaign: Campaign, environment: dict[str, Any]) -> list[str]:
    """Writes what is known, and says where; the parts that failed, or in which a case did."""
    out, found = campaign.out, campaign.found()
    wrong = failed(found)
    write_json(out / f"{REPORT}.json", {"environment": environment, "parts": found})
    (out / f"{REPORT}.md").write_text(markdown(environment, found), encoding="utf-8")
    summary = size_summary(found)
    if summary:
        (out / SUMMARY).write_text(summary, encoding="utf-8")
    left = [part for part in campaign.chosen if not campaign.done(part) and part.name not in wrong]
    print(f"{out / REPORT}.md has the tables; {out / REPORT}.json is all there is to send")
    if left:
        print(f"{len(left)} parts are left, about {campaign.estimate(left) / 60:.0f} minutes: the same command goes on")
    print(summary, end="")
    return wrong


if __name__ == "__main__":
    main()
