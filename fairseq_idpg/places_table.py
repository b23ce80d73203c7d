"""Which generator may stand at which place, tried out: a part of what ``options_table`` prints.

WHAT a prompt is and WHERE it enters are chosen apart; tests compare every pair that is not refused with a plain pass.
"""

from typing import Any

import torch

from preprocess.flags import flag_name

from .errors import InputError
from .methods.base import Geometry
from .methods.registry import find_preset
from .models.config import fill_method_options, open_options
from .models.prepare import check_method_effects

SIZES = Geometry(layers=3, width=64, inner=64)  # small: what is refused does not depend on them
INPUTS = ("states", "words", "embeddings", "last")
GENERATORS: list[dict[str, Any]] = [  # methods as they read something else, or are made in another way
    {"method": "prompt-tuning"},
    {"method": "spot"},
    {"method": "p-tuning"},
    {"method": "p-tuning", "prompt_reparameterization": "mlp"},
    {"method": "prefix-tuning"},
    {"method": "dpt"},
    {"method": "dept"},
    {"method": "ept", "prompt_init": "normal"},
    {"method": "mpt"},
    {"method": "smop"},
    {"method": "attempt"},
    {"method": "s-idpg-phm"},
    {"method": "s-idpg-phm", "representation": "mean-pooled"},
    {"method": "s-idpg-phm", "representation": "token-mean"},
    {"method": "m-idpg-phm"},
    {"method": "m-idpg-phm-glove", "representation_width": 300},
    *({"method": name, "generator_input": read} for name in ("lpt-npg", "lpt-mppg", "id-spam") for read in INPUTS),
]
PLACES: dict[str, tuple[str, ...]] = {  # --prompt-insertion -> --prompt-layers
    "add": ("first", "all"),
    "replace": ("all",),
    "key-value": ("first", "middle", "all"),
    "key-value-input": ("first", "middle", "all"),
    "late": ("first", "middle", "all"),
}
COLUMNS = [(insertion, layers) for insertion, chosen in PLACES.items() for layers in chosen]


def refusal(generator: dict[str, Any], insertion: str, layers: str, **more: Any) -> str | None:
    """The line with which a run of these options ends, None if it starts.

    Args:
        more: other options.
    """
    args: Any = open_options(**generator, prompt_insertion=insertion, prompt_layers=layers, **more)
    try:
        fill_method_options(args)
        with torch.device("meta"):
            check_method_effects(args, find_preset(args.method).build(args, SIZES))
    except InputError as error:
        return str(error)
    return None


def command(options: dict[str, Any]) -> str:
    """``lpt-npg --generator-input words``."""
    return " ".join([options["method"], *(f"{flag_name(n)} {v}" for n, v in options.items() if n != "method")])


def places_markdown() -> list[str]:
    """A row for each generator, a column for each place, and the lines of refusals below, numbered."""
    refusals: list[str] = []
    rows = ["| `--method` | " + " | ".join(f"`{insertion}` `{layers}`" for insertion, layers in COLUMNS) + " |"]
    rows.append("| --- |" + " --- |" * len(COLUMNS))
    for generator in GENERATORS:
        cells = []
        for place in COLUMNS:
            line = refusal(generator, *place)
            if line is not None and line not in refusals:
                refusals.append(line)
            cells.append("yes" if line is None else f"no ({refusals.index(line) + 1})")
        rows.append(f"| `{command(generator)}` | " + " | ".join(cells) + " |")
    return [*rows, "", *(f"{number}. `{line}`" for number, line in enumerate(refusals, 1))]
