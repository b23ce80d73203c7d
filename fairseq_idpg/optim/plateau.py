"""What --lr-scheduler reduce_lr_on_plateau goes on from and fairseq's checkpoints leave out.

The schedule lowers the learning rate once more than --lr-patience epochs in a row were no better. fairseq saves its
best score, but not how many epochs these were; and it saves a checkpoint before it tells the schedule how the epoch
ended. Both would be forgotten by a training that is started again.
"""

from collections.abc import Callable
from typing import Any

from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule

BAD_EPOCHS = "num_bad_epochs"  # as torch's schedule calls it


def state_of_plateau(theirs: Callable, schedule: ReduceLROnPlateauLRSchedule) -> dict[str, Any]:
    """fairseq's state, and how many epochs in a row were no better."""
    return {**theirs(), BAD_EPOCHS: schedule.lr_scheduler.num_bad_epochs}


def load_plateau(theirs: Callable, schedule: ReduceLROnPlateauLRSchedule, state: dict[str, Any]) -> None:
    """Checkpoints of earlier versions do not say how many; with --lr-patience 0, the default, it is always 0."""
    theirs(state)
    schedule.lr_scheduler.num_bad_epochs = state.get(BAD_EPOCHS, 0)


def go_on(trainer: Any, extra_state: dict[str, Any] | None, anew: bool) -> None:
    """Tells the schedule how the epoch ended whose checkpoint is gone on with; all other schedules count updates alone.

    Args:
        extra_state: what fairseq has read of the checkpoint; None where there is none.
        anew: whether the schedule has forgotten the checkpoint (--reset-lr-scheduler), of which the optimizer has
            taken the rate.
    """
    schedule = trainer.lr_scheduler
    if extra_state is None or not isinstance(schedule, ReduceLROnPlateauLRSchedule):
        return
    iterator = extra_state["train_iterator"]
    if anew and schedule.warmup_end:
        trainer.optimizer.set_lr(schedule.cfg.lr[0])
    elif not anew and iterator["iterations_in_epoch"] == 0:  # of the next epoch, which has not begun
        trainer.lr_step(iterator["epoch"] - 1, extra_state["val_loss"])
