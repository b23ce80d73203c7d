"""download.sh against a server on this machine; nothing outside it is asked."""

from __future__ import annotations

import functools
import io
import os
import shutil
import subprocess
import tarfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "checkpoints" / "download.sh"
NAME = "roberta.base"
NOWHERE = "http://127.0.0.1:9"  # the discard port: refused at once


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path):
    """Serve tmp_path/www and give its folder and address."""
    folder = tmp_path / "www"
    (folder / "gpt2_bpe").mkdir(parents=True)
    handler = functools.partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
        yield folder, f"http://127.0.0.1:{httpd.server_address[1]}"
        httpd.shutdown()


def archive(folder: Path, *files: str) -> None:
    with tarfile.open(folder / f"{NAME}.tar.gz", "w:gz") as tar:
        for file in files:
            info = tarfile.TarInfo(f"{NAME}/{file}")
            info.size = len(file)
            tar.addfile(info, io.BytesIO(file.encode()))


def download(*arguments: object, url: str = NOWHERE, path: str | None = None):
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    environment.update(FAIRSEQ_MODELS_URL=url, PATH=path or environment["PATH"])
    return subprocess.run(
        [shutil.which("bash"), str(SCRIPT), *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("client", ["curl", "wget"])
def test_unpacks_and_skips(client, server, tmp_path):
    www, url = server
    archive(www, "model.pt", "dict.txt", "NOTE")
    dest = tmp_path / "some where"
    (tmp_path / "bin").mkdir()
    for name in ("bash", "dirname", "gzip", "mkdir", "mv", "rm", "tar", client):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or pytest.skip(f"{name} is not installed"))
    result = download(NAME, dest, url=url, path=str(tmp_path / "bin"))
    assert result.returncode == 0, result.stderr
    assert [path.name for path in dest.iterdir()] == [NAME]
    assert {path.name: path.read_text() for path in (dest / NAME).iterdir()} == {
        file: file for file in ("NOTE", "dict.txt", "model.pt")
    }
    again = download(NAME, dest)  # offline: it is already there
    assert again.returncode == 0 and "already there" in again.stdout


@pytest.mark.parametrize("served", ["nothing", "a cut archive", "an archive of something else"])
def test_what_cannot_be_fetched_leaves_nothing(served, server, tmp_path):
    www, url = server
    if "something else" in served:
        archive(www, "model.pt")
    if "cut" in served:
        archive(www, "model.pt", "dict.txt")
        os.truncate(www / f"{NAME}.tar.gz", (www / f"{NAME}.tar.gz").stat().st_size - 20)
    result = download(NAME, tmp_path / "dest", url=url)
    assert result.returncode == 1 and f"{url}/{NAME}.tar.gz" in result.stderr and result.stderr.count("\n") == 1
    assert list((tmp_path / "dest").iterdir()) == []


def test_a_folder_of_somebodys_own_stays(tmp_path):
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "mine").write_text("mine")
    result = download(NAME, tmp_path)
    assert result.returncode == 1 and "has no model.pt" in result.stderr
    assert (tmp_path / NAME / "mine").read_text() == "mine"


def test_byte_pair_encoding_is_fetched_file_by_file(server, tmp_path):
    """All of them or nothing."""
    www, url = server
    files = {name: name for name in ("dict.txt", "encoder.json", "vocab.bpe")}
    for last in ("", "vocab.bpe"):
        for name, text in {**files, "vocab.bpe": last}.items():
            (www / "gpt2_bpe" / name).write_text(text)
        done = download("gpt2_bpe", tmp_path / "dest", url=f"{url}/models")
        if not last:
            assert done.returncode == 1 and "vocab.bpe is empty" in done.stderr.splitlines()[-1]
            assert list((tmp_path / "dest").iterdir()) == []
    assert {path.name: path.read_text() for path in (tmp_path / "dest" / "gpt2_bpe").iterdir()} == files
