"""SPoT: which source a prompt starts from, and what is refused as one."""

import logging
import math

import pytest
import torch

from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.prompts.spot import mean_cosine, token_cosine
from tests.contract import Row
from tests.helpers import tiny_model
from tests.methods.prompts.test_task_prompts import by_hand
from tests.models.started import started
from tests.sources import NO_BACKBONE, ROWS, WIDTH, drawn, write_source

CONTRACT = {"spot": Row(102_400, "table", by_hand, published={"spot_similarity": "tokens"})}


def spot(**options):
    """The prompt that a run starts from."""
    return started("spot", prompt_length=ROWS, **options).method.table.detach()


def cosine(a, b):
    return float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))


def test_similarities_are_the_papers():
    one, other = drawn(1, places=2), drawn(2, places=2)
    rows, others = list(one.flatten(0, 1)), list(other.flatten(0, 1))
    pairs = [cosine(a, b) for a in rows for b in others]
    assert float(token_cosine(one, other)) == pytest.approx(sum(pairs) / len(pairs), abs=1e-6)
    assert float(mean_cosine(one, other)) == pytest.approx(cosine(sum(rows), sum(others)), abs=1e-6)


@pytest.fixture
def saved(tmp_path):
    """name -> checkpoint: a and c resemble the target, c more."""
    target = drawn(0)
    rows = {"target": target, "a": target + drawn(1), "b": -target, "c": target + 0.1 * drawn(2)}
    paths = {name: write_source(tmp_path / f"{name}.pt", value) for name, value in rows.items()}
    return rows, paths


def sources(paths, names):
    return ",".join(paths[name] for name in names)


@pytest.mark.parametrize("similarity", ["tokens", "mean"])
def test_the_most_similar_source_is_the_start(saved, similarity, caplog):
    rows, paths = saved
    with caplog.at_level(logging.INFO):
        table = spot(source_prompts=sources(paths, "abc"), spot_target=paths["target"], spot_similarity=similarity)
    assert torch.equal(table, rows["c"])
    assert f"the prompt starts from {paths['c']}" in caplog.text


def test_a_weighted_average_of_the_most_similar(saved):
    rows, paths = saved
    table = spot(source_prompts=sources(paths, "abc"), spot_target=paths["target"], spot_average=2)
    weights = {name: float(token_cosine(rows[name], rows["target"])) for name in "ac"}
    expected = sum(weight * rows[name] for name, weight in weights.items()) / sum(weights.values())
    torch.testing.assert_close(table, expected)


def test_sources_may_be_compared_by_early_checkpoints(saved):
    """What is compared and what is taken over are named in the same order."""
    rows, paths = saved
    early = sources(paths, "cba")
    table = spot(source_prompts=sources(paths, "abc"), spot_target=paths["target"], spot_embeddings=early)
    assert torch.equal(table, rows["a"])


def test_prompts_of_several_places(tmp_path):
    """The same places in other words."""
    rows = torch.randn(3, 2 * ROWS, WIDTH)
    path = write_source(tmp_path / "a.pt", rows, "key-value", "0,1,2")
    assert torch.equal(spot(source_prompts=path, prompt_layers="all", prompt_insertion="key-value"), rows)


def test_folded_and_joined_prompts_are_sources(tmp_path):
    rows = drawn(5)
    folded = write_source(tmp_path / "f.pt", rows, **{"reparameterization.a": torch.ones(2)})
    assert torch.equal(spot(source_prompts=folded), rows)
    joined = tiny_model(method="adapter+prompt-tuning", prompt_length=ROWS)
    options = {"_name": "roberta_idpg", "prompt_insertion": "add", "prompt_layers": "first"}
    torch.save({"args": None, "cfg": {"model": options}, "model": joined.state_dict()}, tmp_path / "j.pt")
    assert torch.equal(spot(source_prompts=str(tmp_path / "j.pt")), joined.method.parts[1].table)


@pytest.mark.parametrize(
    "written",
    [
        {"rows": torch.zeros(1, 4, WIDTH)},
        {"layers": "all"},
        {"insertion": "late"},
        {"router": torch.zeros(4, WIDTH)},  # of another method
        {"words.a": torch.zeros(4, 2)},  # a part of a prompt
        {"fingerprint": NO_BACKBONE + 1},  # another backbone
    ],
)
def test_what_is_no_source(tmp_path, written):
    values = {"rows": drawn(0), **written}
    path = write_source(tmp_path / "a.pt", values.pop("rows"), **values)
    with pytest.raises(InputError, match=f"^--source-prompts {path}"):
        spot(source_prompts=path)


@pytest.mark.parametrize(
    ("names", "options", "named"),
    [
        ("", {}, "--source-prompts"),
        ("ab", {}, "--spot-target"),
        ("a", {"spot_average": 2}, "--spot-average 2"),
        ("abc", {"spot_average": 3, "spot_target": "target"}, "--spot-average 3: .*b.pt"),  # b is unlike the target
        ("ab", {"spot_target": "target", "spot_embeddings": "a"}, "--spot-embeddings"),
        ("a", {"prompt_init": "uniform"}, "--prompt-init uniform has no effect"),
        ("a", {"prompt_init": "saved", "prompt_init_from": "a"}, "--source-prompts .* has no effect"),
    ],
)
def test_refused(saved, names, options, named):
    _, paths = saved
    options = {name: paths.get(value, value) for name, value in options.items()}
    with pytest.raises(InputError, match=named):
        spot(source_prompts=sources(paths, names), **options)
