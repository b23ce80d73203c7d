"""A method outside of the package: the file of CONTRIBUTING.md as it stands, from fairseq-train to a shared folder."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.folders import ROOT, train
from tests.methods.test_one_file import DUMMY

FRESH = """
import sys
import fairseq_idpg
from fairseq_idpg.errors import InputError
from fairseq_idpg.export import main as export
from fairseq_idpg.predict import main as predict
checkpoint, file, place, backbone = sys.argv[1:]
try:
    fairseq_idpg.load(checkpoint, device="cpu")
except InputError as error:
    assert "mine.py" in str(error) and "Instead of fairseq-validate use fairseq_idpg.load" in str(error), error
else:
    raise SystemExit("its code was not asked for")
one = fairseq_idpg.load(checkpoint, device="cpu", method_file=file)
assert "dummy" in repr(one) and one.model.method.scale == 0.5
export([checkpoint, f"{place}/shared", "--method-file", file])
other = fairseq_idpg.load(f"{place}/shared", device="cpu", method_file=file)
assert other.predict(["red cat"]) == one.predict(["red cat"])
open(f"{place}/x.txt", "w").write("red cat")
predict(["--path", checkpoint, "--method-file", file, "--text", f"{place}/x.txt", "--cpu"])
examples = [(f"{text} {number}", text) for text in ("red cat", "blue dog") for number in range(6)]
more = {"epochs": 1, "device": "cpu", "progress": False}
own = fairseq_idpg.train(examples, backbone, "dummy", method_file=file, dummy_scale=0.25, prompt_length=2, **more)
assert own.model.method.scale == 0.25 and own.predict(["red cat"])
"""
EDITED = """
import sys, fairseq_idpg
from fairseq_idpg.errors import InputError
try:
    fairseq_idpg.load(sys.argv[1], device="cpu", method_file=sys.argv[2])
except InputError as error:
    sys.exit("--method-file" not in str(error))
sys.exit("another file was taken for it")
"""


@pytest.fixture
def run(python):
    def run(*words: object, path: Path = ROOT) -> str:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{path}"}
        command = [str(python), *map(str, words)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    file = tmp_path_factory.mktemp("mine") / "mine.py"
    file.write_text(DUMMY)
    return file


def test_from_a_file_of_ones_own(run, mine, place, folders, tmp_path):
    data, backbone = folders["singles"], place / "backbone" / "model.pt"
    own = ["--method", "dummy", "--method-file", mine, "--dummy-scale", 0.5, "--max-epoch", 1]
    train(data, tmp_path, "--backbone", backbone, *own, without="--phm-n", forked=True)
    checkpoint = tmp_path / "checkpoint_best.pt"
    shutil.copytree(place / "vocab", tmp_path / "whole")
    shutil.copy(backbone, tmp_path / "whole")
    run("-c", FRESH, checkpoint, mine, tmp_path, tmp_path / "whole")
    edited = tmp_path / "mine.py"
    edited.write_text(DUMMY + "\n")
    run("-c", EDITED, checkpoint, edited)


def test_of_an_installed_package(run, tmp_path):
    text = DUMMY.replace("from ..", "from fairseq_idpg.methods.").replace(
        "from .base", "from fairseq_idpg.methods.prompts.base"
    )
    (tmp_path / "their_methods.py").write_text(text)
    info = tmp_path / "theirs-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[fairseq_idpg.methods]\ndummy = their_methods\n")
    said = run("-m", "fairseq_idpg.count", "--method", "dummy", "--prompt-length", 4, path=tmp_path)
    assert said.splitlines()[1].split()[:2] == ["dummy", "4,096"]
