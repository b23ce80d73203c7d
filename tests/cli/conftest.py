"""Folders and a backbone that all command-line tests read."""

import pytest

from tests.folders import train, write_backbone, write_folder


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="session")
def backbone(place):
    return write_backbone(place / "backbone" / "model.pt")


@pytest.fixture(scope="session")
def pairs(place):
    return write_folder(place / "pairs")


@pytest.fixture(scope="session")
def singles(place):
    return write_folder(place / "singles", pairs=False)


@pytest.fixture(scope="session")
def trained(place, pairs, backbone):
    """(finished run, save folder) of four epochs of M-IDPG-PHM on pairs."""
    folder = place / "trained"
    return train(pairs, folder, "--backbone", backbone, "--max-epoch", 4), folder
