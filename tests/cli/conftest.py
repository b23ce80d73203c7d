"""A folder and a run that all command-line tests read."""

import pytest

from tests.folders import train, write_folder


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="session")
def singles(place):
    return write_folder(place / "singles", pairs=False)


@pytest.fixture(scope="session")
def trained(place, pairs, backbone):
    folder = place / "trained"
    return train(pairs, folder, "--backbone", backbone, "--max-epoch", 4), folder
