"""Instance-dependent prompt generation (IDPG) for fairseq, loaded with ``--user-dir fairseq_idpg``.

Paper: "IDPG: An Instance-Dependent Prompt Generation Method" (Wu et al., NAACL 2022),
https://arxiv.org/abs/2204.04497

The way of the data: a *task* says where the prompt goes in each example, a *model* turns the example into a
*representation* M(x), a *method* turns that into prompt rows, adapters or whatever it injects, and the *backbone* takes
these through its open slots.

Shape legend used everywhere: B batch, T tokens, t prompt length, d width, m generator hidden size,
n PHM factor, L layers, H heads.
"""

import argparse
import logging
import os
import sys
from typing import Any

# Threads that spin while they wait slow each other down on a machine that others use too. OpenMP reads this once, when
# torch is loaded: fairseq-train has done that before it imports us, so there it must be set outside.
if "torch" not in sys.modules:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np  # noqa: E402
import torch  # noqa: E402

# Modules of fairseq that it imports itself turn on all messages of all libraries, unless somebody has set logging up.
_somebody = logging.NullHandler()
logging.getLogger().addHandler(_somebody)
try:
    from fairseq.criterions.sentence_prediction import pearson_and_spearman  # noqa: E402, F401
except (ImportError, ValueError) as error:  # fairseq 0.12.2; from Python 3.11 on it cannot even import its own options
    if not (getattr(error, "name", None) or "fairseq").startswith("fairseq"):
        raise
    raise ImportError(
        f"fairseq_idpg needs fairseq-fixed 0.12.3.1, and what is here as fairseq cannot be used ({error}): "
        "pip uninstall fairseq, then pip install --no-deps fairseq-fixed==0.12.3.1"
    ) from None
from fairseq.distributed.utils import _TensorPlaceholder  # noqa: E402

logging.getLogger().removeHandler(_somebody)

# fairseq's own RoBERTa checkpoints pickle one class besides tensors, and checkpoints chosen by F1 or a correlation
# hold numpy's numbers; a process that hands a checkpoint to others writes the number of a tensor in its place.
# torch >= 2.6 refuses unknown classes unless they are on this list; the protection stays on.
_number = np.float64(0)
_safe: Any = [argparse.Namespace, _number.__reduce__()[0], np.dtype, type(_number.dtype), _TensorPlaceholder]
torch.serialization.add_safe_globals(_safe)

# fairseq imports tasks/ and models/ of a --user-dir only if the package was not imported before.
from . import criterions, models, optim, tasks  # noqa: E402, F401
from .inference.load import load  # noqa: E402
from .models.roberta_idpg import RobertaIDPGModel  # noqa: E402
from .training import fairseq_patches  # noqa: E402

__all__ = ["RobertaIDPGModel", "load"]

fairseq_patches.install()
