"""The Hugging Face hub, as a stand-in on 127.0.0.1: a folder is put there, fetched, and predicts as its checkpoint."""

import base64
import hashlib
import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fairseq_idpg import load
from tests.folders import ROOT
from tests.inference.conftest import inputs

COMMIT = "0" * 40


class Hub(BaseHTTPRequestHandler):
    """What ``huggingface_hub`` asks when it makes a repository, commits small files, and fetches them."""

    files: dict[str, bytes]

    def do_POST(self):
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/preupload/main"):
            files = [{"path": each["path"], "uploadMode": "regular"} for each in json.loads(sent)["files"]]
            self.answer({"files": [{**each, "shouldIgnore": False} for each in files]})
        elif self.path.endswith("/commit/main"):
            for line in map(json.loads, sent.splitlines()):
                if line["key"] == "file":
                    self.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            self.answer({"commitUrl": f"http://{self.headers['Host']}/me/reviews/commit/{COMMIT}", "commitOid": COMMIT})
        else:  # a new repository; the YAML of the card
            self.answer({"url": f"http://{self.headers['Host']}/me/reviews", "errors": [], "warnings": []})

    def do_GET(self):
        if self.path.startswith("/api/models/me/reviews"):
            names = [{"rfilename": name, "path": name, "type": "file", "oid": "0", "size": 1} for name in self.files]
            tree = "/tree/" in self.path
            self.answer(names if tree else {"id": "me/reviews", "sha": COMMIT, "siblings": names})
        elif self.path.startswith("/me/reviews/resolve/"):
            self.answer(self.files[self.path.rpartition("/")[2]])
        else:
            self.send_error(404)

    do_HEAD = do_GET

    def answer(self, content):
        sent = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(sent)))
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{hashlib.sha256(sent).hexdigest()}"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(sent)

    def log_message(self, *args):
        pass


@pytest.fixture
def hub(tmp_path, python):
    """(the files on the hub, what runs a command of ours that asks it)."""
    Hub.files = {}
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HOME": str(tmp_path / "hf")}
        environment = {**os.environ, **place, "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": "hf_x", "PYTHONPATH": str(ROOT)}

        def run(command: str, *arguments: object) -> subprocess.CompletedProcess:
            words = [str(python), "-m", f"fairseq_idpg.{command}", *map(str, arguments)]
            return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)

        yield Hub.files, run
        server.shutdown()


def test_there_and_back(hub, idpg, place, tmp_path):
    pytest.importorskip("huggingface_hub")
    files, run = hub
    more = ["--push-to-hub", "me/reviews", "--licence", "mit"]
    pushed = run("export", idpg("singles"), tmp_path / "shared", *more)
    assert pushed.returncode == 0 and pushed.stdout.splitlines()[-1].endswith("/me/reviews"), pushed.stderr
    assert files.keys() == {"README.md", "config.json", "prompt.safetensors"}
    head = files["README.md"].decode().split("---")[1].strip().splitlines()
    facts = {key: json.loads(value) for key, _, value in (line.partition(": ") for line in head)}
    assert facts["license"] == "mit" and facts["tags"] == ["fairseq_idpg", "m-idpg-phm"]
    (result,) = facts["model-index"][0]["results"]
    assert result["metrics"][0]["value"] > 0 and str(tmp_path) not in files["config.json"].decode()

    texts = inputs("singles")[:3]
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in texts))
    where = ["--backbone", place / "backbone" / "model.pt", "--vocab", place / "vocab"]
    options = ["--text", tmp_path / "texts.txt", "--format", "jsonl", "--cpu", *where]
    said = run("predict", "--path", "me/reviews", *options)
    assert said.returncode == 0, said.stderr
    found = [json.loads(line)["probability"] for line in said.stdout.splitlines()]
    assert found == [pytest.approx(each.probability, abs=1e-6) for each in load(idpg("singles")).predict(texts)]

    gone = run("predict", "--path", "me/gone", *options)
    assert gone.returncode == 1 and "me/gone is not a file or folder; the Hugging Face hub says" in gone.stderr
    assert gone.stderr.count("\n") == 1
