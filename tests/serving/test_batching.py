"""Questions that wait are answered together; none is lost, and none suffers from another."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fairseq_idpg.serving.batching import BATCHES, Batcher, Unavailable
from fairseq_idpg.serving.questions import Question
from tests.command_line import until
from tests.serving.running import Stub


@pytest.fixture
def run():
    """(stub, ...) -> a batcher that has been started."""
    started = []

    def start(stub: Stub, window: float = 0) -> Batcher:
        opened = threading.Event()
        batcher = Batcher(lambda: stub, 4, window, limit=1000)
        batcher.start(opened.set, lambda: None)
        assert opened.wait(60)
        started.append((stub, batcher))
        return batcher

    yield start
    for stub, batcher in started:
        stub.may_answer.set()
        batcher.close()


def busy(stub: Stub, batcher: Batcher):
    first = batcher.submit(Question(["first"]))
    assert stub.asked.wait(60)
    return first


def test_what_waits_is_answered_together(run):
    stub = Stub(may_answer=False)
    batcher = run(stub)
    first = busy(stub, batcher)
    plain = [batcher.submit(Question([f"a{i}", f"b{i}"])) for i in range(3)]
    with_prompts = [batcher.submit(Question([f"c{i}"], prompts=True)) for i in range(2)]
    assert batcher.waiting == 8
    stub.may_answer.set()
    assert first.result(60) == [{"text": "first", "prompts": False}]
    for i, answer in enumerate(plain):
        assert [row["text"] for row in answer.result(60)] == [f"a{i}", f"b{i}"]
    for i, answer in enumerate(with_prompts):
        assert answer.result(60) == [{"text": f"c{i}", "prompts": True}]
    assert stub.calls == [1, 6, 2] and batcher.waiting == 0


def test_a_question_at_fault_fails_alone(run):
    stub = Stub(may_answer=False)
    batcher = run(stub)
    busy(stub, batcher)
    texts = ["a", "b", "fail 1", "c", "d", "fail 2", "e"]
    answers = [batcher.submit(Question([text])) for text in texts]
    stub.may_answer.set()
    for text, answer in zip(texts, answers):
        if text.startswith("fail"):
            assert str(answer.exception(60)) == text
        else:
            assert answer.result(60)[0]["text"] == text
    assert batcher.submit(Question(["z"])).result(60)


def test_a_model_that_is_lost_ends_it_and_nobody_waits():
    stub, ended = Stub(may_answer=False), threading.Event()
    batcher = Batcher(lambda: stub, 4, 0, 1000)
    batcher.start(lambda: None, ended.set)
    until(lambda: batcher.served is not None)
    first = busy(stub, batcher)
    answers = [batcher.submit(Question([text], prompts=text == "p")) for text in ("a", "lost", "p")]
    stub.may_answer.set()
    assert first.result(60) and ended.wait(60)
    batcher.close()
    assert str(batcher.error) == "lost"
    for answer in answers:  # those of one way are answered together
        kind = type(answer.exception(60))
        assert kind is Unavailable or (kind is type(None) and answer is answers[2])
    with pytest.raises(Unavailable):
        batcher.ready()


def test_questions_wait_for_others(run):
    """The window is longer than the test: a round begins because it is full, or because of hurry."""
    stub = Stub()
    batcher = run(stub, window=600)
    answers = [batcher.submit(Question(["x"])) for _ in range(4 * BATCHES)]
    assert all(answer.result(60) for answer in answers)
    answers = [batcher.submit(Question(["x"])) for _ in range(3)]
    batcher.hurry()
    assert all(answer.result(60) for answer in answers)
    assert stub.calls == [4 * BATCHES, 3]


def test_close_answers_what_was_taken(run):
    batcher = run(Stub(), window=600)
    answers = [batcher.submit(Question(["x"])) for _ in range(3)]
    batcher.close()
    assert all(answer.done() for answer in answers) and batcher.error is None
    with pytest.raises(Unavailable, match="about to end"):
        batcher.submit(Question(["y"]))


def test_close_in_a_hurry(run):
    stub = Stub(may_answer=False)
    batcher = run(stub)
    first = busy(stub, batcher)
    waiting = [batcher.submit(Question(["x"])) for _ in range(3)]
    with ThreadPoolExecutor(1) as other:
        closing = other.submit(batcher.close, drop=True)
        until(lambda: all(answer.cancelled() for answer in waiting))
        stub.may_answer.set()
        closing.result(60)
    assert first.result() and stub.calls == [1] and batcher.error is None
