"""ADePT: the change of each word written out, its count with the paper's setting."""

import torch

from tests.contract import Row
from tests.helpers import tiny_model

CONTRACT = {"adept": Row(101_395, "table down down_bias up up_bias", published={"prompt_length": 60, "adept_rank": 19})}


def test_each_word_is_changed_by_itself():
    method = tiny_model(method="adept", adept_rank=2).method
    for parameter in method.word_parameters():
        torch.nn.init.normal_(parameter)
    words = torch.randn(4, 3, method.width)
    for position, row in enumerate(words):
        for example, word in enumerate(row):
            hidden = [(word @ a + bias).clamp(min=0) for a, bias in zip(method.down.t(), method.down_bias)]
            expected = sum(h * b for h, b in zip(hidden, method.up)) + method.up_bias
            torch.testing.assert_close(method.change(words)[position, example], expected, atol=1e-5, rtol=0)
