"""Data and backbones of the steps."""

from __future__ import annotations

import pytest

from .steps import write_place


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    return write_place(tmp_path_factory.mktemp("device"))
