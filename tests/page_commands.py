"""The commands of the pages, and what makes them small enough for a test: few examples, tiny backbones, no network.

Every command is executed, in the order of its page. ``SMALLER`` says what is added to those that would take a GPU or
hours; nothing can leave one out. They run in a folder of their own that holds what the page says is there.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import yaml

from preprocess.tasks import TASKS
from tests.checkpoints import hf_folders
from tests.checkpoints.test_convert_released import write_released
from tests.folders import ROOT, train, write_backbone, write_folder
from tests.preprocess.commands import write_vocab
from tests.run_scripts.report import made
from tests.run_scripts.submit.sets import add_test_set
from tests.run_scripts.tiny import FLAGS, OPTIONS

TINY_RUN = shlex.join(["--arch", "roberta_idpg", *FLAGS, "--phm-n", "4", "--max-update", "1", "--batch-size", "8"])
TINY_SWEEP = ["arch=roberta_idpg", f"options={yaml.safe_dump(OPTIONS, default_flow_style=True, width=1000).strip()}"]
TINY_PIPELINE = shlex.join(word for key in TINY_SWEEP for word in ("--set", key))
SMALLER = {  # a pattern of its beginning -> what is added at the end of a command; the first that fits counts
    "bash run_scripts/quickstart.sh": "--train-examples 40 --valid-examples 16 --test-examples 16 --max-epoch 1 --cpu",
    "bash tests/run.sh": "--collect-only -q tests/methods/test_phm.py",
    "python -m pytest -m quick": "tests/methods/test_phm.py",
    "python -m pytest -x -k": "--collect-only",
    "fairseq-train": "--max-update 2 --cpu --log-format json",
    "fairseq-validate": "--cpu --log-format json",
    "python -m fairseq_idpg.predict": "--cpu",
    "python -m fairseq_idpg.encode": "--cpu --max-positions 64",
    "python -m fairseq_idpg.analysis cosine": "--cpu --largest-score 2",
    "bash checkpoints/download.sh": "checkpoints",  # where it finds what it would fetch
    r"python -m preprocess \w+ --raw": "--vocab checkpoints/gpt2_bpe",
    "python benchmarks/preprocess_time.py": "--file glue_data/RTE/train.tsv --rounds 1 --vocab checkpoints/gpt2_bpe",
    "python benchmarks/step_time.py": "--size tiny --rounds 1 --steps 1 --cases floor m-idpg-phm --no-peers",
    "python benchmarks/scaling.py": "--layers 2 --width 32 --rounds 1 --steps 1 --axes length=8,16 --cases floor",
    "python benchmarks/epoch.py": "--help",  # eight processes; tests/benchmarks/test_epoch.py runs it
    r"PARTS=.* bash benchmarks/gpu.sh": "--dry-run",
    "bash benchmarks/gpu.sh": "--rounds 1 --steps 1",  # and DEVICE=cpu SIZE=tiny LENGTHS=8 PARTS=sizes
    "bash run_scripts/supplementary_pipeline.sh": f"--dry-run {TINY_PIPELINE}",
    "bash run_scripts/rte.sh .* --fp16": f"--fp16-no-flatten-grads --dev 8 {TINY_RUN}",
    "bash run_scripts/rte.sh .* --k 100": f"--k 4 --dev 4 {TINY_RUN}",
    "bash run_scripts/cr.sh .* --eval-k": f"--eval-k 4 --dev 8 {TINY_RUN}",
    "bash run_scripts/evidence.sh minilm": "--dry-run --set k=[8]",
    "bash run_scripts/evidence.sh": f"--dry-run {TINY_PIPELINE} rows=[prompt-tuning] k=[8]",
    "bash run_scripts/mnli_supplementary.sh": TINY_RUN,
    "bash run_scripts/": f"--dev 8 {TINY_RUN}",
    "python -m run_scripts.submit": "--incomplete --cpu",  # of one task
    "python -m run_scripts.sweep run_scripts/configs/smoke.yaml": (
        "--set max_update=1 seeds=[1] lrs=[1.0e-3] dev_examples=8 options.cpu=true"
    ),
    "python -m run_scripts.sweep run_scripts/configs/table": f"--dry-run {TINY_PIPELINE} rows=[prompt-tuning]",
    "python -m run_scripts.sweep run_scripts/configs/idspam": f"{TINY_PIPELINE} --set rows=[prompt-tuning]",
    "python -m run_scripts.sweep": "--dry-run",
}
SERVER, SERVED_AT = "python -m fairseq_idpg.serve", "http://127.0.0.1:8000"
# for machines without it: curl URL -H HEADER -d BODY
CURL = """curl() { python -c '
import sys
from urllib.request import Request, urlopen
url, _, header, _, body = sys.argv[1:]
print(urlopen(Request(url, body.encode(), dict([header.split(": ")]))).read().decode())
' "$@"; }
"""
# the project's own files in a command, and the --user-dir
OURS = r"(?<![\w/.])((?:benchmarks|checkpoints|run_scripts|tests)/[\w./-]+\.(?:py|sh|yaml)|fairseq_idpg(?= --task))"


def commands(text: str) -> list[str]:
    """The commands of a page's bash blocks, without comments."""
    blocks = re.findall(r"```(?:bash|sh)\n(.*?)```", text, flags=re.DOTALL)
    lines = [line.split("  #")[0] for line in "".join(blocks).replace("\\\n", " ").splitlines()]
    return [" ".join(line.split()) for line in lines if line.strip()]


def run_page(text: str, place: Path, after: int = 0, python: Path = Path(sys.executable)) -> dict[str, str]:
    """The output of each command ``after`` the first few, executed in ``place`` instead of the project's root.

    A server runs until the page has come to its end; others ask it at the port that it has found. ``python`` comes
    first on the PATH.
    """
    said, address = {}, SERVED_AT
    with contextlib.ExitStack() as servers:
        for command in commands(text)[after:]:
            if command.startswith(SERVER):
                said[command] = servers.enter_context(served(command, place))
                address = said[command].split()[0]
            else:
                said[command] = shell(command.replace(SERVED_AT, address), place, python)
    return said


@contextlib.contextmanager
def served(command: str, place: Path) -> Iterator[str]:
    """What a server says when it is ready."""
    executed = ["bash", "-c", f"exec {command} --port 0 --cpu"]
    with subprocess.Popen(executed, cwd=place, env=environment(place), stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server.stdout.readline()
        finally:
            server.terminate()
    assert server.returncode == 0


def shell(command: str, place: Path, python: Path = Path(sys.executable)) -> str:
    """Its output, as after "source .venv/bin/activate"."""
    added = next((words for pattern, words in SMALLER.items() if re.match(pattern, command)), "")
    kept = re.sub(r" --eval-k \d+", "", command) if "--eval-k" in added else command  # it takes all that is given
    executed = re.sub(OURS, rf"{ROOT}/\1", f"{kept} {added}")
    ran = ["bash", "-c", executed if shutil.which("curl") else CURL + executed]
    done = subprocess.run(ran, cwd=place, env=environment(place, python), capture_output=True, text=True)
    assert done.returncode == 0, f"{executed}\n{(done.stdout + done.stderr)[-3000:]}"
    return done.stdout + done.stderr


def environment(place: Path, python: Path = Path(sys.executable)) -> dict[str, str]:
    path = [str(python.parent), os.path.dirname(sys.executable), os.environ["PATH"]]
    return {
        **os.environ,
        **{"PATH": os.pathsep.join(path), "PYTHONPATH": str(ROOT)},
        **{"PYTHON": str(python), "OUT": str(place / "gpu")},
        **{"DEVICE": "cpu", "SIZE": "tiny", "LENGTHS": "8", "PARTS": "sizes"},
        "FAIRSEQ_MODELS_URL": "http://127.0.0.1:9",  # nothing is fetched
    }


# --- what the pages say is there -----------------------------------------------------------------


def backbones(place: Path) -> None:
    for name in ("roberta.large", "roberta.large.mnli"):
        write_backbone(place / "checkpoints" / name / "model.pt")
    write_vocab(place / "checkpoints" / "gpt2_bpe")


def of_preprocess(place: Path) -> None:
    """Stand-ins for the raw files."""
    backbones(place)
    columns = {"RTE": "index\tsentence1\tsentence2\tlabel", "MNLI": "x\tsentence1\tsentence2\tgold_label"}
    for task, files in (("RTE", ("train", "dev")), ("MNLI", ("train", "dev_matched", "dev_mismatched"))):
        (place / "glue_data" / task).mkdir(parents=True)
        for file in files:
            text = "".join(f"{i}\tfirst {i}\tsecond\tentailment\n" for i in range(2100))
            (place / "glue_data" / task / f"{file}.tsv").write_text(f"{columns[task]}\n{text}")
    for task in ("cr", "mr"):
        (place / "original" / task).mkdir(parents=True)
        for file in ("train", "test"):
            (place / "original" / task / f"{file}.csv").write_text('1,"good, yes"\n0,bad\n')
    for name in ("train/neg", "train/pos", "test/neg", "test/pos"):
        (place / "aclImdb" / name).mkdir(parents=True)
        (place / "aclImdb" / name / "0_1.txt").write_text("A review.")
    (place / "glove.6B.300d.txt").write_text("first 0.5 1\nsecond 2 3\n")


def of_checkpoints(place: Path) -> None:
    backbones(place)
    (place / "checkpoints" / "roberta.large" / "dict.txt").touch()  # of a download that is whole
    hf_folders.build(place / "SRC", "bert", kind="Model")
    hf_folders.write_vocabulary(place / "SRC", "bert")


def of_paper(place: Path) -> None:
    write_released(place / "SRC.pt", write_backbone(place / "model.pt"))


def of_benchmarks(place: Path, quickstart: Path) -> None:
    backbones(place)
    (place / "quickstart").symlink_to(quickstart)
    write_folder(place / "data" / "RTE-bin")


def submitted(place: Path) -> None:
    """A run of the smallest task of GLUE, and of SuperGLUE, and GLUE's diagnostic set as text."""
    for task in ("WNLI", "CB"):
        write_folder(place / "data" / f"{task}-bin", names=TASKS[task].labels)
    for task, examples, benchmark in (("WNLI", 146, "glue"), ("CB", 250, "superglue")):
        folder, run = place / "data" / f"{task}-bin", made.run("m-idpg-phm", task)
        results = made.write(place / "results" / benchmark, [{**run, "data": str(folder)}])
        usual = ["--backbone", place / "checkpoints" / "roberta.large" / "model.pt", "--max-update", 1]
        train(folder, results / "runs" / run["run"], *usual, "--num-classes", len(TASKS[task].labels))
        add_test_set(folder, "test", list(map(str, range(examples))))
    (place / "glue_data" / "diagnostic").mkdir(parents=True)
    text = "index\tsentence1\tsentence2\n0\tOne.\tTwo.\n"
    (place / "glue_data" / "diagnostic" / "diagnostic.tsv").write_text(text)


def of_results(place: Path) -> None:
    """The records and their page, and the runs of one of them as a sweep leaves them."""
    (place / "run_scripts").mkdir()
    shutil.copytree(ROOT / "run_scripts" / "results", place / "run_scripts" / "results")
    shutil.copy(ROOT / "run_scripts" / "RESULTS.md", place / "run_scripts")
    (place / "results" / "short").mkdir(parents=True)
    shutil.copy(ROOT / "run_scripts" / "results" / "short.jsonl", place / "results" / "short" / "results.jsonl")


def of_run_scripts(place: Path, quickstart: Path) -> None:
    """Tasks on a tiny backbone, a few short texts, trained checkpoints, and made-up runs to report."""
    backbones(place)
    (place / "quickstart").symlink_to(quickstart)
    for name in ("RTE", "MRPC", "QNLI", "QQP", "MNLI", "MPQA", "SUBJ", "CR", "MR", "SST-2", "IMDB"):
        task = TASKS[name]
        folder = write_folder(place / "data" / f"{task.name}-bin", pairs=task.pairs, names=task.labels)
        if name in ("SST-2", "IMDB"):  # whose labels are matched by meaning
            (folder / "preprocess.json").write_text(json.dumps({"task": name}))
    scores = write_folder(place / "data" / "STS-B-bin", regression=True, splits={"train": 24, "valid": 400})
    words = "good bad film plot a the very".split()
    draw = random.Random(0)
    for task in ("MR", "CR", "STS-B", "MRPC", "RTE"):
        labels, parts = TASKS[task].labels or ("0.5", "4"), 1 + TASKS[task].pairs
        (place / "TEXT" / task).mkdir(parents=True)
        for split in ("train", "valid"):
            texts = ("\t".join(" ".join(draw.choices(words, k=4)) for _ in range(parts)) for _ in range(600))
            lines = (f"{labels[i % 2]}\t{text}\n" for i, text in enumerate(texts))
            (place / "TEXT" / task / f"{split}.tsv").write_text("".join(lines))
    (place / "glove.6B.50d.txt").write_text("".join(f"{word} {i} 1\n" for i, word in enumerate(words)))
    usual = ["--backbone", place / "checkpoints" / "roberta.large" / "model.pt", "--regression-target"]
    usual += ["--num-classes", 1, "--best-checkpoint-metric", "loss", "--max-update", 1]
    for name, method in (("prompts", "m-idpg-phm"), ("fine-tuned", "fine-tuning")):
        train(scores, place / name, *usual, "--method", method, without="" if name == "prompts" else "--phm-n")
        (place / f"{name}.pt").symlink_to(place / name / "checkpoint_best.pt")
    (place / "checkpoints" / "cr-prompt.pt").symlink_to(place / "prompts.pt")
    rows = ("prompt-tuning", "m-idpg-phm")
    runs = [made.run(row, task, seed) for row in rows for task in made.TEN for seed in (1, 2)]
    made.write(place / "results" / "table1", runs)
    of_results(place)
    submitted(place)
    scores = {"metric": "accuracy", "scores": {"accuracy": 70.0}, "test": 70.0}
    both = {"dev": {"accuracy": 70.0, "acc_and_macro_f1": 60.0}, "test": {"accuracy": 70.0, "acc_and_macro_f1": 60.0}}
    made.write(place / "results" / "idspam" / "table2", [made.run("id-spam", "MRPC", scores=both)])
    made.write(place / "results" / "transfer", [made.run("m-idpg-phm", "CR", transfer={"MR": scores})])
    positions = [made.run("s-idpg-phm", "RTE", position=p, supplementary_position=0) for p in (0, 1)]
    made.write(place / "results" / "figure7", positions)
