"""Prompts of a task: a table, or what a network makes while it is trained and leaves folded."""

import pytest
import torch

from tests.contract import Row
from tests.folders import train, validate
from tests.helpers import logits, pair_batch, tiny_model
from tests.models.started import started
from tests.plain import plain_linear_of

WIDTH = 32


def plain_lstm(sequence, lstm, layer, suffix):
    """One direction of one layer, gate by gate (i, f, g, o)."""
    size = lstm.hidden_size
    w, u = getattr(lstm, f"weight_ih_l{layer}{suffix}"), getattr(lstm, f"weight_hh_l{layer}{suffix}")
    b, c = getattr(lstm, f"bias_ih_l{layer}{suffix}"), getattr(lstm, f"bias_hh_l{layer}{suffix}")
    hidden, cell, states = torch.zeros(size), torch.zeros(size), []
    for x in sequence:
        gates = w @ x + b + u @ hidden + c
        i, f, g, o = gates.split(size)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * cell.tanh()
        states.append(hidden)
    return states


def network_rows(network, kind):
    """What a reparameterization makes for each of the t rows, all places and halves in a line."""
    if kind == "low-rank":
        return [sum(a * b for a, b in zip(row, network.b)) for row in network.a]
    rows = list(network.embedding)
    for layer in range(2) if kind == "lstm" else ():
        forward = plain_lstm(rows, network.lstm, layer, "")
        backward = plain_lstm(rows[::-1], network.lstm, layer, "_reverse")[::-1]
        rows = [torch.cat(pair) for pair in zip(forward, backward)]
    squash = torch.tanh if kind == "prefix-mlp" else torch.relu
    linears = [layer for layer in network.mlp if isinstance(layer, torch.nn.Linear)]
    for linear in linears[:-1]:
        rows = [squash(plain_linear_of(linear, row)) for row in rows]
    return [plain_linear_of(linears[-1], row) for row in rows]


def by_hand(method, number, text):
    """The same rows for every input: of a table, or of a network, t keys and then t values where it makes both."""
    if method.reparameterization is None:
        return method.table[number]
    made = network_rows(method.reparameterization, str(text.args.prompt_reparameterization))
    made = [row.chunk(len(method.places))[number].chunk(method.rows // text.args.prompt_length) for row in made]
    return torch.stack([halves[i] for i in range(len(made[0])) for halves in made])


MLP = "embedding mlp.0.weight mlp.0.bias mlp.2.weight mlp.2.bias".split()
LSTM = [f"lstm.{kind}_{gate}_l{layer}{way}" for kind in ("weight", "bias") for gate in ("ih", "hh") for layer in (0, 1)
        for way in ("", "_reverse")]  # fmt: skip


def of_network(*names):
    return " ".join(f"reparameterization.{name}" for name in names)


CONTRACT = {
    "prompt-tuning": Row(5_120, "table", by_hand),
    "prompt-tuning-100": Row(102_400, "table", by_hand),
    "prompt-tuning-134": Row(137_216, "table", by_hand),
    "p-tuning-v2": Row(122_880, "table", by_hand),
    "p-tuning-v2-kv": Row(245_760, "table", by_hand),
    "p-tuning": Row(
        *(14_703_616, of_network(*MLP, *LSTM), by_hand),
        **{"folded": 5_120, "kept": "table"},
        variants=tuple({"prompt_reparameterization": kind} for kind in ("none", "mlp", "deep-mlp", "prefix-mlp")),
    ),
    "dpt": Row(11_240, of_network("a", "b"), by_hand, folded=102_400, kept="table"),
    "lpt-naive": Row(5_120, "table", by_hand, published={"prompt_init": "standard-normal"}),
}
KV = {"method": "p-tuning-v2-kv", "prompt_reparameterization": "prefix-mlp", "reparameterization_hidden_size": 7}


@pytest.mark.parametrize("options", [{"method": "p-tuning"}, KV], ids=["p-tuning", "keys and values"])
def test_evaluation_reads_the_folded_prompt(options):
    model = tiny_model(dropout=0.0, attention_dropout=0.0, **options).train()
    trained = logits(model, pair_batch())
    assert torch.allclose(logits(model.eval(), pair_batch()), trained, atol=1e-5)
    made = model.method.table.clone()
    with torch.no_grad():
        model.method.reparameterization.embedding.zero_()
    assert torch.equal(model.method.table, made)  # until the next switch to evaluation, or save
    assert not torch.equal(model.state_dict()["method.table"], made)


def test_folded_away_where_training_does_not_go_on(pairs, backbone, tmp_path):
    """--no-save-optimizer-state keeps t x d numbers, which validate as before and are trained on as a table alone."""

    def run(name, *options, **more):
        usual = ["--backbone", backbone, "--method", "p-tuning"]
        return train(pairs, tmp_path / name, *usual, *options, without="--phm-n", **more)

    folded = run("folded", "--max-epoch", 1, "--no-save-optimizer-state")
    checkpoint = tmp_path / "folded" / "checkpoint_last.pt"
    state = torch.load(checkpoint, weights_only=True)["model"]
    assert {key for key in state if key.startswith("method.")} == {"method.table"}
    checked = validate(pairs, checkpoint)
    assert checked.log("valid_loss") == pytest.approx(folded.log("valid_loss")[-1:], abs=1e-3)
    refused = run("folded", "--max-epoch", 2, succeed=False)
    assert "--finetune-from-model" in refused.last_line
    options = ["--finetune-from-model", checkpoint, "--prompt-reparameterization", "none"]
    run("on", *options, "--max-update", 1)


def test_the_factors_of_low_rank_start_as_the_released_ones():
    for factor in started("dpt", prompt_init="uniform").method.reparameterization.parameters():
        assert factor.abs().max() <= 0.5 and 0.2 < factor.std() < 0.38  # 0.289


def test_a_prompt_of_low_rank_starts_as_large_as_others():
    """A and B have other deviations at every rank."""
    for rank in (4, 64):
        network = tiny_model(method="dpt", reparameterization_hidden_size=rank).method.reparameterization
        assert network().std().item() == pytest.approx(0.02, rel=0.2)
