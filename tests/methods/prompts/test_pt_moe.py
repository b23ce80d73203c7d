"""PT-MoE: the chosen factors written out; its noise is in test_smop.py."""

from tests.contract import Row


def by_hand(method, number, text):
    """The k best of the products times their shares."""
    shares = method.router(sum(text.words) / len(text.words)).softmax(0)
    best = sorted(range(len(shares)), key=lambda i: -shares[i])[: method.chosen]
    return sum(shares[i] * (method.a[number][i] @ method.b[number]) for i in best)


CONTRACT = {
    "pt-moe": Row(
        *(41_794, "a b router.weight router.bias", by_hand),
        variants=({"moe_experts": 3, "moe_chosen": 2, "moe_rank": 2}, {"prompt_layers": "all"}),
    )
}
