import pytest

from tests.preprocess.commands import Commands
from tests.preprocess.glove_data import data, vectors, vocab  # noqa: F401 (fixtures)


@pytest.fixture
def commands(tmp_path, capsys):
    return Commands(tmp_path, capsys)
