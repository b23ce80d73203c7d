"""download.sh on files of this machine, which curl reads as it does those of a server."""

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "checkpoints" / "download.sh"
NAME = "roberta.base"
pytestmark = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")


def archive(folder: Path, *files: str) -> None:
    with tarfile.open(folder / f"{NAME}.tar.gz", "w:gz") as tar:
        for file in files:
            info = tarfile.TarInfo(f"{NAME}/{file}")
            info.size = len(file)
            tar.addfile(info, io.BytesIO(file.encode()))


@pytest.fixture
def www(tmp_path):
    (tmp_path / "www" / "gpt2_bpe").mkdir(parents=True)
    return tmp_path / "www"


def download(www: Path, *arguments: object):
    environment = {**os.environ, "FAIRSEQ_MODELS_URL": f"file://{www}"}
    command = ["bash", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_unpacks_and_skips(www, tmp_path):
    archive(www, "model.pt", "dict.txt", "NOTE")
    dest = tmp_path / "some where"
    result = download(www, NAME, dest)
    assert result.returncode == 0, result.stderr
    assert [path.name for path in dest.iterdir()] == [NAME]
    unpacked = {path.name: path.read_text() for path in (dest / NAME).iterdir()}
    assert unpacked == {file: file for file in ("NOTE", "dict.txt", "model.pt")}
    again = download(tmp_path / "gone", NAME, dest)  # offline: it is already there
    assert again.returncode == 0 and "already there" in again.stdout


@pytest.mark.parametrize("served", ["nothing", "a cut archive", "an archive of something else"])
def test_what_cannot_be_fetched_leaves_nothing(served, www, tmp_path):
    if "something else" in served:
        archive(www, "model.pt")
    if "cut" in served:
        archive(www, "model.pt", "dict.txt")
        os.truncate(www / f"{NAME}.tar.gz", (www / f"{NAME}.tar.gz").stat().st_size - 20)
    result = download(www, NAME, tmp_path / "dest")
    assert result.returncode == 1 and f"{www}/{NAME}.tar.gz" in result.stderr and result.stderr.count("\n") == 1
    assert list((tmp_path / "dest").iterdir()) == []


def test_a_folder_of_somebodys_own_stays(tmp_path):
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "mine").write_text("mine")
    result = download(tmp_path, NAME, tmp_path)
    assert result.returncode == 1 and "has no model.pt" in result.stderr
    assert (tmp_path / NAME / "mine").read_text() == "mine"


def test_byte_pair_encoding_is_fetched_file_by_file(www, tmp_path):
    """All of them or nothing."""
    files = {name: name for name in ("dict.txt", "encoder.json", "vocab.bpe")}
    for last in ("", "vocab.bpe"):
        for name, text in {**files, "vocab.bpe": last}.items():
            (www / "gpt2_bpe" / name).write_text(text)
        done = download(www / "models", "gpt2_bpe", tmp_path / "dest")
        if not last:
            assert done.returncode == 1 and "vocab.bpe is empty" in done.stderr.splitlines()[-1]
            assert list((tmp_path / "dest").iterdir()) == []
    assert {path.name: path.read_text() for path in (tmp_path / "dest" / "gpt2_bpe").iterdir()} == files
