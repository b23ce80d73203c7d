"""What one process of benchmarks/gpu.sh finds out about each case, one after another.

    python benchmarks/gpu_looks.py inspect --cases 'm-idpg*' --device cuda --dtype float16 --json FILE

agree: how far loss and gradients of a step on the device are from those on the CPU, without dropout (float32); with
LAYERS layers and SENTENCES sentences.
inspect: in a step of training, which kernel of scaled_dot_product_attention is called how often, and where Python waits
for the GPU, as far as torch.cuda.set_sync_debug_mode tells; with LAYERS layers.
predict: sentences a second, from token ids on the device to logits; a method that can stand in the weights does.
environment: what it runs on. checks: tests that look at a device, those of PLACES that are there. These read no case.

What fails of one case is in its {"error"}, and the next one follows.
"""

from __future__ import annotations

import argparse
import copy
import gc
import os
import platform
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any
from xml.etree import ElementTree

import torch
from settings import ROOT, SIZES, Settings, add_device, add_numbers, step_settings, write_json
from step_cases import Case, chosen
from step_worker import Steps, first_line
from torch import nn
from torch.nn.functional import cross_entropy
from torch.profiler import ProfilerActivity, profile

from preprocess.build import installed_versions
from preprocess.errors import command_line

LAYERS = 4  # enough for every preset's places, and quickly made
SENTENCES = 4  # of the batch of agree, which a CPU takes too
ATTENTION = "scaled_dot_product_"
WAITS = "synchronizing CUDA operation"
PASSES = 5  # over the batches, of which the median counts
LIBRARIES = ("torch", "fairseq", "fairseq-fixed", "numpy", "transformers", "peft", "adapters", "triton", "pytest")
PLACES = ("tests/device", "tests/cli/test_gpu.py", "tests/backbone/test_padding.py")


def agree(case: Case, settings: Settings) -> dict[str, Any]:
    """Return ||a - b|| / ||b|| of the loss and of all gradients together."""
    few = replace(settings, layers=LAYERS, batch=min(SENTENCES, settings.batch), steps=1)
    cpu = Steps(replace(case, dropout=False), replace(few, device="cpu", dtype="float32"))
    device = copy.copy(cpu)
    device.model = copy.deepcopy(cpu.model).to(settings.device)
    found = []
    for steps, place in ((cpu, "cpu"), (device, settings.device)):
        steps.model.eval()
        for part in steps.model.modules():
            part.train(isinstance(part, nn.RNNBase))  # cuDNN's has no backward pass in evaluation
        steps.place = place
        arguments, labels = cpu.batches[0]
        steps.model.zero_grad()
        logits = steps.logits(steps.model(**steps.placed(arguments)))
        loss = cross_entropy(logits, labels.to(place))
        loss.backward()
        gradients = [p.grad.flatten().double().cpu() for p in steps.model.parameters() if p.grad is not None]
        found.append((loss.detach().double().cpu(), torch.cat(gradients)))
    (loss, gradient), (other_loss, other_gradient) = found
    return {
        "loss": float((other_loss - loss).abs() / loss.abs()),
        "gradient": float((other_gradient - gradient).norm() / gradient.norm()),
    }


def inspect(case: Case, settings: Settings) -> dict[str, Any]:
    steps = Steps(case, replace(settings, layers=LAYERS, steps=1))
    steps.run(1)  # what is made once
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        steps.step()
    calls = {event.key.split("::")[-1]: event.count for event in seen.key_averages()}
    kernels = {name.lstrip("_"): count for name, count in sorted(calls.items()) if name.startswith("_" + ATTENTION)}
    waits = synchronisations(steps.step) if settings.device == "cuda" else None
    return {"layers": LAYERS, "kernels": kernels, "synchronisations": waits}


def synchronisations(step: Callable[[], Any]) -> dict[str, int]:
    """Return where Python waits for the GPU -> how often."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    places = Counter(f"{_short(each.filename)}:{each.lineno}" for each in seen if WAITS in str(each.message))
    return dict(places.most_common())


def _short(file: str) -> str:
    """Return a path from the root of the project, or of the packages."""
    for root in (str(ROOT) + "/", "site-packages/", "dist-packages/"):
        before, found, after = file.partition(root)
        if found and ".venv" not in after:
            return after
    return file


def predict(case: Case, settings: Settings) -> dict[str, Any]:
    steps = Steps(case, settings)
    del steps.optimizer
    steps.model.eval()
    getattr(steps.model, "merge_method", lambda: None)()
    if settings.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with torch.inference_mode():
        seconds = [_pass(steps) for _ in range(PASSES + 1)][1:]
    count = settings.batch * settings.steps
    return {"sentences_per_s": count / median(seconds), "peak_mib": steps.device.peak_mib(), "seconds": seconds}


def _pass(steps: Steps) -> float:
    """Return the seconds of all batches, told one by one to the device."""
    steps.device.finish()
    start = steps.clock()
    for arguments, _ in steps.batches:
        logits = steps.logits(steps.model(**arguments))
    steps.device.finish()
    seconds = steps.clock() - start
    assert torch.isfinite(logits).all(), "a logit is not finite"
    return seconds


LOOKS: dict[str, Callable[[Case, Settings], dict[str, Any]]] = {"agree": agree, "inspect": inspect, "predict": predict}


def look(what: str, cases: list[Case], settings: Settings) -> dict[str, Any]:
    found = {}
    for case in cases:
        try:
            found[case.name] = LOOKS[what](case, settings)
        except Exception as error:
            traceback.print_exc()
            found[case.name] = {"error": first_line(error)}
        print(f"{what} {case.name}: {found[case.name]}", flush=True)
        gc.collect()
        if settings.device == "cuda":
            torch.cuda.empty_cache()
    return found


def asked(*command: str) -> str | None:
    """Return the output of a command that may not be there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def environment(device: str) -> dict[str, Any]:
    found: dict[str, Any] = {"hardware": "CPU"}
    if device == "cuda":
        card = torch.cuda.get_device_properties(0)
        found = {
            "hardware": card.name,
            "memory_gib": card.total_memory / 2**30,
            "capability": f"{card.major}.{card.minor}",
            "multiprocessors": card.multi_processor_count,
            "driver": asked("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
            "bfloat16": torch.cuda.is_bf16_supported(),
            "cudnn": torch.backends.cudnn.version(),
            "tf32": torch.backends.cuda.matmul.allow_tf32,
        }
    return {
        **found,
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "libraries": installed_versions(LIBRARIES),
        "commit": asked("git", "rev-parse", "HEAD"),
    }


def outcomes(report: Path) -> dict[str, Any]:
    """Return counts, and the first line of what each failing test says, from pytest's XML."""
    found: dict[str, Any] = {"passed": 0, "skipped": 0, "failed": {}}
    for case in ElementTree.parse(report).iter("testcase"):
        wrong = [part for part in case if part.tag in ("failure", "error")]
        if wrong:
            lines = (wrong[0].get("message") or wrong[0].tag).strip().splitlines()
            found["failed"][f"{case.get('classname')}::{case.get('name')}"] = lines[0]
        else:
            found["skipped" if any(part.tag == "skipped" for part in case) else "passed"] += 1
    return found


def checks(device: str) -> dict[str, Any]:
    there = [place for place in PLACES if (ROOT / place).exists()]
    if not there:  # pytest would run every test
        return {"error": "no test of a device is here"}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *there]
        status = subprocess.run(command, cwd=ROOT).returncode
        if not report.exists():
            return {"error": f"pytest ended with exit status {status}: is it installed?"}
        return {"places": there, **outcomes(report)}


OF_THE_MACHINE: dict[str, Callable[[str], dict[str, Any]]] = {"environment": environment, "checks": checks}


@command_line("error", "nothing is kept")
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("look", choices=(*LOOKS, *OF_THE_MACHINE))
    parser.add_argument("--cases", nargs="+", action="extend", metavar="NAME", help="names or patterns")
    parser.add_argument("--size", choices=SIZES, default="roberta-large")
    add_numbers(parser, Settings())
    add_device(parser)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    args = parser.parse_args()
    if args.look in OF_THE_MACHINE:
        write_json(args.json, OF_THE_MACHINE[args.look](args.device))
        return
    settings = step_settings(args, SIZES[args.size], length_spread=0.0)
    write_json(args.json, look(args.look, chosen(args.cases or ["*"]), settings))


if __name__ == "__main__":
    main()
