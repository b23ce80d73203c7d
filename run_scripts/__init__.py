"""The paper's experiments: one run (run/), many (sweep/), their tables and figures (report/), submissions (submit.py).

And a quick start (quickstart.py): three methods on a small encoder, from nothing to a table.
"""

import logging
import os
from pathlib import Path

PARENT = __name__.rpartition("run_scripts")[0]  # "fairseq_idpg." in an installed package, see setup.py
ROOT = Path(__file__).resolve().parents[1 + PARENT.count(".")]  # the folder that holds fairseq_idpg

logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)  # on import: "install tensorboardX"


def module(name: str) -> str:
    """The full name of a module, for ``python -m``: ``preprocess`` is part of fairseq_idpg where that is installed."""
    return f"{PARENT}{name}"


def search_path() -> dict[str, str]:
    """The environment variable with which processes find this repository; an installed package is found without."""
    if PARENT:
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
