"""LPT: a table, or a generator that reads the states below, whose rows join after layer k (our place k)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tests.golden.golden2.case import Case
from tests.golden.golden2.family import Family


def options(case: Case) -> dict[str, Any]:
    hyper = case.hyper
    given = {"prompt_length": hyper["t"], "prompt_layers": str(hyper["k"])}
    if hyper["generator"] is None:
        return {"method": "lpt-naive", **given}
    return {"method": f"lpt-{hyper['generator'].lower()}", "generator_hidden_size": hyper["m"], **given}


def tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    if case.hyper["generator"] is None:
        return {"method.table": theirs["prompt_embedding.weight"][None]}
    generator = {name.removeprefix("prompt_generator.proj_"): value for name, value in theirs.items()}
    bias = generator.pop("up.bias").view(1, -1, generator["down.weight"].size(1))
    return {"method.bias": bias, **{f"method.generators.0.{name}": value for name, value in generator.items()}}


FAMILIES = (Family("lpt", options, tensors),)
