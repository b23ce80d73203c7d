"""ATTEMPT: whose prompts are mixed, where its own starts, and what its checkpoints keep."""

from __future__ import annotations

import math

import pytest
import torch

from fairseq_idpg.backbone.injection import States
from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.base import WordEmbeddings
from fairseq_idpg.models.prepare import check_method_effects
from tests.folders import same_tensors, train, validate, write_backbone, write_folder
from tests.helpers import enlarge, tiny_model
from tests.sources import write_source

ROWS, WIDTH = 3, 32


def drawn(seed):
    return torch.randn(1, ROWS, WIDTH, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def paths(tmp_path):
    return [write_source(tmp_path / f"{seed}.pt", drawn(seed)) for seed in range(3)]


def started(**options):
    model = tiny_model(method="attempt", **{"prompt_length": ROWS, **options})
    model.method.set_initial_values(
        model.args, WordEmbeddings(model.encoder.sentence_encoder.embed_tokens.weight, 4, list)
    )
    check_method_effects(model.args, model.method)
    return model.method


def test_sources_are_frozen_and_the_first_starts_the_tasks_own(paths):
    method = started(source_prompts=", ".join(paths))
    assert torch.equal(method.sources, torch.stack([drawn(seed) for seed in range(3)]))
    assert torch.equal(method.table, drawn(0)) and not method.sources.requires_grad
    own = started(source_prompts=",".join(paths), attempt_init="own", prompt_init="uniform").table
    assert own.abs().max() <= 0.5


@torch.no_grad()
def test_weights_are_each_inputs_own_and_add_up():
    """With one source and T = 1; the temperature makes them even."""
    method = tiny_model(method="attempt", prompt_length=ROWS, attempt_temperature="1", attempt_sources=4).method
    enlarge(method)
    states = States(torch.randn(7, 20, WIDTH), torch.arange(7) >= torch.randint(1, 8, (20, 1)))
    weights = method.weights(states, method.prompts())
    assert weights.shape == (20, 5)
    torch.testing.assert_close(weights.sum(1), torch.ones(20))
    assert weights.std(0).min() > 1e-3
    rows = method.begin_pass(None)(0, states)
    for i in range(20):
        real = states.x[~states.padding[i], i : i + 1]
        torch.testing.assert_close(method.weights(States(real), method.prompts())[0], weights[i])
        mixed = sum(w * p[0] for w, p in zip(weights[i], [*method.sources, method.table]))
        torch.testing.assert_close(rows[i], method.table[0] + mixed)
    method.temperature = 1e6
    torch.testing.assert_close(method.weights(states, method.prompts()), torch.full((20, 5), 0.2), atol=1e-4, rtol=0)


def test_the_attention_network_starts_as_the_released_one():
    method = tiny_model(method="attempt", max_positions=160).method
    for linear in (method.down, method.up):
        assert linear.weight.std().item() == pytest.approx(0.01, rel=0.1) and linear.bias is None


def test_temperature():
    """The released configuration has 2087 for T5-base."""
    assert int(tiny_model(method="attempt", encoder_embed_dim=768, max_positions=160).method.temperature) == 2087
    assert tiny_model(method="attempt", max_positions=160).method.temperature == math.e * WIDTH
    assert tiny_model(method="attempt", max_positions=160, attempt_temperature="50").method.temperature == 50
    for text in ("0", "-1", "warm", "nan", "inf"):
        with pytest.raises(InputError, match=f"--attempt-temperature {text}: give auto or a number above 0"):
            tiny_model(method="attempt", attempt_temperature=text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"attempt_sources": 3},
            "--method attempt mixes other tasks' prompts: give their checkpoints",
        ),
        ({"sources": 2, "attempt_sources": 3}, "--attempt-sources 3: --source-prompts names 2: leave the number out"),
        ({"attempt_sources": 0}, "--attempt-sources 0: give 1 or more"),
        ({"attempt_hidden_size": 0}, "--attempt-hidden-size 0 is no size"),
        (
            {"sources": 2, "prompt_init": "uniform"},
            "--prompt-init uniform has no effect: the first",
        ),
    ],
)
def test_bad_options(paths, options, message):
    count = options.pop("sources", 0)
    with pytest.raises(InputError, match=message):
        started(**options, **({"source_prompts": ",".join(paths[:count])} if count else {}))


def test_another_tasks_network_is_taken_over_with_its_sources(paths, tmp_path):
    """--prompt-init saved; other sources may be given with it."""
    given = started(source_prompts=",".join(paths[:2]))
    enlarge(given)
    state = {f"method.{name}": value for name, value in given.state_dict().items()}
    torch.save({"args": None, "cfg": {"model": {}}, "model": state}, tmp_path / "x.pt")
    saved = {"prompt_init": "saved", "prompt_init_from": str(tmp_path / "x.pt")}
    assert same_tensors(started(attempt_sources=2, **saved).state_dict(), given.state_dict())
    with pytest.raises(InputError, match="--attempt-init own has no effect: --prompt-init saved takes the task's own"):
        started(attempt_sources=2, **saved, attempt_init="own")
    other = started(source_prompts=",".join(paths[1:]), **saved)
    assert torch.equal(other.sources, torch.stack([drawn(1), drawn(2)]))
    assert torch.equal(other.table, given.table) and torch.equal(other.down.weight, given.down.weight)


def test_checkpoints_need_no_sources_any_more(tmp_path):
    data, backbone = write_folder(tmp_path / "data", pairs=False), write_backbone(tmp_path / "model.pt")
    usual = ["--backbone", backbone, "--prompt-length", ROWS, "--max-update", 2]
    for name in "ab":
        train(data, tmp_path / name, *usual, "--method", "prompt-tuning", "--lr", 0.1)
    sources = [tmp_path / name / "checkpoint_last.pt" for name in "ab"]
    attempt = [*usual, "--method", "attempt", "--source-prompts", ",".join(map(str, sources))]
    whole = train(data, tmp_path / "whole", *attempt, without="--phm-n")
    kept = torch.load(tmp_path / "whole" / "checkpoint_last.pt", weights_only=True)
    tables = [torch.load(path, weights_only=True)["model"]["method.table"] for path in sources]
    assert torch.equal(kept["model"]["method.sources"], torch.stack(tables))
    assert kept["cfg"]["model"]["attempt_sources"] == 2
    for path in sources:
        path.unlink()
    again = validate(data, tmp_path / "whole" / "checkpoint_last.pt")
    assert again.log("valid_loss") == pytest.approx(whole.log("valid_loss")[-1:], abs=1e-3)


def test_sources_are_named_or_counted(tmp_path):
    paths = ",".join(write_source(tmp_path / f"{i}.pt", drawn(i)) for i in range(2))
    with pytest.raises(InputError, match="--attempt-sources 1: --source-prompts names 2: leave the number out"):
        tiny_model(method="attempt", prompt_length=ROWS, source_prompts=paths, attempt_sources=1)
