"""Checkpoints of other tasks' prompts, for the methods that start from them."""

import tempfile
from pathlib import Path

import torch

from fairseq_idpg.methods.prompts.base import PromptMethod
from fairseq_idpg.saving.tensors import EXTRA_STATE, FINGERPRINT, carry_checksum
from tests.helpers import TINY

GIVEN = tempfile.TemporaryDirectory()
ROWS, WIDTH = 3, TINY["encoder_embed_dim"]
NO_BACKBONE = torch.zeros(32, dtype=torch.uint8)  # of models without one


def write_source(
    path: Path, rows: torch.Tensor, insertion="add", layers="first", fingerprint=NO_BACKBONE, **others: torch.Tensor
) -> str:
    """A checkpoint with the prompt ``rows`` (places x rows x d), and ``others`` of its method beside."""
    state = {f"method.{name}": value for name, value in {"table": rows, **others}.items()}
    state |= {FINGERPRINT: fingerprint, EXTRA_STATE: {}}
    carry_checksum(state)
    options = {"_name": "roberta_idpg", "prompt_insertion": insertion, "prompt_layers": layers}
    torch.save({"args": None, "cfg": {"model": options}, "model": state}, path)
    return str(path)


def drawn(seed: int, places: int = 1) -> torch.Tensor:
    return torch.randn(places, ROWS, WIDTH, generator=torch.Generator().manual_seed(seed))


def give_sources(model) -> None:
    """Lets a model's options name sources of its method's shape, if it starts from some and none are named."""
    for method in model.method.modules() if model.method is not None else ():
        if isinstance(method, PromptMethod) and getattr(model.args, "source_prompts", None) == "":
            count = len(getattr(method, "sources", [None]))
            shape = (len(method.places), method.rows, model.args.encoder_embed_dim)
            place, draw = (method.insertion, ",".join(map(str, method.places))), torch.Generator().manual_seed(1)
            name = "-".join(map(str, (*shape, method.insertion, *method.places)))
            model.args.source_prompts = ",".join(
                write_source(Path(GIVEN.name) / f"{name}-{i}.pt", 0.02 * torch.randn(shape, generator=draw), *place)
                for i in range(count)
            )
