"""--model-overrides: options of the model and the task, each of its type, and none that makes another model."""

from __future__ import annotations

import ast

import pytest

from fairseq_idpg.errors import InputError
from fairseq_idpg.training.overrides import parse_overrides

WRONG = {
    "{'backbone': 5}": "says --backbone 5, which is no str: give another",
    "{'method': 5}": "says --method 5, which is no str",
    "{'max_positions': 'x'}": "says --max-positions 'x', which is no int",
    "{'max_positions': 1000000000}": "says --max-positions 1000000000, which no model has",
    "{'model': {'method': 5}}": "says --method 5, which is no str",
    "{'_name': 'roberta'}": "'_name' is no option of the model or the task: leave it out",
    "{'bakbone': 'model.pt'}": "'bakbone' is no option of the model or the task",
    "{'task': {'backbone': 'model.pt'}}": "'backbone' is no option of the task",
    "{'model': {'bakbone': 'model.pt'}}": "'bakbone' is no option of the model: leave it out",
    "{'lora_alpha': 9}": "'lora_alpha' is what the model was trained with: leave it out",
    "{'method': 's-idpg-phm'}": "'method' is what the model was trained with",
    "{'model': {'pooler_activation_fn': 'relu'}}": "'pooler_activation_fn' is what the model was trained with",
    "print('never')": "is no dictionary",
    "{1: 2}": "1 is no option of the model or the task",
    "5": "is no dictionary",
    "": "is no dictionary",
}


@pytest.mark.parametrize("text", WRONG)
def test_overrides_that_no_model_takes(text):
    with pytest.raises(InputError) as error:
        parse_overrides(text)
    assert str(error.value).startswith(f"--model-overrides {text}") and WRONG[text] in str(error.value)


@pytest.mark.parametrize("sign", ["-", "("])
def test_overrides_too_deep_for_python(sign):
    with pytest.raises(InputError, match="is no dictionary"):
        parse_overrides(sign * 100_000)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{'backbone': 'x.pt', 'seed': 70000}",
        "{'model': {'dropout': 0}, 'prompt_position': 0}",
        "{'encoder_layers_to_keep': None}",
    ],
)
def test_overrides_as_fairseq_takes_them(text):
    assert parse_overrides(text) == ast.literal_eval(text)
    assert parse_overrides(None) == {}
