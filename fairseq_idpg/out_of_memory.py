"""End with one line where a model or a batch does not fit into memory."""

import contextlib
import traceback
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from .errors import ModelFault

# what torch says for a GPU (fairseq looks for the same words), for a GPU's libraries, and for a CPU
OUT_OF_MEMORY = ("out of memory", "STATUS_ALLOC_FAILED", "can't allocate memory")
ON_CPU = "(--cpu; in Python device='cpu')"
WITHOUT_GPU = f"free some of it, or do without the GPU {ON_CPU}"


@contextlib.contextmanager
def taking_memory(what: str, remedy: str) -> Iterator[None]:
    """Raise ModelFault for a RuntimeError that says that ``what`` does not fit into memory."""
    try:
        yield
    except RuntimeError as error:
        if not any(words in str(error) for words in OUT_OF_MEMORY):
            raise
        traceback.clear_frames(error.__traceback__)  # which would keep the tensors of the pass
        reason = str(error).strip().splitlines()[0]
        raise ModelFault(f"{what} does not fit into memory ({reason}): {remedy}") from error


def refuse_batch(tokens: Tensor, remedy: str, where: str = "") -> contextlib.AbstractContextManager[None]:
    """Guard a pass over B x T tokens; the error begins with ``where``."""
    rows, length = tokens.shape
    return taking_memory(f"{where}a batch of {rows} x {length} tokens", remedy)


def usual_device(cpu: bool) -> torch.device:
    """Return a GPU if there is one, unless --cpu is given."""
    return torch.device("cpu" if cpu or not torch.cuda.is_available() else "cuda")


def put_on(device: torch.device, model: Any, what: str) -> Any:
    """Return the model, moved to the device; errors name its file, ``what``."""
    with taking_memory(f"{what}: the model", WITHOUT_GPU):
        return model.to(device)
