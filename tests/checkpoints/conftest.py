"""The converter is a script with siblings, not a package: make it and the helpers importable."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parents[1] / "checkpoints"):
    sys.path.insert(0, str(folder))

import hf_verify  # noqa: E402

hf_verify.hide_broken_torchaudio()  # transformers looks for it only once, when first imported
