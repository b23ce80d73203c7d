"""Which checkpoint a training goes on from, how early stopping counts on, and what has ended already."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fairseq.dataclass.configs import CheckpointConfig
from fairseq_cli import train
from hypothesis import given
from hypothesis import strategies as st

from fairseq_idpg.errors import InputError
from fairseq_idpg.training.resuming import (
    KeptPatience,
    ended,
    tell_of_other_files,
    tell_of_unsaved_epochs,
    will_resume,
)

# --- the checkpoint that is read -----------------------------------------------------------------


def reading(save_dir, **changed):
    return CheckpointConfig(save_dir=str(save_dir), **{name: str(value) for name, value in changed.items()})


@pytest.mark.parametrize("option", ["restore_file", "reset_optimizer", "reset_meters"])
def test_a_start_from_weights_leaves_no_choice(tmp_path, option):
    (tmp_path / "a.pt").touch()
    cfg = reading(tmp_path, finetune_from_model=tmp_path / "a.pt")
    assert not will_resume(cfg, "")
    setattr(cfg, option, str(tmp_path / "a.pt") if option == "restore_file" else True)
    with pytest.raises(InputError, match=f"^--finetune-from-model with --{option.replace('_', '-')}: it starts from"):
        will_resume(cfg, "")


@pytest.mark.parametrize("option", ["finetune_from_model", "continue_once"])
def test_an_empty_name_is_no_file(tmp_path, option):
    with pytest.raises(InputError, match=f"^--{option.replace('_', '-')}  is not a file: give the path"):
        will_resume(reading(tmp_path, **{option: ""}), "")


@pytest.mark.parametrize(
    ("save", "validate", "epochs", "updates", "said"),
    [
        (1, 1, 3, 0, []),
        (2, 4, 4, 0, []),
        (2, 1, 4, 0, ["--save-interval 2 with --validate-interval 1: epochs that are validated and not saved cannot"]),
        (2, 2, 3, 0, ["--save-interval 2: the last of --max-epoch 3 epochs is not saved"]),
        (2, 2, 3, 9, []),
        (2, 2, 0, 0, []),
    ],
)
def test_epochs_that_are_not_saved(caplog, save, validate, epochs, updates, said):
    cfg = SimpleNamespace(
        checkpoint=SimpleNamespace(save_interval=save),
        dataset=SimpleNamespace(validate_interval=validate, disable_validation=False),
        optimization=SimpleNamespace(max_epoch=epochs, max_update=updates),
    )
    tell_of_unsaved_epochs(cfg)
    assert [record.message[: len(line)] for record, line in zip(caplog.records, said)] == said
    assert len(caplog.records) == len(said)
    cfg.dataset.disable_validation = True
    caplog.clear()
    tell_of_unsaved_epochs(cfg)
    assert not any("validated" in record.message for record in caplog.records)


def test_files_that_are_not_those_of_the_training(tmp_path, caplog):
    last, best, other = (tmp_path / f"{name}.pt" for name in ("checkpoint_last", "checkpoint_best", "other"))
    other.touch()
    tell_of_other_files(reading(tmp_path, restore_file=other), "", None, None)
    assert not caplog.records
    for file in (last, best):
        file.touch()
    for file in ("checkpoint_last.pt", last):
        tell_of_other_files(reading(tmp_path, restore_file=file), "", 70.0, 70.0)
    assert not caplog.records
    tell_of_other_files(reading(tmp_path, restore_file=other), "", 70.0, 70.0)
    assert f"{last} is left aside, as --restore-file {other} is read each time" in caplog.records.pop().message
    tell_of_other_files(reading(tmp_path), "", 70.0, None)
    assert caplog.records.pop().message.startswith("the best score so far, 70.0, is forgotten: the next validation")
    last.unlink()  # --no-last-checkpoints
    tell_of_other_files(reading(tmp_path), "", None, None)
    assert caplog.records.pop().message == f"no best score is known: the next validation replaces {best}"
    best.unlink()
    tell_of_other_files(reading(tmp_path), "", 70.0, 70.0)
    assert caplog.records.pop().message.startswith("the best score so far, 70.0, has no file here: ")


# --- early stopping ------------------------------------------------------------------------------


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


def test_a_second_training_of_a_process_counts_anew():
    validations([3.0, 2.0], 5)
    assert KeptPatience(resumes=True).state_dict() == {}


def test_damage():
    for state in ({"best": 1.0}, {"best": "x", "num_runs": 1}):
        with pytest.raises(InputError, match="counter of --patience is damaged"):
            KeptPatience(resumes=True).load_state_dict(state)


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
