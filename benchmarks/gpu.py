"""Run the parts of benchmarks/gpu.sh, one after another, and write their tables; gpu.sh names its variables.

    bash benchmarks/gpu.sh --limit 200

Further options go to benchmarks/step_time.py, such as --rounds 10.
"""

import argparse
import contextlib
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from common import MEASURED, ROOT, check_device, child_environment, write_json
from step_time import find_cases, installed, make_blocks

from preprocess.build import installed_versions
from preprocess.errors import InputError, command_line
from preprocess.flags import aligned, positive_number

# case, what it is measured beside, the most that its step may take of the other's time
TARGETS = (
    ("prompt-tuning", "peft-prompt-tuning", 0.5),
    ("p-tuning-v2-kv", "peft-prefix-features", 0.6),
    ("lora", "peft-lora", 0.75),
    ("m-idpg-phm-cached", "prompt-tuning", 1.1),
    ("m-idpg-phm", "prompt-tuning", 1.6),
)
TARGET_CASES = tuple(dict.fromkeys(name for target in TARGETS for name in target[:2]))
LIBRARIES = ("torch", "fairseq", "fairseq-fixed", "numpy", "transformers", "peft", "adapters", "triton")
# The parts, in this order: what says whether figures can be trusted, what is asked most often, the longest last. The
# environment heads every report.
KINDS = ("environment", "agree", "targets", "few-shot", "sizes", "predict", "steps")
FOR_A_GPU = ("targets", "few-shot")  # parts that a CPU leaves out, unless they are named
SIZES_CASES = "floor prompt-tuning m-idpg-phm-cached peft-prompt-tuning".split()
PEAK_TFLOPS = {"H100": 989, "H200": 989, "A100": 312}  # of a card's bfloat16 and float16, by its data sheet
STOPPED = "stopped by --limit"


class Part(NamedTuple):
    """A command that writes figures."""

    name: str
    kind: str
    command: list[str]


def words(name: str) -> list[str]:
    """Return those of a variable of the environment, as a shell takes them."""
    return shlex.split(os.environ.get(name, ""))


def find_parts(device: str, size: str, more: list[str]) -> list[Part]:
    """Return all parts that are asked for, in the order in which they run; ``more`` goes to step_time.py."""
    kinds = words("PARTS") or [kind for kind in KINDS if device == "cuda" or kind not in FOR_A_GPU]
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(f"PARTS={kind} is unknown: give some of {' '.join(KINDS)}")
    tiny = size == "tiny"  # a trial of the script
    asked = words("CASES") or ["floor", "m-idpg-phm"] * tiny
    dtypes = words("DTYPES") or ["bfloat16", "float16", "float32"][: 1 if tiny else 3]
    batch, length = ("2", "8") if tiny else ("32", "128")  # sentences of a batch, tokens of each
    batches, lengths = ((batch,), (length,)) if tiny else (("16", batch), ("32", length, "512"))
    parts: list[Part] = []
    for kind in filter(kinds.__contains__, KINDS[1:]):
        if kind == "few-shot":
            less = "--size tiny --k 16 --seeds 1 --epochs 1 --choosing 20".split() if tiny else []
            parts.append(Part(kind, kind, ["benchmarks/few_shot.py", "--device", device, *less]))
            continue
        usual = {"steps": ["*"], "sizes": SIZES_CASES}.get(kind, list(TARGET_CASES))
        cases = [case for case in find_cases(usual if kind == "targets" else asked or usual) if installed(case)]
        few = {"agree": ["float32"], "sizes": dtypes[:1]}
        shapes = product(batches, lengths) if kind == "sizes" else [(batch, length)]
        for dtype, (rows, tokens) in product(few.get(kind, dtypes), shapes):
            shape = ["--device", device, "--size", size, "--batch", rows, "--length", tokens]
            name = f"{kind}-{dtype}" + f"-{rows}x{tokens}" * (kind == "sizes")
            if kind == "agree":
                command = ["benchmarks/gpu_agree.py", *shape]
            elif kind == "targets" and dtype == "float32":
                continue
            else:
                command = ["benchmarks/step_time.py", *shape, "--dtype", dtype, "--rounds", "3", "--steps", "4", *more]
                command += ["--predict"] * (kind == "predict")
            for number, block in enumerate(make_blocks(cases), 1):
                named = [*command, "--cases", *(case.name for case in block)]
                parts.append(Part(f"{name}-{number}", kind, named))
        for each in ([size] if tiny else MEASURED) if kind == "sizes" else ():
            parts.append(Part(f"memory-{each}", kind, ["benchmarks/memory.py", "--device", device, "--sizes", each]))
    return parts


def run_part(part: Part, figures: Path, remaining: float | None) -> dict[str, Any]:
    """Run a part and return what came of it; kill all that it has started when the ``remaining`` seconds are over."""
    start = time.monotonic()
    figures.unlink(missing_ok=True)  # of another command
    environment = {**child_environment(), "PYTHONUNBUFFERED": "1"}
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace"}
    command = [sys.executable, *part.command, "--json", str(figures)]
    process = subprocess.Popen(command, start_new_session=True, cwd=ROOT, env=environment, **streams)
    stopped = False
    try:
        said, log = process.communicate(timeout=remaining)
    except subprocess.TimeoutExpired:
        stopped = True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if stopped:
        said, log = process.communicate()  # what it had written
    status = STOPPED if stopped else process.returncode
    state = {"kind": part.kind, "seconds": time.monotonic() - start, "status": status, "command": part.command}
    state["said"] = said.splitlines()
    if figures.exists():
        state["found"] = json.loads(figures.read_text(encoding="utf-8"))
    elif status != 0:
        state["log"] = log.splitlines()[-30:]
    return state


def page_of(environment: dict[str, Any], states: dict[str, Any]) -> str:
    """Return report.md: what was measured on, and the tables of each part."""
    lines = ["# RoBERTa on a GPU", "", *(f"- {name}: {value}" for name, value in environment.items())]
    for name, state in states.items():
        compared = targets(state.get("found", {}), environment["hardware"]) if state["kind"] == "targets" else []
        ended = f"## {name}" + f", which ended ({state['status']})" * bool(state["status"])
        lines += ["", ended, "", "```text", *state["said"], *compared, *state.get("log", []), "```"]
    return "\n".join(lines) + "\n"


def environment_of(device: str) -> dict[str, Any]:
    import torch

    def output_of(*command: str) -> str | None:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout.strip()
        return None

    return {
        "hardware": torch.cuda.get_device_name() if device == "cuda" else "CPU",
        "driver": output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "libraries": installed_versions(LIBRARIES),
        "commit": output_of("git", "rev-parse", "HEAD"),
    }


def targets(figures: dict[str, Any], hardware: str) -> list[str]:
    """Return a table of TARGETS, then the share of the card's nominal rate that prompt tuning reaches."""
    rows = [["case", "beside", "at most", "of its time", "met", "of its peak memory"]]
    for case, beside, most in TARGETS:
        own, other = figures.get(case, {}), figures.get(beside, {})
        found = ["-"] * 3  # one of the two was not measured
        if "median_s" in own and "median_s" in other:
            time_ratio, memory = own["median_s"] / other["median_s"], own["peak_mib"] / other["peak_mib"]
            found = [f"{time_ratio:.2f}", "yes" if time_ratio <= most else "NO", f"{memory:.2f}"]
        rows.append([case, beside, f"{most}", *found])
    lines = ["", *aligned(rows, left=(0, 1))]
    nominal = next((rate for card, rate in PEAK_TFLOPS.items() if card in hardware), None)
    step = figures.get("prompt-tuning", {})
    if nominal and "median_s" in step:
        rate = step_flops(step["settings"], step["settings"]["prompt_length"] or 5) / step["median_s"] / 1e12
        lines.append(f"prompt-tuning: {rate / nominal:.0%} of {nominal} TFLOP/s ({hardware})")
    return lines


def step_flops(settings: dict[str, Any], rows: int) -> float:
    """Count those of a step through a frozen encoder: forward, and as many backward to its inputs."""
    width, length = settings["width"], settings["length"] + rows
    weights = 4 * width * width + 2 * width * settings["ffn"]  # of a layer
    return 2 * settings["layers"] * settings["batch"] * length * (2 * weights + 4 * length * width)


@command_line("error", "parts that are done are kept: the same command goes on")
def main() -> None:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("gpu.sh", description=__doc__, formatter_class=layout, allow_abbrev=False)
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run none")
    in_time = "end in time; the same command goes on later"
    parser.add_argument("--limit", type=positive_number, metavar="SECONDS", help=in_time)
    args, more = parser.parse_known_args()  # more: what goes to step_time.py
    device, size = os.environ.get("DEVICE") or "cuda", os.environ.get("SIZE") or "roberta-large"
    out = Path(os.environ.get("OUT") or ROOT / "outputs" / f"{device}-{size}")
    parts, report = find_parts(device, size, more), out / "report.json"
    before = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    known = before.get("parts", {})
    # With other CASES or --rounds a part is another command. What has left figures, or has passed, is done.
    states = {part.name: known[part.name] for part in parts if known.get(part.name, {}).get("command") == part.command}
    done = [name for name, state in states.items() if "found" in state or state["status"] == 0]
    left = [part for part in parts if part.name not in done]
    if args.dry_run:
        for part in parts:
            print(f"{'left' if part in left else 'done'}  {shlex.join(['python', *part.command])}")
        return
    check_device(device)
    environment = environment_of(device)
    for name in ("hardware", "torch"):  # figures of one folder share them
        if before and before["environment"][name] != environment[name]:
            here = f"here is {environment[name]}: give another OUT"
            raise InputError(f"{out} holds figures of {name} {before['environment'][name]}, {here}")
    out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("error: terminated"))  # the part that runs ends too
    end = None if args.limit is None else time.monotonic() + args.limit
    for number, part in enumerate(left):
        remaining = None if end is None else end - time.monotonic()
        if remaining is not None and remaining <= 0:
            break
        print(f"{part.name}; {len(left) - number} parts are left", flush=True)
        states[part.name] = run_part(part, out / f"{part.name}.json", remaining)
        states = {each.name: states[each.name] for each in parts if each.name in states}  # in their order
        write_json(report, {"environment": environment, "parts": {**known, **states}})
        (out / "report.md").write_text(page_of(environment, states), encoding="utf-8")
    print(f"{out / 'report.md'} has the tables, {report} all there is to send")
    if failed := [name for name, state in states.items() if state["status"] not in (0, STOPPED)]:
        sys.exit(f"error: failures in {', '.join(failed)}, see {out / 'report.md'}")


if __name__ == "__main__":
    main()
