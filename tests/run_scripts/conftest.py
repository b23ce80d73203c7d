"""What the tests of runs and of sweeps share."""

from __future__ import annotations

import sys

import pytest

from tests.run_scripts.tiny import World


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("sweeps"))


@pytest.fixture(scope="module")
def quick_jobs(python):
    """The processes that a sweep starts, and theirs, start at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(python))
        yield
