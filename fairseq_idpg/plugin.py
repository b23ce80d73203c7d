"""What fairseq needs of this package: its task, model, criterion and optimizer, and the functions that are replaced."""

import argparse
import logging
from typing import Any

import numpy as np
import torch

# Some modules of fairseq turn on the messages of all libraries at import, unless the root logger has a handler.
_handler = logging.NullHandler()
logging.getLogger().addHandler(_handler)
try:
    from fairseq.criterions.sentence_prediction import pearson_and_spearman  # noqa: F401
except (ImportError, ValueError) as error:  # fairseq 0.12.2, which Python 3.11 and later cannot import
    if not (getattr(error, "name", None) or "fairseq").startswith("fairseq"):
        raise
    raise ImportError(
        f"fairseq_idpg needs fairseq-fixed 0.12.3.1, and the installed fairseq cannot be used ({error}): "
        "pip uninstall fairseq, then pip install --no-deps fairseq-fixed==0.12.3.1"
    ) from None
from fairseq.distributed.utils import _TensorPlaceholder  # noqa: E402

logging.getLogger().removeHandler(_handler)

# torch >= 2.6 reads only classes on this list; the protection stays on. Checkpoints hold argparse's Namespace
# (fairseq's RoBERTa), numpy's numbers (best F1 or correlation) and placeholders of tensors (sent to other processes).
_number = np.float64(0)
_safe: Any = [argparse.Namespace, _number.__reduce__()[0], np.dtype, type(_number.dtype), _TensorPlaceholder]
torch.serialization.add_safe_globals(_safe)

# fairseq imports tasks/ and models/ of a --user-dir only if the package was not imported before.
from . import criterions, models, optim, tasks  # noqa: E402, F401
from .training import fairseq_patches  # noqa: E402

fairseq_patches.install()
