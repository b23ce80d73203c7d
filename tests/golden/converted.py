"""A converted checkpoint as a model, with the dictionary it was trained with."""

from __future__ import annotations

import argparse
from typing import Any

from fairseq.data import Dictionary

from fairseq_idpg.backbone.encoder import OpenRobertaEncoder
from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel


def load_converted(checkpoint: dict[str, Any], symbols: list[str]) -> RobertaIDPGModel:
    """In evaluation mode; strict."""
    dictionary = Dictionary()
    for symbol in symbols[dictionary.nspecial :]:
        dictionary.add_symbol(symbol)
    cfg = checkpoint["cfg"]
    args = argparse.Namespace(**{**cfg["model"], "max_positions": cfg["task"]["max_positions"]})
    model = RobertaIDPGModel(args, OpenRobertaEncoder(args, dictionary))
    model.register_classification_head("sentence_classification_head", num_classes=cfg["task"]["num_classes"])
    model.load_state_dict(checkpoint["model"], strict=True)
    return model.eval()
