"""Which checkpoint a training goes on from, how early stopping counts on, and what has ended already."""

from types import SimpleNamespace

import pytest
from fairseq.dataclass.configs import CheckpointConfig
from fairseq_cli import train
from hypothesis import given
from hypothesis import strategies as st

from fairseq_idpg.errors import InputError
from fairseq_idpg.training.resuming import KeptPatience, ended, warn_of_lost_files, will_resume


def reading(save_dir, **changed):
    return CheckpointConfig(save_dir=str(save_dir), **{name: str(value) for name, value in changed.items()})


@pytest.mark.parametrize("option", ["finetune_from_model", "continue_once"])
def test_an_empty_name_is_no_file(tmp_path, option):
    with pytest.raises(InputError, match=f"^--{option.replace('_', '-')}  is not a file: give the path"):
        will_resume(reading(tmp_path, **{option: ""}), "")


def test_the_checkpoint_in_the_folder_comes_first(tmp_path):
    cfg = reading(tmp_path, finetune_from_model=tmp_path / "a.pt")
    (tmp_path / "a.pt").touch()
    assert not will_resume(cfg, "")
    (tmp_path / "checkpoint_last.pt").touch()
    assert will_resume(cfg, "")
    assert not will_resume(CheckpointConfig(save_dir=str(tmp_path), reset_optimizer=True), "")


def test_files_that_are_not_those_of_the_training(tmp_path, caplog):
    last, best, other = (tmp_path / f"{name}.pt" for name in ("checkpoint_last", "checkpoint_best", "other"))
    other.touch()
    warn_of_lost_files(reading(tmp_path, restore_file=other), "", None)
    for file in (last, best):
        file.touch()
    for file in ("checkpoint_last.pt", last):
        warn_of_lost_files(reading(tmp_path, restore_file=file), "", 70.0)
    assert not caplog.records
    warn_of_lost_files(reading(tmp_path, restore_file=other), "", 70.0)
    assert f"{last} is left aside" in caplog.records.pop().message
    warn_of_lost_files(reading(tmp_path), "", None)
    assert str(best) in caplog.records.pop().message


def options(patience, maximise=True, max_update=0, stop_time_hours=0):
    checkpoint = SimpleNamespace(patience=patience, maximize_best_checkpoint_metric=maximise)
    optimization = SimpleNamespace(max_update=max_update, stop_time_hours=stop_time_hours)
    return SimpleNamespace(checkpoint=checkpoint, optimization=optimization)


def validations(scores, patience, stops=()):
    """How many validations fairseq makes of ``scores``, with a kill and a resume after each number in ``stops``."""
    section = KeptPatience(resumes=True)
    for made, score in enumerate(scores, 1):
        if train.should_stop_early(options(patience), score):
            return made
        if made in stops:
            saved = section.state_dict()
            section = KeptPatience(resumes=True)
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
    saved = KeptPatience.state_dict(KeptPatience.__new__(KeptPatience))
    assert saved == {"best": 3.0, "num_runs": 1}
    section = KeptPatience(resumes=False)
    section.load_state_dict(saved)
    assert section.state_dict() == {}


@pytest.mark.parametrize(
    ("cfg", "updates", "reason"),
    [
        (options(-1, max_update=6), 6, "6 updates are made, --max-update 6"),
        (options(-1, max_update=6), 5, None),
        (options(-1), 5, None),
        (options(2), 5, "the last 2 validations were no better, --patience 2"),
        (options(3), 5, None),
        (options(-1, stop_time_hours=1.2), 5, "it took 1.25 hours, --stop-time-hours 1.2"),
        (options(-1, stop_time_hours=1.25), 5, None),
    ],
)
def test_a_training_that_has_ended(cfg, updates, reason):
    KeptPatience(resumes=True).load_state_dict({"best": 1.0, "num_runs": 2})
    assert ended(cfg, updates, hours=1.25) == reason
