"""Dynamic prompting: places and pool written out, the numbers of its noise."""

import torch

from tests.contract import Row
from tests.helpers import tiny_model


def by_hand(method, number, text):
    """The prompts times their shares."""
    prompts = method.table[number].chunk(method.prompts)
    if method.pool is None:
        return prompts[0]
    shares = method.pool(text.sentence).softmax(0)
    return sum(share * prompt for share, prompt in zip(shares, prompts))


def places(method, text, length):
    """Where each token of ours is among <s>, the rows that stay, the words, the rows that move, the last token."""
    t = method.prompt_length
    moving = 0 if method.position is None else int(method.position(text.sentence).relu().argmax())
    order = [0, *range(1 + moving, length - 1), *range(1, 1 + moving), length - 1]
    assert sorted(order) == list(range(length)) and moving <= t
    return [order.index(token) for token in range(length)]


POSITION = "position.weight position.bias"
READS = {"places": places, "straight_through": POSITION}
CONTRACT = {
    "dynamic-prompt": Row(
        *(42_005, f"table {POSITION}", by_hand),
        **READS,
        variants=({"dynamic_pool": 2}, {"dynamic_pool": 3, "prompt_layers": "all"}),
    ),
    "dynamic-prompt-pool": Row(
        *(107_545, f"table {POSITION} pool.weight pool.bias", by_hand),
        **READS,
        published={"prompt_init": "uniform", "dynamic_pool": 4},
    ),
}


def test_noise_is_of_gumbels_distribution():
    """When it is drawn: test_smop.py."""
    numbers = tiny_model(method="dynamic-prompt").method.draw(torch.zeros(20_000))
    found, expected = torch.stack([numbers.mean(), numbers.var()]), torch.tensor([0.577, 1.645])  # Euler's, pi^2 / 6
    torch.testing.assert_close(found, expected, atol=0.06, rtol=0)


def test_places_that_are_not_chosen():
    assert tiny_model(method="dynamic-prompt-pool", dynamic_position="false").method.slots == ("input",)
