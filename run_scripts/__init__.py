"""The paper's experiments: one run (run/), many (sweep/), their tables and figures (report/), and a quick start."""

import logging
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

for name in ("fairseq.tasks.text_to_speech", "fairseq.utils"):  # what they say when imported is no concern of ours
    logging.getLogger(name).setLevel(logging.WARNING)
