"""fairseq's commands, called in this process: for all runs but those whose point is a process."""

import contextlib
import io
import logging
import os
import sys

import fairseq_cli.train
import fairseq_cli.validate
from fairseq import checkpoint_utils
from fairseq.logging import metrics

from fairseq_idpg.training import fairseq_patches, lock
from tests.command_line import ROOT, uncaught

COMMANDS = {"train": fairseq_cli.train, "validate": fairseq_cli.validate}


def call(tool: str, arguments: list[str]) -> tuple[int, str]:
    """``fairseq-TOOL arguments``: its exit status and all that it printed."""
    fairseq_patches.install()  # which a process of fairseq-train has imported before the plugin
    metrics.reset()  # of tests that step without a command
    output, folder = io.StringIO(), os.getcwd()
    os.chdir(ROOT)
    given, sys.argv = sys.argv, [f"fairseq-{tool}", *arguments]
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output), logged_to(output), uncaught():
            COMMANDS[tool].cli_main()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    finally:
        os.chdir(folder)
        sys.argv = given
        forget()
    return status, output.getvalue()


@contextlib.contextmanager
def logged_to(output: io.StringIO):
    """Messages go there alone, as fairseq's commands print them."""
    handler = logging.StreamHandler(output)
    handler.setFormatter(logging.Formatter("%(asctime)s | %(levelname)s | %(name)s | %(message)s"))
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    root.handlers = [handler]  # fairseq-validate puts one of its own in the place of what is there
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(level)


def forget() -> None:
    """Drop what fairseq and the plugin keep until a process ends."""
    metrics.reset()
    for function in (checkpoint_utils.save_checkpoint, fairseq_cli.train.should_stop_early):
        vars(function).clear()
    fairseq_patches.OwnRun.validated = None
    lock._leave_to_parent()
