"""DePT: a table and the pair that is added to the words."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
from tests.golden.golden2.case import Case
from tests.golden.golden2.family import Family, options_from, word_embeddings

OURS = {"lora_embedding_A": "method.words.a", "lora_embedding_B": "method.words.b"}

options = options_from("dept", prompt_length="s", words_rank="r", words_length="M", words_alpha="alpha")


def tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    pair = {ours: theirs[name] for name, ours in OURS.items()}
    return {"method.table": theirs["embedding.weight"][None], **pair}


def updated_words(model: RobertaIDPGModel, case: Case, passed: Any) -> dict[str, Tensor]:
    """B x T x d, the word embeddings with what is added to them."""
    words = word_embeddings(model, case)
    return {"updated_word_embeddings": words + model.method.words()[: words.size(1)]}


FAMILIES = (Family("dept", options, tensors, more=updated_words),)
