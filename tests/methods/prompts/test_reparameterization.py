"""Prompts made by a network while they are trained: equations, folding, checkpoints."""

from __future__ import annotations

import pytest
import torch

from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.prompts.initial import INITS
from tests.folders import train, validate, write_backbone, write_folder
from tests.helpers import enlarge, logits, pair_batch, tiny_model
from tests.methods.prompts.test_initial import words_of

LENGTH, WIDTH, LAYERS = 5, 32, 3
KV = {"method": "p-tuning-v2-kv", "prompt_reparameterization": "prefix-mlp", "reparameterization_hidden_size": 7}


def linear(x, module):
    return [sum(x[j] * module.weight[i, j] for j in range(len(x))) + module.bias[i] for i in range(len(module.bias))]


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


@torch.no_grad()
def test_lstm():
    network = tiny_model(method="p-tuning").method.reparameterization
    rows = list(network.embedding)
    for layer in range(2):
        forward = plain_lstm(rows, network.lstm, layer, "")
        backward = plain_lstm(rows[::-1], network.lstm, layer, "_reverse")[::-1]
        rows = [torch.cat(pair) for pair in zip(forward, backward)]
    expected = [linear(torch.stack(linear(row, network.mlp[0])).relu(), network.mlp[2]) for row in rows]
    assert torch.allclose(network(), torch.tensor(expected), atol=1e-5)


@torch.no_grad()
def test_mlp():
    network = tiny_model(method="p-tuning", prompt_reparameterization="mlp").method.reparameterization
    expected = [linear(torch.stack(linear(row, network.mlp[0])).relu(), network.mlp[2]) for row in network.embedding]
    assert torch.allclose(network(), torch.tensor(expected), atol=1e-5)


@torch.no_grad()
def test_deep_mlp():
    options = {"prompt_reparameterization": "deep-mlp", "reparameterization_hidden_size": 9}
    network = tiny_model(method="p-tuning", **options).method.reparameterization
    first, second, last = network.mlp[0], network.mlp[2], network.mlp[4]
    assert first.weight.shape == (9, WIDTH) and second.weight.shape == (9, 9) and last.weight.shape == (WIDTH, 9)
    hidden = [torch.stack(linear(row, first)).relu() for row in network.embedding]
    expected = [linear(torch.stack(linear(row, second)).relu(), last) for row in hidden]
    assert torch.allclose(network(), torch.tensor(expected), atol=1e-5)


@torch.no_grad()
def test_prefix_mlp_gives_every_layer_its_keys_and_values():
    method = tiny_model(**KV).method
    first, last = method.reparameterization.mlp[0], method.reparameterization.mlp[2]
    for row in range(LENGTH):
        hidden = torch.stack(linear(method.reparameterization.embedding[row], first)).tanh()
        out = torch.stack(linear(hidden, last)).view(LAYERS, 2, WIDTH)
        for layer in range(LAYERS):
            for half in range(2):
                made = method.made_rows(method.reparameterization)[layer, half * LENGTH + row]
                assert torch.allclose(made, out[layer, half], atol=1e-5)


@pytest.mark.parametrize("options", [{"method": "p-tuning"}, KV])
def test_evaluation_reads_the_folded_prompt(options):
    model = tiny_model(dropout=0.0, attention_dropout=0.0, **options).train()
    trained = logits(model, pair_batch())
    assert torch.allclose(logits(model.eval(), pair_batch()), trained, atol=1e-5)
    made = model.method.table.clone()
    now = model.method.made_rows(model.method.reparameterization)
    assert torch.allclose(now, made, atol=1e-6)  # torch rounds an LSTM otherwise for a gradient
    with torch.no_grad():
        model.method.reparameterization.embedding.zero_()
    assert torch.equal(model.method.table, made)  # until the next switch to evaluation, or save
    assert not torch.equal(model.state_dict()["method.table"], made)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("p-tuning")
    write_folder(folder / "data")
    write_backbone(folder / "model.pt")
    return folder


def run(place, save_dir, *options, **more):
    usual = ["--backbone", place / "model.pt", "--method", "p-tuning"]
    return train(place / "data", save_dir, *usual, *options, without="--phm-n", **more)


def keys(checkpoint):
    state = torch.load(checkpoint, weights_only=True)["model"]
    return {key for key in state if key.startswith("method.")}


def test_a_run_resumes_exactly(place, tmp_path):
    whole = run(place, tmp_path / "whole", "--max-epoch", 3)
    first, second = (run(place, tmp_path / "parts", "--max-epoch", epochs) for epochs in (1, 3))
    assert first.log("train_loss") + second.log("train_loss") == whole.log("train_loss")
    assert any("reparameterization" in key for key in keys(tmp_path / "whole" / "checkpoint_last.pt"))


def test_folded_away_where_training_does_not_go_on(place, tmp_path):
    """--no-save-optimizer-state keeps t x d numbers, which validate like the unfolded ones and cannot be resumed."""
    unfolded = run(place, tmp_path / "unfolded", "--max-epoch", 2)
    run(place, tmp_path / "folded", "--max-epoch", 2, "--no-save-optimizer-state")
    checkpoint = tmp_path / "folded" / "checkpoint_last.pt"
    assert keys(checkpoint) == {"method.table"}
    assert checkpoint.stat().st_size < (tmp_path / "unfolded" / "checkpoint_last.pt").stat().st_size / 2
    checked = validate(place / "data", checkpoint)
    assert checked.log("valid_loss") == pytest.approx(unfolded.log("valid_loss")[-1:], abs=1e-3)
    refused = run(place, tmp_path / "folded", "--max-epoch", 3, succeed=False)
    remedy = "--finetune-from-model and --prompt-reparameterization none in another --save-dir"
    assert "holds a folded prompt" in refused.last_line and remedy in refused.last_line
    options = ["--finetune-from-model", checkpoint, "--prompt-reparameterization", "none"]
    run(place, tmp_path / "on", *options, "--max-epoch", 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**KV, "reparameterization_hidden_size": 0}, "--reparameterization-hidden-size 0"),
        ({"method": "p-tuning", "reparameterization_hidden_size": 9}, "has no effect with --prompt-reparameterization"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        tiny_model(**options)


def test_a_start_value_that_the_network_would_hide():
    model = tiny_model(method="p-tuning", prompt_init="uniform")
    with pytest.raises(InputError, match="--prompt-init uniform: with --prompt-reparameterization the network"):
        model.method.set_initial_values(model.args, None)


def test_the_factors_of_low_rank_start_as_the_released_ones():
    model = tiny_model(method="dpt", prompt_init="uniform")
    model.method.set_initial_values(model.args, None)
    for factor in model.method.reparameterization.parameters():
        assert factor.abs().max() <= 0.5 and 0.2 < factor.std() < 0.38  # 0.289


def test_a_prompt_of_low_rank_starts_as_large_as_others():
    """A and B have other deviations at every rank."""
    for rank in (4, 64):
        network = tiny_model(method="dpt", reparameterization_hidden_size=rank).method.reparameterization
        assert network().std().item() == pytest.approx(0.02, rel=0.2)


def test_which_parameters_are_a_prompt():
    for method, count in (("p-tuning", 0), ("prompt-tuning", 1)):
        assert len(tiny_model(method=method).method.prompt_parameters()) == count


@pytest.mark.parametrize("init", [init for init in INITS if init not in ("normal", "saved")])
def test_a_network_makes_its_own_first_rows(init):
    model = tiny_model(method="p-tuning", prompt_init=init)
    with pytest.raises(InputError, match=f"--prompt-init {init}: with --prompt-reparameterization the network"):
        model.method.set_initial_values(model.args, words_of(model))


@pytest.mark.parametrize("method", ["p-tuning", "adapter+p-tuning"])
def test_a_folded_prompt_is_read_back_as_it_is(method):
    given, other = tiny_model(method=method), tiny_model(method=method)
    enlarge(given.method)
    given.train().eval()
    given.args.no_save_optimizer_state = True
    other.load_state_dict(given.state_dict())
    other.train().eval()
    for (name, value), kept in zip(given.method.named_buffers(), other.method.buffers()):
        assert torch.equal(value, kept), name
    with pytest.raises(InputError, match="holds a folded prompt without the network"):
        logits(other.train(), pair_batch())


@pytest.mark.parametrize("kind", ["lstm", "mlp", "deep-mlp", "prefix-mlp"])
def test_embeddings_are_drawn_with_deviation_1(kind):
    network = tiny_model(method="p-tuning", prompt_length=60, prompt_reparameterization=kind).method.reparameterization
    assert 0.9 < network.embedding.std() < 1.1
