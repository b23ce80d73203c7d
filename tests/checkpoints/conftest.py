"""Makes the helpers of these tests importable."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from checkpoints.hf_verify import hide_broken_torchaudio  # noqa: E402

hide_broken_torchaudio()  # transformers looks for it only once, when first imported
