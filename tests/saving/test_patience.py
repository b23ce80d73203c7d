"""Early stopping over a resume."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fairseq_cli import train
from hypothesis import given
from hypothesis import strategies as st

from fairseq_idpg.errors import InputError
from fairseq_idpg.saving.patience import Patience, ended


def options(patience, maximise=True, max_update=0):
    checkpoint = SimpleNamespace(patience=patience, maximize_best_checkpoint_metric=maximise)
    return SimpleNamespace(checkpoint=checkpoint, optimization=SimpleNamespace(max_update=max_update))


def validations(scores, patience, stops=()):
    """How many validations fairseq makes of ``scores``, with a kill and a resume after each number in ``stops``."""
    section = Patience(resumes=True)
    for made, score in enumerate(scores, 1):
        if train.should_stop_early(options(patience), score):
            return made
        if made in stops:
            saved = section.state_dict()
            section = Patience(resumes=True)
            section.load_state_dict(saved)
    return len(scores)


@given(
    scores=st.lists(st.integers(0, 5).map(float), min_size=1, max_size=12),
    patience=st.integers(1, 4),
    stops=st.sets(st.integers(1, 12)),
)
def test_as_many_epochs_as_without_a_stop(scores, patience, stops):
    assert validations(scores, patience, stops) == validations(scores, patience)


def test_a_start_from_other_weights_counts_anew():
    validations([3.0, 2.0], 5)
    saved = Patience.state_dict(Patience.__new__(Patience))
    assert saved == {"best": 3.0, "num_runs": 1}
    section = Patience(resumes=False)
    section.load_state_dict(saved)
    assert section.state_dict() == {}


def test_a_second_training_of_a_process_counts_anew():
    validations([3.0, 2.0], 5)
    assert Patience(resumes=True).state_dict() == {}


def test_damage():
    for state in ({"best": 1.0}, {"best": "x", "num_runs": 1}):
        with pytest.raises(InputError, match="counter of --patience is damaged"):
            Patience(resumes=True).load_state_dict(state)


@pytest.mark.parametrize(
    ("cfg", "updates", "reason"),
    [
        (options(-1, max_update=6), 6, "6 updates are made, --max-update 6"),
        (options(-1, max_update=6), 5, None),
        (options(-1), 5, None),
        (options(2), 5, "the last 2 validations were no better, --patience 2"),
        (options(3), 5, None),
    ],
)
def test_a_training_that_has_ended(cfg, updates, reason):
    Patience(resumes=True).load_state_dict({"best": 1.0, "num_runs": 2})
    assert ended(cfg, updates) == reason
