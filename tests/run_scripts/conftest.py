"""What the tests of runs and of sweeps share."""

from __future__ import annotations

import pytest

from tests.run_scripts.tiny import World


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("sweeps"))
