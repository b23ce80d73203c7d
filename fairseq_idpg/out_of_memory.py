"""What happens when a model or a batch does not fit into memory: it ends with one line."""

import contextlib
import traceback
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from .errors import ModelFault

# of a GPU, by which words fairseq knows it too, of its libraries, and of a CPU
OUT_OF_MEMORY = ("out of memory", "STATUS_ALLOC_FAILED", "can't allocate memory")
ON_CPU = "(--cpu; in Python device='cpu')"
WITHOUT_GPU = f"free some of it, or do without the GPU {ON_CPU}"


@contextlib.contextmanager
def taking_memory(what: str, remedy: str) -> Iterator[None]:
    """Around what may not fit into memory: raise ModelFault for a RuntimeError that speaks of it.

    What was computed until then is let go.
    """
    try:
        yield
    except RuntimeError as error:
        if not any(words in str(error) for words in OUT_OF_MEMORY):
            raise
        traceback.clear_frames(error.__traceback__)
        reason = str(error).strip().splitlines()[0]
        raise ModelFault(f"{what} does not fit into memory ({reason}): {remedy}") from error


def refuse_batch(tokens: Tensor, remedy: str, where: str = "") -> contextlib.AbstractContextManager[None]:
    """Around a pass over B x T tokens; ``where``: what the line begins with."""
    rows, length = tokens.shape
    return taking_memory(f"{where}a batch of {rows} x {length} tokens", remedy)


def usual_device(cpu: bool) -> torch.device:
    """Return a GPU if there is one, but not with --cpu."""
    return torch.device("cpu" if cpu or not torch.cuda.is_available() else "cuda")


def put_on(device: torch.device, model: Any, what: str) -> Any:
    """Return the model, moved to the device; ``what``: its file, for errors."""
    with taking_memory(f"{what}: the model", WITHOUT_GPU):
        return model.to(device)


def refuse_to_skip(sample: dict[str, Any], update: int) -> contextlib.AbstractContextManager[None]:
    """End a run whose batch of ``sample`` does not fit into memory.

    fairseq warns ("attempting to recover from OOM"), leaves the batch out and goes on, so the longest examples are
    never trained on. ``InputError`` passes its ``except RuntimeError``; other processes are ended by what
    started them.
    """
    remedy = (
        "give --update-freq 2 and half the --batch-size (with --total-batch-size --update-freq 2 alone), which makes "
        "the same updates of smaller batches"
    )
    return refuse_batch(sample["net_input"]["src_tokens"], remedy, f"update {update + 1}: ")
