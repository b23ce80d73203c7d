"""Settings of the whole suite."""

import contextlib
import os
from pathlib import Path

import pytest

from tests.warm import warm_python

# Two threads that spin while they wait slow each other down on a busy machine; results are the same.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ["FAIRSEQ_IDPG_CACHE"] = "off"  # the user's own is none of the tests'
os.environ.setdefault("OMP_NUM_THREADS", "1")

with contextlib.suppress(ImportError):  # the checks on a GPU's machine do without
    from hypothesis import settings

    settings.register_profile("untimed", deadline=None)  # a machine may be busy
    settings.load_profile("untimed")

HERE = Path(__file__).parent
QUICK = {"backbone", "criterions", "golden", "methods", "models", "optim", "representations", "tasks"}
LONGEST = {"test_benchmarks.py", "test_readme.py", "test_real.py"}
STARTS_PROCESSES = {"train", "validate", "run", "subprocess"}


@pytest.fixture(scope="session")
def python(tmp_path_factory):
    """A python for shell commands that starts at once (tests/warm)."""
    with warm_python(tmp_path_factory.mktemp("bin")) as made:
        yield made


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    """A data folder that no test changes, as ``backbone`` below."""
    from tests.folders import write_folder

    return write_folder(tmp_path_factory.mktemp("data") / "pairs")


@pytest.fixture(scope="session")
def backbone(tmp_path_factory):
    from tests.folders import write_backbone

    return write_backbone(tmp_path_factory.mktemp("backbone") / "model.pt")


@pytest.fixture
def own_backbone(tmp_path):
    """A backbone that a test may change."""
    from tests.folders import write_backbone

    return write_backbone(tmp_path / "model.pt")


@pytest.fixture
def double_precision():
    import torch

    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def pytest_ignore_collect(collection_path, config):
    """With ``-m quick`` the other folders are not even imported."""
    other = collection_path.parent == HERE and collection_path.is_dir() and collection_path.name not in QUICK
    return True if other and config.option.markexpr == "quick" else None


def pytest_collection_modifyitems(items):
    """Marks as ``quick`` the folders QUICK, but for files that have a name of STARTS_PROCESSES.

    The LONGEST files go first, so that of several processes none is left with one at the end.
    """
    items.sort(key=lambda item: item.path.name not in LONGEST)
    for item in items:
        folder = item.path.relative_to(HERE).parts[0]
        if folder in QUICK and not STARTS_PROCESSES & vars(item.module).keys():
            item.add_marker("quick")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """What a test has logged of a name that is not UTF-8 could not be sent to the process that shows the reports."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report
