"""DePT: a table, and a pair of matrices whose product is added to the words."""

from tests.contract import Row
from tests.helpers import tiny_model
from tests.methods.prompts.test_task_prompts import by_hand

CONTRACT = {
    "dept": Row(
        98_560,
        "table words.a words.b",
        by_hand,
        added=lambda method: 8 / method.words.a.size(1) ** 0.5 * (method.words.a @ method.words.b),
    )
}


def test_a_starts_as_a_linear_does_and_b_at_0():
    """A is uniform in 1/sqrt(r)."""
    pair = tiny_model(method="dept", words_rank=4).method.words
    assert not pair.b.any() and 0.95 < pair.a.abs().max() * 2 <= 1
