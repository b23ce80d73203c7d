"""The pages: their tables are the program's, their commands run, the files that they name are there."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from fairseq_idpg.methods.registry import PRESETS
from fairseq_idpg.options_table import options_markdown
from tests.folders import ROOT
from tests.methods.prompts.test_counts import PAPER
from tests.preprocess.commands import write_vocab

PAGES = {
    page: (ROOT / page).read_text(encoding="utf-8")
    for page in (
        "README.md",
        "fairseq_idpg/OPTIONS.md",
        "fairseq_idpg/PAPER.md",
        "preprocess/README.md",
        "checkpoints/README.md",
        "run_scripts/README.md",
        "benchmarks/README.md",
    )
}
README = PAGES["README.md"]
COMMANDS = re.findall(r"```bash\n(.*?)```", README, flags=re.DOTALL)
SMALL = ["--train-examples", "40", "--valid-examples", "16", "--test-examples", "16", "--max-epoch", "1"]


def between(marker: str, page: str) -> str:
    return re.search(rf"<!-- {marker} -->\n(.*?)<!-- end -->", PAGES[page], flags=re.DOTALL).group(1).strip()


def shell(command: str) -> str:
    environment = os.path.dirname(sys.executable)  # as after "source .venv/bin/activate"
    env = {**os.environ, "PYTHON": sys.executable, "PATH": f"{environment}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout + done.stderr


def test_options_table_is_the_dataclasses():
    said = between("options", "fairseq_idpg/OPTIONS.md")
    assert said == options_markdown(), "run: python -m fairseq_idpg.options_table"


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_are_there(page):
    text = PAGES[page]
    folders = "fairseq_idpg|preprocess|checkpoints|run_scripts|benchmarks|tests"
    named = set(re.findall(rf"\b((?:{folders})/[\w./-]+\.(?:py|sh|yaml|md))\b", text))
    linked = set(re.findall(r"\]\(([\w./-]+)\)", text))
    assert not [file for file in named if not (ROOT / file).is_file()]
    assert not [link for link in linked if not ((ROOT / page).parent / link).is_file()]


def test_methods_table_states_the_counts():
    rows = dict(re.findall(r"^\| `([\w-]+)`[^|]*\|[^|]*\|[^|]*\| ([\d,]+) \|", README, flags=re.MULTILINE))
    assert {name: int(count.replace(",", "")) for name, count in rows.items()} == PAPER
    assert set(rows) == set(PRESETS)


def test_the_readmes_test_command_is_what_ci_runs():
    assert "bash tests/run.sh\n" in COMMANDS
    assert "bash tests/run.sh" in (ROOT / ".ci" / "run").read_text()


def test_versions_are_those_that_the_tests_run_on():
    """README, setup.py and setup_env.sh name one Python and one fairseq, and this is them."""
    said = re.search(r"^Python (3\.\d+), torch (\S+), fairseq-fixed (\S+) \(", README, flags=re.MULTILINE)
    running = [f"3.{sys.version_info.minor}", version("torch").rsplit(".", 1)[0], version("fairseq-fixed")]
    assert list(said.groups()) == running
    packaged = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert f'python_requires=">={said[1]}"' in packaged and f'"fairseq-fixed=={said[3]}"' in packaged
    assert f"(3, {said[1].split('.')[1]})" in (ROOT / "run_scripts" / "setup_env.sh").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory) -> Path:
    """The first command, on a few sentences."""
    out = tmp_path_factory.mktemp("quickstart")
    command = next(c for c in COMMANDS if "quickstart.sh" in c).strip()
    output = shell(f"{command} {' '.join(SMALL)} --out {shlex.quote(str(out))} --cpu")
    assert "largest difference from transformers" in output
    return out


def test_quickstart_writes_its_rows(quickstart):
    rows = [json.loads(line) for line in (quickstart / "results.jsonl").read_text().splitlines()]
    assert [row["method"] for row in rows] == ["head-only", "prompt-tuning", "m-idpg-phm"]
    # 5 x 384; 2 x 16^3 + 384 + 16 + 16 x 1,920 / 16 + 6 x 1,920
    assert [row["trainable"] for row in rows] == [0, 1_920, 22_032]
    for row in rows:
        assert 0 <= row["accuracy"] <= 100 and row["seconds_per_epoch"] > 0
        assert row["checkpoint_bytes"] < row["backbone_params"]


def test_train_and_validate_commands(quickstart):
    train, validate = (next(c for c in COMMANDS if f"fairseq-{tool}" in c) for tool in ("train", "validate"))
    here = str(quickstart) + "/"
    output = shell(train.replace("quickstart/", here).strip() + " --max-update 2 --cpu --log-format json")
    assert "method m-idpg-phm: " in output
    output = shell(validate.replace("quickstart/", here).strip() + " --cpu --log-format json")
    assert re.search(r'"test_accuracy": "[\d.]+"', output)
    predict = next(c for c in COMMANDS if "fairseq_idpg.predict" in c)
    assert "predictions of test in" in shell(predict.replace("quickstart/", here).strip() + " --cpu")


def test_own_data_command(quickstart):
    command = next(c for c in COMMANDS if "-m preprocess" in c)
    command = command.replace("quickstart/", f"{quickstart}/").replace("--out quickstart", f"--out {quickstart}")
    assert re.search(r"train +40 ", shell(command))
    assert (quickstart / "mine-bin" / "input0" / "train.bin").stat().st_size


def test_preprocess_commands(tmp_path):
    """Every line of the data page, on stand-ins for the raw files."""
    lines = re.search(r"```sh\n(.*?)```", PAGES["preprocess/README.md"], flags=re.DOTALL).group(1).splitlines()
    lines = [line.split(" #")[0].split("    #")[0].strip() for line in lines if line.startswith("python")]
    assert len(lines) == 8
    vocab = write_vocab(tmp_path / "vocab")
    columns = {"RTE": "index\tsentence1\tsentence2\tlabel", "MNLI": "x\tsentence1\tsentence2\tgold_label"}
    for task, files in (("RTE", ("train", "dev")), ("MNLI", ("train", "dev_matched", "dev_mismatched"))):
        (tmp_path / "glue_data" / task).mkdir(parents=True)
        for file in files:
            text = "".join(f"{i}\tfirst {i}\tsecond\tentailment\n" for i in range(2100))
            (tmp_path / "glue_data" / task / f"{file}.tsv").write_text(f"{columns[task]}\n{text}")
    for task in ("cr", "mr"):
        (tmp_path / "original" / task).mkdir(parents=True)
        for file in ("train", "test"):
            (tmp_path / "original" / task / f"{file}.csv").write_text('1,"good, yes"\n0,bad\n')
    (tmp_path / "glove.6B.300d.txt").write_text("first 0.5 1\nsecond 2 3\n")
    for line in lines:
        command = line.replace("python -m preprocess", f"{shlex.quote(sys.executable)} -m preprocess")
        if "--raw" in line:
            command += f" --vocab {vocab}"
        shell(f"cd {tmp_path} && PYTHONPATH={ROOT} {command}")
    assert len(list((tmp_path / "few").iterdir())) == 15
    assert (tmp_path / "data" / "RTE-bin" / "glove" / "train.npy").is_file()


def test_sweep_commands(quickstart, tmp_path):
    """The smallest sweep, cut to a run for each row, and every report of its page on what it leaves."""
    (tmp_path / "quickstart").mkdir()
    for name in ("backbone", "reviews-bin"):
        (tmp_path / "quickstart" / name).symlink_to(quickstart / name)
    lines = [line.split("  #")[0].strip() for line in PAGES["run_scripts/README.md"].splitlines()]
    (sweep,) = (line for line in lines if line.endswith("configs/smoke.yaml"))
    reports = [line for line in lines if line.startswith("python -m run_scripts.report results/table1")]
    assert len(reports) == 4

    def python(command: str) -> str:
        command = command.replace("python", shlex.quote(sys.executable), 1)
        return shell(f"cd {tmp_path} && PYTHONPATH={ROOT} {command}")

    sweep = sweep.replace("run_scripts/configs", f"{ROOT}/run_scripts/configs")
    python(f"{sweep} --set max_update=1 seeds=[1] lrs=[1.0e-3] dev_examples=8 options.cpu=true")
    overview, *tables = (report.replace("table1", "smoke").replace("CR RTE", "MR") for report in reports)
    assert "3 runs, 3 finished, 0 failed" in python(overview)
    for table in tables:
        assert re.search(r"Table 1|saved: smoke.tex", python(table))
    assert "m-idpg-phm & ours" in (tmp_path / "smoke.tex").read_text(encoding="utf-8")
