"""Where a golden file is not followed, that is where it says, and nowhere else."""

from __future__ import annotations

import pytest
import torch

from tests.golden.golden2.case import FOLDER, read
from tests.golden.golden2.family import STACK, Family, train_method
from tests.golden.golden2.prefix import NETWORK, network_tensors
from tests.golden.golden2.run import build, run

NAME = "prefix_mlp_peft__pad"
THEIRS = {name: name.replace("wte", "embedding").replace("control_trans", "transform") for name in NETWORK}

pytestmark = pytest.mark.skipif(not (FOLDER / f"{NAME}.npz").is_file(), reason="its golden file is not here")


def test_peft_shifts_the_positions_of_the_text_and_nothing_else():
    """Ours does not; with rows of the position table moved by the prefix's length all states are peft's."""
    case = read(NAME)
    length = case.hyper["l"]
    family = Family(
        NAME,
        lambda case: {
            "method": "prefix-tuning",
            "prompt_length": length,
            "reparameterization_hidden_size": case.hyper["h"],
        },
        lambda theirs, case: network_tensors({f"prefix.{n}": theirs[name] for n, name in THEIRS.items()}, case),
        train_method,
    )
    model = build(case, family)
    assert (run(model, case).final - case.arrays["final"]).abs().max() > 0.01
    positions = model.get_parameter(f"{STACK}embed_positions.weight")
    with torch.no_grad():
        positions[2:-length] = positions[2 + length :].clone()
    passed = run(model, case)
    torch.testing.assert_close(passed.final, case.arrays["final"], atol=2e-5, rtol=0)
    for i, state in enumerate(passed.states):
        real = case.real(state.size(1))
        torch.testing.assert_close(state[real], case.arrays[f"hidden/{i}"][real], atol=2e-5, rtol=0)
