"""EPT: both readings. Its network is there in training alone, so the method is in training mode."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
from tests.golden.golden2.case import Case
from tests.golden.golden2.family import Family, options_from, train_method, word_embeddings

NETWORK = "method.reparameterization."

options = options_from(
    "ept",
    prompt_length="s",
    words_rank="r",
    words_length="M",
    ept_hidden_size="h",
    ept_experts="N_e",
    ept_fusion="reading",
)


def tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    def of_experts(name: str) -> list[Tensor]:
        return [theirs[name.format(i)] for i in range(case.hyper["N_e"])]

    ours = {"method.words.a": theirs["A"], "method.words.b": theirs["B"], NETWORK + "rows": theirs["P_s"][None]}
    for part in ("down", "up"):
        ours[f"{NETWORK}experts.{part}"] = torch.stack(of_experts(f"expert.{{}}.{part}.weight")).transpose(1, 2)
        ours[f"{NETWORK}experts.{part}_bias"] = torch.stack(of_experts(f"expert.{{}}.{part}.bias"))[:, None]
    for part in ("weight", "bias"):
        ours[f"{NETWORK}experts.gate.{part}"] = torch.cat(of_experts(f"gate.{{}}.{part}"))
    return ours


def more(model: RobertaIDPGModel, case: Case, passed: Any) -> dict[str, Tensor]:
    """The parts of the prompt, folded and not, and the words."""
    method, words = model.method, word_embeddings(model, case)
    network, added = method.reparameterization, method.words()
    shown = {"P_f": network.fused(added)[0], "P_amend": network.experts(network.rows)[0], "AB": added}
    shown["gate"] = network.experts.gate(network.rows)[0].softmax(-1)
    method.fold()
    return {**shown, "P_new": method.table[0], "updated_word_embeddings": words + added[: words.size(1)]}


FAMILIES = (Family("ept", options, tensors, train_method, more),)
