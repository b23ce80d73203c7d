"""What the tests of runs and of sweeps share."""

import sys

import pytest

from run_scripts.run.experiment import Experiment
from run_scripts.sweep.jobs import perform_quietly
from run_scripts.sweep.stages import CLUSTERS
from tests.run_scripts.tiny import Ended, World


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("sweeps"))


@pytest.fixture
def rte(world) -> Experiment:
    return Experiment("RTE", "m-idpg-phm", 1e-3, 1, str(world.data / "RTE-bin"), str(world.backbone))


@pytest.fixture(scope="module")
def quick_jobs(python):
    """The processes that a sweep starts, and theirs, start at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(python))
        yield


class InProcess:
    """A cluster whose jobs are done when they have been started: only fairseq-train is another process."""

    interval = 0.0

    def __init__(self, *_):
        pass

    def start(self, request):
        return Ended(perform_quietly(*request[1:]))


@pytest.fixture(scope="module")
def in_process(quick_jobs):
    """Sweeps make their runs in the process of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(CLUSTERS, "local", InProcess)
        yield
