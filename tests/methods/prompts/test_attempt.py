"""ATTEMPT: whose prompts are mixed, where its own starts, and what its checkpoints keep."""

import math

import pytest
import torch

from fairseq_idpg.errors import InputError
from tests.contract import Row
from tests.folders import same_tensors
from tests.helpers import enlarge, tiny_model
from tests.models.started import started
from tests.plain import plain_linear_of
from tests.sources import ROWS, WIDTH, drawn, write_source


def by_hand(method, number, text):
    """The released code's lines for one example, whose prompts may stand at several places."""
    prompts = [*method.sources, method.table]
    x = torch.stack([max(column) for column in text.words.t()])
    hidden = plain_linear_of(method.down, x)
    x = method.layer_norm(plain_linear_of(method.up, hidden * torch.sigmoid(hidden)))
    scores = [torch.stack([max(column) for column in p.flatten(0, 1).t()]) @ x / method.temperature for p in prompts]
    shares = torch.stack(scores).softmax(0)
    return method.table[number] + sum(share * prompt[number] for share, prompt in zip(shares, prompts))


COUNT, OWN = 100 * 1024 + 2 * 1024 * 100 + 2 * 1024, "table down.weight up.weight layer_norm.weight layer_norm.bias"
CONTRACT = {"attempt": Row(COUNT, OWN, by_hand, kept="sources", variants=({"attempt_temperature": "0.5"},))}


@pytest.fixture
def paths(tmp_path):
    return [write_source(tmp_path / f"{seed}.pt", drawn(seed)) for seed in range(3)]


def attempt(**options):
    return started("attempt", prompt_length=ROWS, **options).method


def test_sources_are_frozen_and_the_first_starts_the_tasks_own(paths):
    method = attempt(source_prompts=", ".join(paths))
    assert torch.equal(method.sources, torch.stack([drawn(seed) for seed in range(3)]))
    assert torch.equal(method.table, drawn(0)) and not method.sources.requires_grad
    own = attempt(source_prompts=",".join(paths), attempt_init="own", prompt_init="uniform").table
    assert own.abs().max() <= 0.5


def test_temperature():
    """The released configuration has 2087 for T5-base."""
    assert int(tiny_model(method="attempt", encoder_embed_dim=768, max_positions=160).method.temperature) == 2087
    assert tiny_model(method="attempt", max_positions=160).method.temperature == math.e * WIDTH
    assert tiny_model(method="attempt", max_positions=160, attempt_temperature="50").method.temperature == 50


def test_another_tasks_network_is_taken_over_with_its_sources(paths, tmp_path):
    """--prompt-init saved; other sources may be given with it."""
    given = attempt(source_prompts=",".join(paths[:2]))
    enlarge(given)
    state = {f"method.{name}": value for name, value in given.state_dict().items()}
    torch.save({"args": None, "cfg": {"model": {}}, "model": state}, tmp_path / "x.pt")
    saved = {"prompt_init": "saved", "prompt_init_from": str(tmp_path / "x.pt")}
    assert same_tensors(attempt(attempt_sources=2, **saved).state_dict(), given.state_dict())
    with pytest.raises(InputError, match="--attempt-init own"):
        attempt(attempt_sources=2, **saved, attempt_init="own")
    other = attempt(source_prompts=",".join(paths[1:]), **saved)
    assert torch.equal(other.sources, torch.stack([drawn(1), drawn(2)]))
    assert torch.equal(other.table, given.table) and torch.equal(other.down.weight, given.down.weight)


@pytest.mark.parametrize(
    ("sources", "option", "value"),
    [(0, "source_prompts", ""), (2, "attempt_sources", 3), (2, "prompt_init", "uniform")],
)
def test_refused(paths, sources, option, value):
    with pytest.raises(InputError, match=f"--{option.replace('_', '-')} {value}"):
        attempt(**{"source_prompts": ",".join(paths[:sources]), option: value})
