"""``python -m fairseq_idpg.serve`` in a process, asked through sockets."""

import asyncio
import json
import socket
import sys

import pytest

from fairseq_idpg import load, serve
from tests.inference.conftest import texts
from tests.serving.running import Command, ask, command, predict

SENTENCES = [parts[0] for parts in texts(40, 1, seed=7)]


@pytest.fixture(scope="module")
def one(checkpoints):
    with command("--path", checkpoints["singles"]) as running:
        yield running.port


@pytest.fixture(scope="module")
def two(checkpoints):
    with command("--path", *(f"{kind}={path}" for kind, path in checkpoints.items())) as running:
        yield running.port


def test_answers_are_those_of_predict(one, checkpoints):
    expected = load(checkpoints["singles"], device="cpu").predict(SENTENCES, prompts=True, words=3)
    found = predict(one, SENTENCES, prompts=True, words=3)
    assert [row["sentence"] for row in found] == SENTENCES
    for row, prediction in zip(found, expected):
        assert row["label"] == prediction.label and row["probability"] == row["probabilities"][row["label"]]
        assert row["probabilities"] == pytest.approx(prediction.probabilities, abs=1e-6)
        assert row["prompt_layers"] == [row.layer for row in prediction.prompts]
        near = [[(word["word"], pytest.approx(word["cosine"], abs=1e-5)) for word in row] for row in row["prompts"]]
        assert [row.words for row in prediction.prompts] == near
    assert len({row["probability"] for row in found}) > 10  # texts matter


def test_what_the_model_refuses(one):
    for asked, message in (
        ({"texts": ["", 3]}, "text 1: "),
        ({"texts": ["a"], "tasks": ["pairs"]}, "task pairs is not served: choose among singles"),
    ):
        answer = ask(one, "/predict", asked)
        assert answer.status == 400 and message in answer.error
    assert predict(one, ["a"], tasks=["singles"]) == predict(one, ["a"])


def test_bad_texts_are_told_and_the_others_answered(one):
    first, empty, number, pair, last, long = predict(one, ["red", " ", 3, ["a", "b"], "cat", "b " * 99])
    assert [first, last] == predict(one, ["red", "cat"])
    assert empty == {"error": "the sentence is empty: give text"} and "not a string" in number["error"]
    assert "pair" in pair["error"] and "197 tokens" in long["error"]


def test_a_text_that_was_cut_is_answered_so(checkpoints):
    with command("--path", checkpoints["singles"], "--truncate") as running:
        whole, cut = predict(running.port, ["red cat", "cat " * 40])
    assert cut["cut"] is True and "cut" not in whole


def test_several_tasks(two, checkpoints):
    many = load({kind: path for kind, path in checkpoints.items()}, device="cpu")
    pair = [["red", "cat"]]
    for asked, tasks in ((SENTENCES[:3], "singles"), (pair, ["pairs"])):
        found, expected = predict(two, asked, tasks=tasks), many.predict(asked, tasks)
        for row, answers in zip(found, expected):
            assert row["tasks"].keys() == answers.keys()
            for name, answer in answers.items():
                assert row["tasks"][name]["probabilities"] == pytest.approx(answer.probabilities, abs=1e-6)
    (shown,) = predict(two, ["red"], tasks="singles", prompts=True)
    assert shown["tasks"]["singles"]["prompts"] and shown["sentence"] == "red"
    served = {task["task"]: task for task in ask(two, "/tasks").value["tasks"]}
    found = {name: (task["reads"], task["prompts"]) for name, task in served.items()}
    assert found == {"singles": (["sentence"], True), "pairs": (["pair"], False)}
    refused = ask(two, "/predict", {"texts": pair, "tasks": "pairs", "prompts": True})
    assert refused.status == 400 and "task pairs: prompts: --method lora has no prompt rows" in refused.error


def request(text: str) -> bytes:
    body = json.dumps({"texts": [text]}).encode()
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\nConnection: close\r\n\r\n".encode() + body


def test_what_was_accepted_is_answered_before_the_end(checkpoints):
    """Requests that have just been sent, and would wait for others for longer than the test does."""
    running = Command("--path", checkpoints["singles"], "--window", 60000, "--port", 0)

    async def ask_and_stop() -> list[bytes]:
        opened = [await asyncio.open_connection("127.0.0.1", running.port) for _ in range(60)]
        for _, writer in opened:
            writer.write(request("red cat"))
        running.interrupt()
        return await asyncio.wait_for(asyncio.gather(*(reader.read() for reader, _ in opened)), 45)

    answers = asyncio.run(ask_and_stop())
    assert all(answer.startswith(b"HTTP/1.1 200 OK") and answer.endswith(b"}]}") for answer in answers)
    assert running.ended() == 0 and "Traceback" not in running.said
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", running.port))


def test_it_listens_on_loopback(one):
    for host in (f"localhost:{one}", f"127.0.0.1:{one}", f"[::1]:{one}"):
        assert ask(one, "/health", Host=host).status == 200
    assert ask(one, "/tasks", Host="rebound.example").status == 421
    with serve.bind("127.0.0.1", 0) as bound:
        usual = {"localhost", "127.0.0.1", "::1"}
        assert serve.allowed_hosts(bound, "127.0.0.1", []) == usual
        assert serve.allowed_hosts(bound, "localhost", ["Box"]) == {*usual, "box"}
    with serve.bind("0.0.0.0", 0) as bound:
        assert serve.allowed_hosts(bound, "0.0.0.0", []) is None
        assert serve.allowed_hosts(bound, "0.0.0.0", ["Box"]) == {"box", "0.0.0.0"}
        assert serve.url_of(bound) == f"http://0.0.0.0:{bound.getsockname()[1]}"


def test_a_checkpoint_that_cannot_be_loaded(tmp_path):
    (tmp_path / "no.pt").touch()
    running = Command("--path", tmp_path / "no.pt", "--port", 0)
    assert running.port == 0 and running.ended() == 1
    assert running.said.splitlines()[-1].startswith(f"fairseq_idpg: --path {tmp_path / 'no.pt'} is not a fairseq")
    assert "Traceback" not in running.said


def test_bad_input(one, monkeypatch):
    for options, named in (
        (["--port", one], f"--host 127.0.0.1 --port {one}: "),
        (["--port", 70000], "--port 70000"),
        (["--batch-size", 0], "--batch-size 0"),
        (["--window", "nan"], "--window nan"),
    ):
        with pytest.raises(SystemExit, match=named):
            serve.main(["--path", __file__, *map(str, options)])
    for name in [name for name in sys.modules if name.startswith("fairseq_idpg.serving")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    with pytest.raises(SystemExit, match="the server needs starlette.*: pip install .* starlette uvicorn"):
        serve.main(["--path", __file__, "--port", "0"])
