"""Accuracy of every method on the same data and backbone: a row for each, its learning rate chosen on the valid split.

    python benchmarks/accuracy.py data/MR-bin data/MRPC-bin --arch roberta_idpg_minilm \\
        --backbone quickstart/backbone/model.pt --updates 200 --lrs 5e-3 1e-3 --seeds 1 --out results.jsonl

Every run is a fairseq-train as README shows it, with the paper's settings but few updates: Adam (0.9, 0.98, 1e-6),
weight decay 0.1, fixed learning rate, batch 16. The best checkpoint by valid accuracy is tested with fairseq-validate.
Runs that RESULTS holds already are not repeated. Prompts stand at position 0 of single sentences and 1 of pairs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean
from typing import Any

from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
METHODS = (
    *("head-only", "fine-tuning", "adapter", "adapter-pfeiffer", "compacter", "compacter-shared", "prompt-tuning"),
    *(
        "prompt-tuning-100",
        "prompt-tuning-134",
        "p-tuning",
        "p-tuning-v2",
        "p-tuning-v2-kv",
        "s-idpg-phm",
        "s-idpg-dnn",
    ),
    *("m-idpg-phm", "m-idpg-dnn", "m-idpg-phm-glove"),
)
TUNING_LRS = (1e-4, 3e-5)  # of fine-tuning, which the paper trains with 1e-5 to 3e-5 and far more updates
KEY = ("data", "method", "lr", "seed", "updates")


def tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def common(data: Path, arguments: argparse.Namespace) -> list[str]:
    pairs = (data / "input1").is_dir()
    return [
        *(str(data), "--user-dir", str(ROOT / "fairseq_idpg"), "--task", "sentence_prediction_idpg"),
        *("--criterion", "sentence_prediction", "--num-classes", "2", "--init-token", "0", "--separator-token", "2"),
        *("--max-positions", "512", "--shorten-method", "truncate", "--prompt-position", "1" if pairs else "0"),
        *("--num-workers", "0", "--log-format", "json", *(["--cpu"] if arguments.cpu else [])),
    ]


def training(run: dict[str, Any], folder: str, arguments: argparse.Namespace) -> list[str]:
    every = str(max(1, arguments.updates // 3))
    return [
        *(tool("fairseq-train"), *common(Path(run["data"]), arguments), "--arch", arguments.arch),
        *("--backbone", str(arguments.backbone), "--method", run["method"], "--seed", str(run["seed"])),
        *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", "1e-6", "--weight-decay", "0.1"),
        *(
            "--lr",
            str(run["lr"]),
            "--lr-scheduler",
            "fixed",
            "--batch-size",
            "16",
            "--max-update",
            str(arguments.updates),
        ),
        *("--validate-interval-updates", every, "--save-interval-updates", every, "--keep-interval-updates", "1"),
        *("--best-checkpoint-metric", "accuracy", "--maximize-best-checkpoint-metric", "--no-epoch-checkpoints"),
        *("--save-dir", folder, *arguments.options, *arguments.extra.get(run["method"], [])),
    ]


def values(output: str, key: str) -> list[float]:
    return [float(found) for found in re.findall(rf'"{key}": "?([\d.]+)', output)]


def call(command: list[str], jobs: int) -> str:
    threads = str(max(1, (os.cpu_count() or 1) // jobs))
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "PASSIVE"}
    output, errors = subprocess.PIPE, subprocess.STDOUT
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=output, stderr=errors, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-2000:]}")
    return done.stdout


def finish(run: dict[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    """Trains and tests; the row of results."""
    with tempfile.TemporaryDirectory() as folder:
        output = call(training(run, folder, arguments), arguments.jobs)
        options = ["--path", f"{folder}/checkpoint_best.pt", "--valid-subset", "test", "--batch-size", "64"]
        tested = call([tool("fairseq-validate"), *common(Path(run["data"]), arguments), *options], arguments.jobs)
    losses = values(output, "train_loss")
    return {
        **run,
        "valid": max(values(output, "valid_accuracy")),
        "test": values(tested, "test_accuracy")[-1],
        "train_loss": losses[-1] if losses else None,
        "train_s": values(output, "train_train_wall")[-1:] or None,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """test accuracy at the learning rate with the best mean valid accuracy, a line for each method."""
    data = list(dict.fromkeys(row["data"] for row in rows))
    lines = [["method", *(Path(name).name for name in data)]]
    for method in dict.fromkeys(row["method"] for row in rows):
        cells = [method]
        for name in data:
            by_lr: dict[float, list[dict[str, Any]]] = {}
            for row in rows:
                if (row["data"], row["method"]) == (name, method):
                    by_lr.setdefault(row["lr"], []).append(row)
            best = max(by_lr.values(), key=lambda runs: mean(run["valid"] for run in runs), default=[])
            cells.append(
                f"{mean(run['test'] for run in best):.1f} (lr {best[0]['lr']:g}, n={len(best)})" if best else "missing"
            )
        lines.append(cells)
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)) for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--backbone", type=Path, required=True)
    parser.add_argument("--arch", default="roberta_idpg_minilm")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--lrs", nargs="+", type=float, default=[5e-3, 1e-3])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, which share the cores")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("results.jsonl"))
    parser.add_argument(
        "--options", nargs=argparse.REMAINDER, default=[], help="further options of every fairseq-train"
    )
    arguments = parser.parse_args()
    arguments.extra = {"m-idpg-phm-glove": ["--phm-n", "2"]}  # divides 50, the width of small GloVe vectors
    arguments.backbone = arguments.backbone.resolve()
    rows = [json.loads(line) for line in arguments.out.read_text().splitlines()] if arguments.out.exists() else []
    known = {tuple(row[key] for key in KEY) for row in rows}
    runs = []
    for data, method, seed in itertools.product(arguments.data, arguments.methods, arguments.seeds):
        for lr in TUNING_LRS if method in ("fine-tuning", "efl") else arguments.lrs:
            values_of = (str(data.resolve()), method, lr, seed, arguments.updates)
            if values_of not in known:
                runs.append(dict(zip(KEY, values_of)))
    with ThreadPoolExecutor(arguments.jobs) as pool, open(arguments.out, "a", encoding="utf-8") as file:
        for row in tqdm(pool.map(lambda run: finish(run, arguments), runs), total=len(runs), disable=None):
            rows.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
    print(table(rows))


if __name__ == "__main__":
    main()
