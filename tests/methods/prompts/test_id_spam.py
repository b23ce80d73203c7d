"""ID-SPAM: self-attention over the tokens written out, one token at a time."""

import torch
import torch.nn.functional as F

from tests.contract import Row
from tests.methods.prompts.test_lpt import generator_and_bias, states_of
from tests.plain import plain_linear_of


def attended_mean(generator, x):
    if not generator.attention:
        return sum(x) / len(x)
    outputs, width = [], x.size(1)
    for token in x:
        scores = torch.stack([generator.query(token) @ generator.key(other) for other in x]) / width**0.5
        outputs.append(sum(share * generator.value(other) for share, other in zip(scores.softmax(0), x)))
    return sum(outputs) / len(x)


def by_hand(method, number, text):
    generator, bias = generator_and_bias(method, number)
    read = attended_mean(generator, states_of(text))
    rows = generator.up(F.relu(plain_linear_of(generator.down, read))).view(method.rows, -1)
    rows = rows if bias is None else rows + bias
    return F.relu(rows) if text.args.id_spam_output == "relu" else rows


CONTRACT = {
    "id-spam": Row(
        *(3_538_944, " ".join(f"generators.0.{name}.weight" for name in "down up query key value".split()), by_hand),
        variants=(
            {"generator_bias": "true", "id_spam_output": "linear"},
            {"generator_input": "states", "generator_sharing": "L", "prompt_layers": "all"},
            *({"generator_input": read, "id_spam_pooling": "mean"} for read in ("states", "words", "last")),
        ),
        published={"generator_dropout": 0.1, "id_spam_output": "relu", "generator_input": "words"},
    )
}
