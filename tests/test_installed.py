"""``pip install .``: what a wheel holds; that it trains and predicts in a fresh environment, from another folder."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.folders import TRAINING, write_backbone
from tests.helpers import TINY
from tests.inference.conftest import BYTES, enlarge
from tests.preprocess.commands import write_vocab
from tests.run_scripts.tiny import IDPG, OPTIONS
from tests.test_imports import imported

ROOT = Path(__file__).resolve().parents[1]
BESIDE = ("preprocess", "checkpoints", "run_scripts")
PACKAGES = ("fairseq_idpg", *BESIDE)
KINDS = {".py", ".yaml", ".html", ".css", ".js", ".typed"}  # of the files that a package holds
MORE = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "checkpoints/download.sh", "fairseq_idpg/OPTIONS.md")
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
OFFLINE = ["--no-index", "--no-deps"]

# whoever looks for pip as a module makes setuptools, which older torch imports, fail before Python 3.12
pytestmark = pytest.mark.skipif(
    not {"pip", "setuptools", "wheel"} <= {each.metadata["Name"] for each in distributions()},
    reason="needs pip, setuptools and wheel",
)


def our_files() -> set[Path]:
    """Of the packages, without what downloads, builds and caches leave between them."""
    found = (path.relative_to(ROOT) for name in PACKAGES for path in (ROOT / name).rglob("*") if path.suffix in KINDS)
    return {path for path in found if path.parts[0] != "checkpoints" or len(path.parts) == 2}


def done(command: list[Any], **how: Any) -> str:
    ended = subprocess.run(list(map(str, command)), capture_output=True, text=True, **how)
    if ended.returncode:
        raise RuntimeError((ended.stdout + ended.stderr)[-3000:])
    return ended.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("installed")


@pytest.fixture(scope="module")
def wheel(place: Path) -> Path:
    """Built from a copy of the sources: setuptools leaves a folder build in them."""
    for path in [*our_files(), *map(Path, MORE)]:
        (place / "source" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, place / "source" / path)
    done([*PIP, "wheel", "--no-build-isolation", *OFFLINE, "--wheel-dir", place, place / "source"])
    return next(place.glob("fairseq_idpg-*.whl"))


def as_packaged(path: Path) -> str:
    return str(path if path.parts[0] == "fairseq_idpg" else Path("fairseq_idpg", path))


def test_wheel(wheel):
    """All files, within one package; no module imports what stands beside it only here."""
    with zipfile.ZipFile(wheel) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert {name.split("/")[0].split("-")[0] for name in texts} == {"fairseq_idpg"}
    assert {as_packaged(path) for path in our_files()} <= texts.keys()
    assert {"fairseq_idpg/checkpoints/download.sh", "fairseq_idpg/OPTIONS.md"} <= texts.keys()
    for path in our_files():
        if path.suffix != ".py":
            continue
        names = imported(texts[as_packaged(path)], ("fairseq_idpg", "x", "y"))
        assert not {name.split(".")[0] for name in names} & {*BESIDE}, path


class Installed:
    """A fresh environment with the wheel; whatever else this one has is linked into it, but for ourselves."""

    def __init__(self, place: Path, wheel: Path):
        self.folder, self.work = place / "venv", place / "work"
        done([sys.executable, "-m", "venv", "--without-pip", self.folder])
        here = Path(sysconfig.get_path("purelib"))
        (there,) = self.folder.glob("lib/python*/site-packages")
        (there / "fairseq").mkdir()  # beside its own folder fairseq looks for --user-dir, so that it is no link itself
        for path in [*here.iterdir(), *(here / "fairseq").iterdir()]:
            if not re.search("fairseq_idpg|__pycache__", path.name) and path.name not in ("fairseq", *BESIDE):
                (there / path.relative_to(here)).symlink_to(path)
        done([*PIP, "--python", self.folder / "bin" / "python", "install", "--no-compile", *OFFLINE, wheel])
        for name in ("fairseq-train", "fairseq-validate"):
            code = f"from fairseq_cli.{name.partition('-')[2]} import cli_main\n"
            script = f"#!{self.folder}/bin/python\n{code}if __name__ == '__main__':\n    cli_main()\n"
            (self.folder / "bin" / name).write_text(script)
            (self.folder / "bin" / name).chmod(0o755)
        self.work.mkdir()

    def __call__(self, name: str, *arguments: Any, **how: Any) -> str:
        """The output of one of its commands, called in a folder of its own."""
        hidden = ("PYTHONPATH", "PYTHONSAFEPATH", "VIRTUAL_ENV")
        return done(
            [self.folder / "bin" / name, *arguments],
            cwd=self.work,
            env={name: value for name, value in os.environ.items() if name not in hidden},
            **how,
        )


@pytest.fixture(scope="module")
def installed(place: Path, wheel: Path) -> Installed:
    return Installed(place, wheel)


WHERE = """
import importlib.util, json, fairseq_idpg
from fairseq_idpg.preprocess.encoders import GPT2_FOLDER
from fairseq_idpg.run_scripts import module
found = [name for name in ("preprocess", "checkpoints", "run_scripts") if importlib.util.find_spec(name)]
print(json.dumps([fairseq_idpg.__path__[0], found, str(GPT2_FOLDER), module("preprocess")]))
"""
TASK = [
    *("--user-dir", "fairseq_idpg", "--task", "sentence_prediction_idpg", "--cpu", "--num-workers", 0),
    *("--criterion", "sentence_prediction", "--init-token", 0, "--max-positions", TINY["max_positions"]),
]


def test_own_data(installed):
    path, found, vocab, module = json.loads(installed("python", "-c", WHERE).splitlines()[-1])
    assert Path(path).is_relative_to(installed.folder) and not found
    assert (vocab, module) == ("checkpoints/gpt2_bpe", "fairseq_idpg.preprocess")
    work = installed.work
    write_vocab(work / "checkpoints" / "gpt2_bpe")
    enlarge(write_backbone(work / "model.pt", words=BYTES))
    for split, count in (("train", 24), ("valid", 12)):
        lines = [f"a {('red', 'blue')[i % 2]} cat {i}\t{i % 2}\n" for i in range(count)]
        (work / f"{split}.tsv").write_text("".join(lines))
    columns = ["--no-header", "--text-columns", 1, "--label-column", 2]
    installed("idpg-preprocess", "CR", "--from-tsv", "train=train.tsv", "valid=valid.tsv", *columns, "--out", ".")
    training = ["CR-bin", *TASK, *TRAINING, "--save-dir", "run", "--max-epoch", 2, "--backbone"]
    installed("fairseq-train", *training, "model.pt")
    asked = ["--path", "run/checkpoint_best.pt", "--text", "-", "--cpu"]
    predicted = installed("idpg-predict", *asked, input="a red cat\n")
    assert predicted.splitlines()[1].split("\t")[0] in ("0", "1")
    sweep = {"backbone": "model.pt", "arch": "roberta_idpg", "data": ".", "tasks": ["CR"], "rows": [IDPG]}
    sweep |= {"lrs": [1e-2], "seeds": [1], "dev_examples": 8, "batch_size": 8, "max_update": 2, "options": OPTIONS}
    (work / "own.yaml").write_text(yaml.safe_dump(sweep))
    assert "1 runs, 0 failed" in installed("idpg-sweep", "own.yaml")
    (record,) = map(json.loads, (work / "results/own/results.jsonl").read_text().splitlines())
    assert record["status"] == "done" and record["git"] is None
    assert "CR" in installed("idpg-report", "results/own", "--table", 1)
