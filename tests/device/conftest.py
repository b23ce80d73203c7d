"""Data and backbones of the steps."""

import pytest

from .steps import write_place


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    return write_place(tmp_path_factory.mktemp("device"))
