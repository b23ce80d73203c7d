"""Instance-dependent prompt generation (IDPG) for fairseq, loaded with ``--user-dir fairseq_idpg``.

Paper: "IDPG: An Instance-Dependent Prompt Generation Method" (Wu et al., NAACL 2022),
https://arxiv.org/abs/2204.04497

The way of the data: a *task* says where the prompt goes in each example, a *model* turns the example into a
*representation* M(x), a *method* turns that into prompt rows, adapters and the like, and the frozen *backbone* takes
these through its open slots.

Shape legend used everywhere: B batch, T tokens, t prompt length, d width, m generator hidden size,
n PHM factor, L layers, H heads.
"""

import argparse
import logging
import os
import sys
from typing import Any

# On a shared machine threads that spin while they wait slow each other down. OpenMP reads this when torch is loaded,
# which fairseq-train does before it imports this package: there it must be set outside.
if "torch" not in sys.modules:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np  # noqa: E402
import torch  # noqa: E402

# Some modules of fairseq turn on the messages of all libraries at import, unless the root logger has a handler.
_handler = logging.NullHandler()
logging.getLogger().addHandler(_handler)
try:
    from fairseq.criterions.sentence_prediction import pearson_and_spearman  # noqa: E402, F401
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
from .in_python import train as train  # noqa: E402
from .inference.load import load  # noqa: E402
from .models.roberta_idpg import RobertaIDPGModel  # noqa: E402
from .training import fairseq_patches  # noqa: E402

__all__ = ["RobertaIDPGModel", "load"]

fairseq_patches.install()
