"""The golden files as cases: everything that a case is comes from its two files and the folder's backbone.

NAME__BATCH.npz holds the batch, what was trained, its gradients and the states; NAME__BATCH.json the settings. Slots
are the places of a sequence, those of the prompt included; B batch, T text tokens, S slots, t prompt rows, d width.
"""

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

SHARED = Path(__file__).parents[4] / "shared"
FOLDER, LATER = (Path(os.environ.get(f"{name.upper()}_DIR") or SHARED / name) for name in ("golden2", "golden3"))
HEADS = 4  # no tensor's shape tells
ARRANGED = "after_s"  # arrays of the same case with the prompt after <s> stand under this name in its file


@dataclass(frozen=True)
class Case:
    """One arrangement of one file.

    Attributes:
        name: that of the files; NAME/after_s for the other arrangement.
        hyper: the settings.
        cls_index: the slot of <s>.
        arrays: by their names in the file.
    """

    name: str
    hyper: dict[str, Any]
    cls_index: int
    arrays: dict[str, Tensor]

    @property
    def ids(self) -> Tensor:
        """B x T."""
        return self.arrays["ids"]

    @property
    def prompt_slots(self) -> Tensor:
        return self.arrays["prompt_slots"].long()

    @property
    def text_slots(self) -> Tensor:
        """The T slots of the text, in its order."""
        slots = torch.arange(self.ids.size(1) + len(self.prompt_slots))
        return slots[~torch.isin(slots, self.prompt_slots)]

    def real(self, slots: int) -> Tensor:
        """B x slots, true at real tokens and prompt rows, of a state with the prompt or without."""
        mask = self.arrays["mask"].bool()
        if slots == mask.size(1):
            return mask
        whole = torch.ones(len(mask), slots, dtype=torch.bool)
        whole[:, self.text_slots] = mask
        return whole

    def below(self, prefix: str) -> dict[str, Tensor]:
        """The arrays whose names begin with ``prefix``, without it."""
        return {name[len(prefix) :]: value for name, value in self.arrays.items() if name.startswith(prefix)}


@lru_cache(None)
def backbone() -> dict[str, Tensor]:
    """fairseq's names -> weights."""
    return _arrays(FOLDER / "backbone_fairseq_names.npz")


def sizes() -> dict[str, int]:
    """The backbone's sizes as options of the model."""
    stack, weights = "encoder.sentence_encoder.", backbone()
    inner, width = weights[stack + "layers.0.fc1.weight"].shape
    return {
        "encoder_layers": sum(name.endswith("fc1.weight") for name in weights),
        "encoder_embed_dim": width,
        "encoder_ffn_embed_dim": inner,
        "encoder_attention_heads": HEADS,
        "max_positions": len(weights[stack + "embed_positions.weight"]) - 2,
    }


def words() -> int:
    return len(backbone()["encoder.sentence_encoder.embed_tokens.weight"])


def names() -> list[str]:
    """Every case of the folder, each file's other arrangement after its own."""
    found = []
    for path in sorted([*FOLDER.glob("*__*.npz"), *LATER.glob("*__*.npz")]):
        with np.load(path) as file:
            arranged = any(name.startswith(f"{ARRANGED}/") for name in file.files)
        found += [path.stem, f"{path.stem}/{ARRANGED}"][: 1 + arranged]
    return found


def read(name: str) -> Case:
    stem, _, arranged = name.partition("/")
    folder = FOLDER if (FOLDER / f"{stem}.npz").is_file() else LATER
    meta = json.loads((folder / f"{stem}.json").read_text())
    case = Case(name, meta["hyper"], meta["cls_index"], _arrays(folder / f"{stem}.npz"))
    if entered := case.below("entered/"):  # what layers see, counted from 1; ``hidden`` is what leaves those below
        states = {f"hidden/{int(layer) - 1}": state for layer, state in entered.items()}
        arrays = {name: value for name, value in {**case.arrays, **states}.items() if name != "prompt"}
        case = Case(name, case.hyper, case.cls_index, arrays)
    if case.prompt_slots.dim() == 2:
        case = _rows_in_front(case)
    if not arranged:
        return case
    rows = torch.arange(1, 1 + len(case.prompt_slots))
    ours = case.below(f"{arranged}/")
    theirs = {name: value for name, value in case.arrays.items() if not name.startswith(("hidden/", "grad/"))}
    arrays = {**theirs, **ours, "prompt_slots": rows}
    arrays = {name: value for name, value in arrays.items() if not name.startswith("inputs_embeds")}
    return Case(name, case.hyper, 0, arrays)


def _rows_in_front(case: Case) -> Case:
    """The case with its tokens in our order, in which all prompt rows stand in front, wherever they moved."""
    rows, states = case.prompt_slots.size(1), case.below("hidden/")
    orders = []
    for moved, real in zip(case.arrays["moved"].int().tolist(), case.arrays["mask"].sum(1).int().tolist()):
        slots = list(range(states["0"].size(1)))
        behind = slots[real - 1 + rows - moved : real - 1 + rows]
        front = slots[: rows - moved]
        orders.append([*behind, *front, *(slot for slot in slots if slot not in behind + front)])
    order = torch.tensor(orders)[:, :, None]
    moved_states = {f"hidden/{i}": torch.take_along_dim(state, order, 1) for i, state in states.items()}
    # ``prompt`` lacks what moves rows, which the embeddings of ours have
    others = {name: value for name, value in case.arrays.items() if name != "prompt"}
    arrays = {**others, **moved_states, "prompt_slots": torch.arange(rows)}
    return Case(case.name, case.hyper, rows, arrays)


def _arrays(path: Path) -> dict[str, Tensor]:
    with np.load(path) as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}
