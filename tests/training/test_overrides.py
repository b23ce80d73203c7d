"""--model-overrides: options of the model and the task, each of its type, and none that makes another model."""

from __future__ import annotations

import ast

import pytest

from fairseq_idpg.errors import InputError
from fairseq_idpg.training.overrides import parse_overrides

REFUSED = {
    "{'backbone': 5}": "--backbone 5",
    "{'max_positions': 1000000000}": "--max-positions 1000000000",
    "{'_name': 'roberta'}": "'_name'",
    "{'bakbone': 'model.pt'}": "'bakbone'",
    "{'task': {'backbone': 'model.pt'}}": "'backbone' is no option of the task",
    "{'model': {'pooler_activation_fn': 'relu'}}": "'pooler_activation_fn'",
    "print('never')": "--model-overrides",
    "": "--model-overrides",
    "-" * 100_000: "--model-overrides",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:40])
def test_refused(text):
    with pytest.raises(InputError, match=f"^--model-overrides .*{REFUSED[text]}" if text[:2] == "{'" else "^--model-o"):
        parse_overrides(text)


@pytest.mark.parametrize(
    "text",
    ["{}", "{'backbone': 'x.pt', 'seed': 70000}", "{'model': {'dropout': 0}, 'prompt_position': 0}"],
)
def test_taken(text):
    assert parse_overrides(text) == ast.literal_eval(text)
    assert parse_overrides(None) == {}
