"""Questions of concurrent requests, answered together by one thread."""

import contextlib
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import InputError, ModelLost
from .questions import Question, Row, Served

BATCHES = 4  # of texts that are taken at a time: ``Predictor.predict`` sorts them by length together


class Unavailable(Exception):
    """A question cannot be taken now; the message says why."""


class Job(NamedTuple):
    """A question, where its answer goes, and since when it waits."""

    question: Question
    answer: "Future[list[Row]]"
    since: float


@dataclass
class Batcher:
    """A queue and the thread that empties it. What it has taken is answered, also after ``close``."""

    open_model: Callable[[], Served]  # reads the model, in the thread
    batch_size: int  # texts that the model runs together
    window: float  # seconds for which a question waits for others, also where the model is at rest
    limit: int  # texts that may wait; a question that finds the queue empty is taken whatever its size
    answered: Callable[[int], None] = lambda texts: None  # called with the number of texts that were answered together

    def __post_init__(self) -> None:
        self.served: Served | None = None
        self.error: BaseException | None = None
        self.jobs: deque[Job] = deque()
        self.waiting = 0  # texts of the jobs
        self.hurried = False
        self.closed = False
        self.condition = threading.Condition()

    def start(self, opened: Callable[[], None], ended: Callable[[], None]) -> None:
        """Start the thread; it calls ``opened`` once the model is there, ``ended`` when it takes no more questions."""
        self.thread = threading.Thread(target=self._work, args=(opened, ended), name="model")
        self.thread.start()

    def hurry(self) -> None:
        """Stop waiting for questions to answer together, although they are still taken."""
        with self.condition:
            self.hurried = True
            self.condition.notify()

    def close(self, drop: bool = False) -> None:
        """Take no more questions, and return when all are answered; ``drop``: those that wait are cancelled."""
        with self.condition:
            self.closed = True
            while drop and self.jobs:
                self.jobs.popleft().answer.cancel()
            self.condition.notify()
        self.thread.join()

    def ready(self) -> Served:
        """Return the model; raise Unavailable while it is loaded, and once the server ends."""
        if self.closed:
            raise Unavailable("the server is about to end")
        if self.served is None:
            raise Unavailable("the model is being loaded")
        return self.served

    def submit(self, question: Question) -> "Future[list[Row]]":
        """Queue a question; raise InputError where the model cannot answer it, Unavailable where the queue is full."""
        self.ready().check(question)
        job, size = Job(question, Future(), time.monotonic()), len(question.texts)
        with self.condition:
            self.ready()  # the server may have begun to end since
            if self.jobs and self.waiting + size > self.limit:
                raise Unavailable(f"{self.waiting} texts are waiting already, and {self.limit} may")
            self.jobs.append(job)
            self.waiting += size
            self.condition.notify()
        return job.answer

    def _work(self, opened: Callable[[], None], ended: Callable[[], None]) -> None:
        taken: list[Job] = []
        try:
            self.served = self.open_model()
            if not self.closed:
                opened()
            while taken := self._next():
                # Answer together questions that differ only in their texts; drop those of clients who hung up.
                groups: dict[tuple[Any, ...], list[Job]] = {}
                for job in taken:
                    if job.answer.set_running_or_notify_cancel():
                        groups.setdefault(job.question[1:], []).append(job)
                for group in groups.values():
                    self._answer(self.served, group)
        except BaseException as error:
            self.error = error
        finally:
            with self.condition:
                self.closed = True
            reason = "the model is lost, and " if isinstance(self.error, ModelLost) else ""
            for job in (*taken, *self.jobs):
                with contextlib.suppress(InvalidStateError):  # it has its answer, or was cancelled
                    job.answer.set_exception(Unavailable(f"{reason}the server is about to end"))
            ended()

    def _next(self) -> list[Job]:
        """Return the jobs that have waited longest; an empty list at the end."""
        together = BATCHES * self.batch_size
        with self.condition:
            self.condition.wait_for(lambda: self.jobs or self.closed)
            if self.jobs:
                left = self.jobs[0].since + self.window - time.monotonic()
                self.condition.wait_for(lambda: self.waiting >= together or self.hurried or self.closed, max(0, left))
            taken: list[Job] = []
            texts = 0
            while self.jobs and (not taken or texts + len(self.jobs[0].question.texts) <= together):
                taken.append(self.jobs.popleft())
                texts += len(taken[-1].question.texts)
            self.waiting -= texts
        return taken

    def _answer(self, served: Served, jobs: list[Job]) -> None:
        """Answer jobs that differ in their texts alone; if that fails, each half, down to the one that is at fault."""
        texts = [text for job in jobs for text in job.question.texts]
        try:
            rows = iter(served.answer(jobs[0].question._replace(texts=texts), self.batch_size))
        except ModelLost:  # every later question would meet it too
            raise
        except Exception as error:
            if len(jobs) == 1:
                return jobs[0].answer.set_exception(error)
            middle = len(jobs) // 2
            self._answer(served, jobs[:middle])
            return self._answer(served, jobs[middle:])
        self.answered(len(texts))
        for job in jobs:
            own = [*itertools.islice(rows, len(job.question.texts))]
            if own and all("error" in each for each in own):
                job.answer.set_exception(InputError(f"text 1: {own[0]['error']}"))
            else:
                job.answer.set_result(own)
