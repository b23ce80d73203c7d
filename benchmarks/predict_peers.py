"""What benchmarks/predict_speed.py compares with: transformers' pipeline, and requests to fairseq_idpg.serve."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from settings import ROOT

from fairseq_idpg.inference.predictor import Predictor
from preprocess.errors import InputError

Pipeline = Callable[..., Any]  # transformers'
TOLERANCE = 1e-5  # of probabilities


def pipeline_of(folder: Path, predictor: Predictor, max_length: int) -> Pipeline:
    """Return the pipeline as its users build it, in float32 on the CPU: probabilities of all classes of each text.

    BERT's pooler is the hidden layer of RoBERTa's head: both are tanh(W x + b) of the first state.

    Args:
        folder: the encoder as transformers keeps it.
        predictor: whose head it gets; nothing but a head is trained there.
        max_length: tokens of a text.

    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, logging, pipeline

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    names = dict(enumerate(predictor.labels))
    model = AutoModelForSequenceClassification.from_pretrained(
        str(folder),
        local_files_only=True,
        dtype=torch.float32,
        num_labels=len(names),
        id2label=names,
        label2id={name: number for number, name in names.items()},
    )
    model.bert.pooler.dense.load_state_dict(predictor.head.dense.state_dict())
    model.classifier.load_state_dict(predictor.head.out_proj.state_dict())
    tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, model_max_length=max_length)
    return pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu", top_k=None, truncation=True)


def check_equal(what: str, found: list[dict[str, float]], predictor: Predictor, texts: list[str]) -> float:
    """The largest difference of ``found`` from the predictor's probabilities by name.

    Raises:
        InputError: it is above ``TOLERANCE``.
    """
    differences = [
        abs(own.probabilities[name] - probability)
        for own, probabilities in zip(predictor.predict(texts), found)
        for name, probability in probabilities.items()
    ]
    if not max(differences) <= TOLERANCE:
        raise InputError(
            f"probabilities of {what} differ by {max(differences):.1e}: give the folder of one quick start, whose "
            "encoder and runs belong together"
        )
    return max(differences)


def by_name(entries: list[dict[str, Any]]) -> dict[str, float]:
    """What the pipeline gives for a text, as probabilities by name."""
    return {entry["label"]: entry["score"] for entry in entries}


class Server:
    """A server of one checkpoint on a free port, in a process of its own."""

    def __init__(self, checkpoint: Path, threads: int, log: Path, *options: str):
        command = [sys.executable, "-m", "fairseq_idpg.serve", "--path", str(checkpoint.resolve()), "--cpu"]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        self.log, self.place = log, ""
        with open(log, "w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                [*command, "--port", "0", *options],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self.process.stdout is not None
        self.said = self.process.stdout

    def wait(self) -> None:
        """Until it answers.

        Raises:
            InputError: it has ended.
        """
        first, *_ = [*self.said.readline().split(), ""]
        if not first:
            _, *last = ["", *self.log.read_text(encoding="utf-8").splitlines()]
            raise InputError(f"the server has ended: {last[-1] if last else 'it said nothing'} (or give --no-served)")
        self.place = urlsplit(first).netloc

    def cpu_seconds(self) -> float:
        """That all its threads have computed so far."""
        return time.clock_gettime(~self.process.pid << 3 | 2)  # what clock_getcpuclockid(3) makes of a process

    def ask(self, texts: list[str], connections: int) -> list[dict[str, Any]]:
        """A prediction for each text, each in a request of its own."""

        def each(start: int) -> list[dict[str, Any]]:
            connection = HTTPConnection(self.place, timeout=600)
            try:
                return [answer(connection, text) for text in texts[start::connections]]
            finally:
                connection.close()

        with ThreadPoolExecutor(connections) as threads:
            parts = list(threads.map(each, range(connections)))
        return [parts[number % connections][number // connections] for number in range(len(texts))]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.said.close()


def answer(connection: HTTPConnection, text: str) -> dict[str, Any]:
    """The server's prediction of a text.

    Raises:
        InputError: it gives none.
    """
    body = json.dumps({"texts": [text]}).encode()
    connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    found = response.read()
    if response.status != 200:
        raise InputError(f"the server answered {response.status}: {found.decode(errors='replace')[:200]}")
    return json.loads(found)["predictions"][0]
