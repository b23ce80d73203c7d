"""MPT: where the shared prompt and the task's vectors start, and what is left of them."""

import pytest
import torch

from fairseq_idpg.errors import InputError
from tests.contract import Row
from tests.folders import same_tensors
from tests.helpers import enlarge
from tests.models.started import started
from tests.sources import ROWS, drawn, write_source


def by_hand(method, number, text):
    network = method.reparameterization
    return network.shared[number] * torch.outer(network.u[number, :, 0], network.v[number, 0])


OWN = " ".join(f"reparameterization.{name}" for name in ("shared", "u", "v"))
CONTRACT = {"mpt": Row(100 * 1024 + 100 + 1024, OWN, by_hand, folded=102_400, kept="table")}


def mpt(**options):
    return started("mpt", prompt_length=ROWS, **options).method


def test_the_first_pass_is_the_mean_of_the_sources(tmp_path):
    paths = [write_source(tmp_path / f"{seed}.pt", drawn(seed)) for seed in range(2)]
    mean = (drawn(0) + drawn(1)) / 2
    method = mpt(source_prompts=",".join(paths))
    assert torch.equal(method.reparameterization.shared, mean)
    assert torch.equal(method.train().begin_pass(None)(0, None), mean)
    assert torch.equal(method.eval().begin_pass(None)(0, None), mean)


def test_without_sources_it_starts_as_other_prompts():
    assert 0.2 < mpt(prompt_init="uniform").table.std() < 0.38


def test_the_vectors_of_peft():
    """Their product is of the order of 4e-4."""
    network = mpt(mpt_init="normal", prompt_init="uniform").reparameterization
    assert network.v.std().item() == pytest.approx(0.02, rel=0.4)
    assert 0 < mpt(mpt_init="normal", prompt_init="uniform").table.abs().max() < 2e-3


def test_a_trained_one_is_a_source_and_is_taken_over(tmp_path):
    given = mpt()
    enlarge(given)
    given.eval()
    state = given.state_dict()
    path = write_source(tmp_path / "x.pt", **{"rows" if n == "table" else n: value for n, value in state.items()})
    torch.testing.assert_close(mpt(source_prompts=path).table, given.table)
    saved = mpt(prompt_init="saved", prompt_init_from=path)
    assert same_tensors(saved.state_dict(), state)


def test_starts_that_another_one_makes_void(tmp_path):
    path = write_source(tmp_path / "a.pt", drawn(0))
    with pytest.raises(InputError, match="--prompt-init uniform"):
        mpt(source_prompts=path, prompt_init="uniform")
    whole = {f"reparameterization.{name}": value for name, value in mpt().reparameterization.state_dict().items()}
    saved = {"prompt_init": "saved", "prompt_init_from": write_source(tmp_path / "b.pt", drawn(0), **whole)}
    with pytest.raises(InputError, match="--mpt-init normal"):
        mpt(**saved, mpt_init="normal")
    with pytest.raises(InputError, match="--source-prompts"):
        mpt(**saved, source_prompts=path)
