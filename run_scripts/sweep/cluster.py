"""What executes the runs of a campaign."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

from ..run.experiment import Experiment
from ..run.records import Record


class Request(NamedTuple):
    """A run that is wanted, and what ``perform`` is to be told."""

    run: str
    experiment: Experiment
    results: Path
    keep_whole_model: bool

    @property
    def folder(self) -> Path:
        return self.results / "runs" / self.run


class Job(Protocol):
    """A run that was started."""

    def done(self) -> bool: ...

    def record(self) -> Record:
        """Of a job that is done: the run's record, or a failure."""

    def cancel(self) -> None: ...


class Cluster(Protocol):
    """What starts runs.

    Attributes:
        interval: seconds between looks at the jobs.
    """

    interval: float

    def start(self, request: Request) -> Job | None:
        """A job, or None where there is no room for one now."""
