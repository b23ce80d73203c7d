"""Statuses, headers and limits of the server, around a model that is none."""

import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fairseq_idpg.serving.app import PAGE
from tests.command_line import until
from tests.serving.running import JSON, Stub, ask, counter, in_thread, predict


@pytest.fixture(scope="module")
def port():
    with in_thread(Stub()) as running:
        yield running.port


def test_a_fault_of_the_model_is_the_servers(port, caplog):
    """What it is stands in the log alone: it may name files."""
    answer = ask(port, "/predict", {"texts": ["a", "faulty"]})
    assert (answer.status, answer.error) == (500, "the server failed at this request: its log says how")
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == ["faulty"]


def test_a_lost_model_ends_the_server():
    with in_thread(Stub()) as running:
        answer = ask(running.port, "/predict", {"texts": ["lost"]})
        assert answer.status == 503 and answer.error.startswith("the model is lost")


def test_what_is_refused(port):
    sent = b'{"texts": ["a"]}'
    for status, named, answer in (
        (400, "JSON", ask(port, "/predict", b"{")),
        (400, "6 texts", ask(port, "/predict", {"texts": ["a"] * 6})),
        (404, "GET /x", ask(port, "/x")),
        (405, "GET /predict", ask(port, "/predict")),
        (405, "OPTIONS /predict", ask(port, "/predict", method="OPTIONS")),  # of a page of another site
        (413, "1000 bytes", ask(port, "/predict", b" " * 1001)),
        (415, "text/plain", ask(port, "/predict", sent, Content_Type="text/plain")),
        (421, "evil.example:8", ask(port, "/", Host="evil.example:8")),
        (421, "", ask(port, "/", Host="")),
    ):
        assert answer.status == status and named in answer.error
    assert ask(port, "/predict").headers["Allow"] == "POST"


def test_a_body_of_unknown_length_is_limited_too(port):
    parts = [b'{"texts": ["a"', b"," * 400, b"," * 700, b"]}"]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/predict", iter(parts), JSON, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


def test_headers_of_every_answer(port):
    for answer in (*(ask(port, path) for path in PAGE), ask(port, "/x"), ask(port, "/predict", {"texts": ["fail"]})):
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';") and "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in answer.headers
    assert ask(port, "/page.js").headers["Content-Type"].startswith("text/javascript")


def test_any_host_may_be_allowed():
    with in_thread(Stub(), hosts=None) as running:
        assert ask(running.port, "/health", Host="evil.example").status == 200
    with in_thread(Stub(), hosts={"::1", "box"}) as running:
        for host, status in {"[::1]:8000": 200, "BOX": 200, "box.": 421, "box@evil": 421, "[x": 421}.items():
            assert ask(running.port, "/health", Host=host).status == status


def test_ready_once_the_model_is_loaded():
    may_load = threading.Event()

    def load() -> Stub:
        assert may_load.wait(60)
        return Stub()

    with in_thread(load, wait=False) as running:
        for answer in (ask(running.port, "/health"), ask(running.port, "/predict", {"texts": ["a"]})):
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            assert answer.error == "the model is being loaded: ask again"
        assert ask(running.port, "/").status == ask(running.port, "/metrics").status == 200
        may_load.set()
        assert running.opened.wait(60)
        assert ask(running.port, "/health").status == 200 and predict(running.port, ["a"])


def test_a_full_queue():
    stub = Stub(may_answer=False)
    with in_thread(stub, limit=3) as running, ThreadPoolExecutor(2) as clients:
        asked = [clients.submit(predict, running.port, ["a"])]
        assert stub.asked.wait(60)
        asked.append(clients.submit(predict, running.port, ["a", "b", "c"]))
        until(lambda: counter(running.port, "queue_texts") == 3)
        full = ask(running.port, "/predict", {"texts": ["d"]})
        assert (full.status, full.headers["Retry-After"]) == (503, "1") and "3 texts are waiting" in full.error
        stub.may_answer.set()
        assert [len(answer.result(60)) for answer in asked] == [1, 3]
        assert counter(running.port, 'requests_total{path="/predict",status="503"}') == 1


def test_whoever_hangs_up_is_forgotten():
    stub = Stub(may_answer=False)
    with in_thread(stub) as running, ThreadPoolExecutor(1) as clients:
        first = clients.submit(predict, running.port, ["a"])
        assert stub.asked.wait(60)
        body = json.dumps({"texts": ["gone"]}).encode()
        connection = http.client.HTTPConnection("127.0.0.1", running.port)
        connection.request("POST", "/predict", body, JSON)
        until(lambda: counter(running.port, "queue_texts") == 1)
        connection.close()
        until(lambda: counter(running.port, 'requests_total{path="/predict",status="499"}') == 1)
        stub.may_answer.set()
        assert first.result(60) and predict(running.port, ["b"])
        assert stub.calls == [1, 1]


def test_metrics():
    with in_thread(Stub()) as running:
        for texts in (["a"], ["b", "c", "d"]):
            predict(running.port, texts)
        ask(running.port, "/predict", {"texts": "a"})
        ask(running.port, "/some/path")
        seen = ask(running.port, "/metrics")
        assert seen.headers["Content-Type"].startswith("text/plain; version=")
        for name, value in (
            ('requests_total{path="/predict",status="200"}', 2),
            ('requests_total{path="other",status="404"}', 1),
            ("texts_total", 4),
            ('together_texts_bucket{le="1.0"}', 1),
            ("together_texts_sum", 4),
            ("queue_texts", 0),
        ):
            assert counter(running.port, name) == value, name
