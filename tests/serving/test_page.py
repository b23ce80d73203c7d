"""The page, in a headless Chromium."""

import os
import re
import shutil
import subprocess
from urllib.parse import urlencode

import pytest

from tests.serving.running import Stub, in_thread

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
SCRIPT = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"


def shown(folder, port: int, **query: str) -> str:
    """The document once the page has asked what its query says."""
    options = ["--headless", "--disable-gpu", "--dump-dom", "--virtual-time-budget=20000", f"--user-data-dir={folder}"]
    options += ["--no-sandbox"] if os.getuid() == 0 else []
    page = f"http://127.0.0.1:{port}/?{urlencode(query)}"
    ran = subprocess.run([CHROMIUM, *options, page], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def cells(document: str) -> list[list[str]]:
    answer = re.search(r'<(\w+) id="answer"[^>]*>(.*?)</\1>', document, re.DOTALL)[2]
    return [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", answer)]


class Hostile(Stub):
    """Whose task, labels and words were made by somebody else."""

    def described(self) -> list[dict]:
        return [{**super().described()[0], "task": SCRIPT}, {**super().described()[0], "task": "mr"}]

    def answer(self, question, batch_size: int) -> list[dict]:
        words = [{"word": SCRIPT, "cosine": 0.5}]
        answer = {"label": SCRIPT, "probability": 0.75, "probabilities": {SCRIPT: 0.75, "good": 0.25}}
        return [{**answer, "prompts": [words], "prompt_layers": [SCRIPT], "sentence": text} for text in question.texts]


def test_nothing_that_others_wrote_is_run(tmp_path):
    with in_thread(Hostile()) as running:
        document = shown(tmp_path, running.port, sentence=SCRIPT, task=SCRIPT)
    assert "<title>fairseq_idpg</title>" in document and "<img" not in document
    assert document.count("<script") == 1  # the page's own
    written = SCRIPT.replace("<", "&lt;").replace(">", "&gt;")
    assert [row[0] for row in cells(document)] == [written, "good", f"row 1, layer {written}"]
    assert f"<h2>{written} (75.0%)</h2>" in document and f"<option>{written}</option>" in document
