"""Folders and backbone of the command-line tests."""

from tests.cli.conftest import backbone, pairs, place  # noqa: F401
