"""A net under a refactoring: what users get from this checkout, in one file that another checkout is compared with.

    python tests/net.py net.json              # in the old checkout: train, predict, print, and write what came
    python tests/net.py net.json --compare    # in the new one: the same, and print what differs

Only command lines are used, so that nothing within the packages is known here. The numbers are those of one machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WORDS = "a the film is was it . good great dull terrible long plot and not but so with of actor scene story".split()
SIZE = ["--encoder-layers=3", "--encoder-embed-dim=32", "--encoder-ffn-embed-dim=64", "--encoder-attention-heads=4"]
USUAL = [
    *("--criterion", "sentence_prediction", "--init-token", "0", "--separator-token", "2", "--max-positions", "64"),
    *(
        "--optimizer",
        "adam",
        "--lr",
        "1e-2",
        "--lr-scheduler",
        "fixed",
        "--batch-size",
        "8",
        "--cpu",
        "--num-workers",
        "0",
    ),
    *("--no-epoch-checkpoints", "--log-format", "json"),
]
CLASSES = ["--num-classes", "2", "--best-checkpoint-metric", "accuracy", "--maximize-best-checkpoint-metric"]
SCORES = ["--num-classes", "1", "--regression-target", "--best-checkpoint-metric", "loss"]
TRAININGS = {  # name -> folder of the data, options
    **{
        method: ("MR", ["--method", method, *CLASSES])
        for method in "prompt-tuning p-tuning-v2-kv id-spam adapter lora smop fine-tuning".split()
    },
    "adamix": ("MR", ["--method", "adamix", "--criterion", "sentence_prediction_idpg", *CLASSES]),
    "ept": ("MR", ["--method", "ept", "--prompt-length", "6", *CLASSES]),
    "m-idpg-phm": ("MR", ["--method", "m-idpg-phm", "--phm-n", "4", *CLASSES]),
    "regression": ("STS-B", ["--method", "prompt-tuning", *SCORES]),
    "mlm": ("MR", ["--method", "prompt-tuning", "--predict-with", "mlm", *CLASSES]),
}
ASKED = ("prompt-tuning", "m-idpg-phm", "mlm")  # of which the answers are kept
COMMANDS = [
    *("fairseq_idpg.predict", "fairseq_idpg.serve", "fairseq_idpg.export", "fairseq_idpg.encode", "fairseq_idpg.count"),
    *("fairseq_idpg.analysis cosine", "fairseq_idpg.analysis neighbours", "fairseq_idpg.options_table"),
    *("preprocess MR", "preprocess few-shot", "preprocess glove", "preprocess stats", "preprocess tasks"),
    *("run_scripts.train", "run_scripts.sweep", "run_scripts.report", "run_scripts.submit glue", "run_scripts.publish"),
    *("run_scripts.quickstart", "run_scripts.short_tasks", "checkpoints.convert_hf", "checkpoints.convert_released"),
]


def run(*command: object, text: str | None = None, fails: bool = False) -> str:
    """The standard output of a command of this checkout."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    words = [str(word) for word in command]
    ended = subprocess.run(words, cwd=ROOT, env=environment, input=text, capture_output=True, text=True)
    if ended.returncode and not fails:
        raise RuntimeError(f"{shlex.join(words)}\n{(ended.stdout + ended.stderr)[-2000:]}")
    return ended.stdout + (ended.stderr if fails else "")


def module(name: str, *arguments: object, **how: Any) -> str:
    return run(sys.executable, "-m", *name.split(), *arguments, **how)


def digest(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]


def sentences(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, 20))) for _ in range(count)]


def make_data(place: Path) -> None:
    """A vocabulary, MR and STS-B of drawn words, and a random RoBERTa."""
    vocab = place / "vocab"
    vocab.mkdir()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (vocab / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    for split, count in (("train", 48), ("valid", 24), ("test", 50)):
        texts = sentences(2 * count, seed=count)
        pairs = list(zip(texts, texts[count:]))
        rows = [f"{one}\t{two}\t{int('good' in one)}\t{len(one) % 6}\n" for one, two in pairs]
        (place / f"{split}.tsv").write_text("".join(rows))
    files = ["--from-tsv", *(f"{split}={place / split}.tsv" for split in ("train", "valid", "test")), "--no-header"]
    encoder = ["--bpe", "bert", "--vocab", vocab, "--out", place]
    module("preprocess", "MR", *files, "--text-columns", 1, "--label-column", 3, *encoder)
    module("preprocess", "STS-B", *files, "--text-columns", 1, 2, "--label-column", 4, "--regression", *encoder)
    stock = ["--arch", "roberta", *SIZE, "--task", "sentence_prediction", *USUAL, *CLASSES, "--disable-validation"]
    module("fairseq_cli.train", place / "MR-bin", *stock, "--max-update", 1, "--save-dir", place / "backbone")


def train(place: Path, name: str, save_dir: Path, epochs: int) -> str:
    """Train to an epoch; the digest of the trained tensors."""
    import torch

    data, options = TRAININGS[name]
    plugin = ["--user-dir", "fairseq_idpg", "--task", "sentence_prediction_idpg", "--arch", "roberta_idpg", *SIZE]
    backbone = ["--backbone", place / "backbone" / "checkpoint_last.pt"]
    how = [*plugin, *backbone, *USUAL, *options, "--save-dir", save_dir, "--max-epoch", epochs]
    module("fairseq_cli.train", place / f"{data}-bin", *how)
    state = torch.load(save_dir / "checkpoint_last.pt", weights_only=True)["model"]
    tensors = [(key, value) for key, value in sorted(state.items()) if torch.is_tensor(value)]
    return digest(b"".join(key.encode() + value.contiguous().numpy().tobytes() for key, value in tensors))


def served(path: Path, texts: list[str]) -> str:
    """What the server answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "fairseq_idpg.serve", "--path", str(path), "--port", str(port), "--cpu"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    body = json.dumps({"texts": texts}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/predict", body, {"Content-Type": "application/json"}, method="POST"
    )
    try:
        for _ in range(120):
            try:
                with urllib.request.urlopen(request) as answer:
                    return answer.read().decode()
            except OSError:  # it does not listen yet
                time.sleep(0.5)
        raise RuntimeError("the server did not answer in a minute")
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def options_of(command: str) -> str:
    return " ".join(sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", module(command, "--help", fails=True)))))


LOAD = """
import json, sys
from fairseq_idpg import load
found = load(sys.argv[1], device="cpu").predict(json.load(sys.stdin))
print([(each.label, each.probabilities) for each in found])
"""


def catch(place: Path) -> dict[str, str]:
    """All that users get, by what it is."""
    net: dict[str, str] = {}
    make_data(place)
    texts = sentences(50, seed=0)
    for name in TRAININGS:
        print(f"training {name}", file=sys.stderr)
        net[f"weights of {name}"] = train(place, name, place / name, 4)
        train(place, name, place / f"{name}-resumed", 2)
        net[f"weights of {name}, resumed"] = train(place, name, place / f"{name}-resumed", 4)
    for name in ASKED:
        path = place / name / "checkpoint_best.pt"
        net[f"predict {name}"] = module(
            "fairseq_idpg.predict", "--path", path, "--text", "-", "--cpu", text="\n".join(texts)
        )
        net[f"load {name}"] = run(sys.executable, "-c", LOAD, path, text=json.dumps(texts))
    net["serve"] = served(place / "prompt-tuning" / "checkpoint_best.pt", texts)
    for command in COMMANDS:
        net[f"options of {command}"] = options_of(command)
    net["fairseq-train's options"] = module("fairseq_idpg.options_table")
    page = (ROOT / "run_scripts" / "RESULTS.md").read_text(encoding="utf-8")
    for line in dict.fromkeys(re.findall(r"printed by: python -m (run_scripts\.report [^\n]+) -->", page)):
        words = re.sub(r" --out \S+| --format \S+", "", line)
        net[words] = module(words)
        if "--table" in words:
            net[f"{words} (LaTeX)"] = module(f"{words} --format latex")
    return net


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--compare", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        net = {name: value.replace(place, "PLACE") for name, value in catch(Path(place)).items()}
    if not args.compare:
        args.file.write_text(json.dumps(net, indent=1))
        return
    old = json.loads(args.file.read_text())
    different = [name for name in {**old, **net} if old.get(name) != net.get(name)]
    for name in different:
        print(f"== {name}\n- {old.get(name)}\n+ {net.get(name)}")
    sys.exit(f"{len(different)} of {len(old)} differ" if different else None)


if __name__ == "__main__":
    main()
