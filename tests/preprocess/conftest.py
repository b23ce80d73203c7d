import pytest

from tests.preprocess.commands import Commands


@pytest.fixture
def commands(tmp_path, capsys):
    return Commands(tmp_path, capsys)
