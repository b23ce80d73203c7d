"""Where a stopped training goes on: its checkpoint, its counts of early stopping and of a plateau, or not at all."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from fairseq.dataclass.configs import CheckpointConfig
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule

from ..errors import InputError

logger = logging.getLogger(__name__)

BAD_EPOCHS = "num_bad_epochs"  # as torch's schedule calls it
BEST, RUNS = "best", "num_runs"  # fairseq keeps both as attributes of its function should_stop_early


def loaded_commands(function: str) -> Iterator[ModuleType]:
    """Yield the modules of fairseq's commands, imported or run as a script, that know ``function``."""
    for name in ("fairseq_cli.train", "fairseq_cli.validate", "__main__"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "cli_main") and hasattr(module, function):
            yield module


def will_resume(cfg: Any, suffix: str) -> bool:
    """Return whether fairseq goes on with the checkpoint that it is about to read, or only starts from its weights.

    ``cfg``: fairseq's options of checkpoints; ``suffix``: the end of their names in this process. Raise InputError
    where --restore-file, --continue-once or --finetune-from-model is missing: fairseq would start anew.
    """
    option, named = "--restore-file", cfg.restore_file.replace(".pt", f"{suffix}.pt")
    if cfg.restore_file == CheckpointConfig.restore_file:
        # fairseq takes the checkpoint in --save-dir, or the first of these
        others = {"--continue-once": cfg.continue_once, "--finetune-from-model": cfg.finetune_from_model}
        begun = os.path.exists(os.path.join(cfg.save_dir, named))
        starts = [] if begun else [(flag, path) for flag, path in others.items() if path is not None]
        option, named = starts[0] if starts else (option, None)
    if named is not None and not os.path.isfile(named):
        raise InputError(
            f"{option} {named} is not a file: give the path of a checkpoint, or leave it out to go on from --save-dir "
            f"{cfg.save_dir}"
        )
    return option != "--finetune-from-model" and not (cfg.reset_optimizer or cfg.reset_dataloader)


def warn_of_lost_files(cfg: Any, suffix: str, best: float | None) -> None:
    """Warn where checkpoints in --save-dir are left aside, or will be replaced by worse ones.

    ``best``: the score that the next validation is compared with, if there is one.
    """
    last_file, best_file = (os.path.join(cfg.save_dir, f"checkpoint_{name}{suffix}.pt") for name in ("last", "best"))
    named = cfg.restore_file.replace(".pt", f"{suffix}.pt")
    other = cfg.restore_file != CheckpointConfig.restore_file and os.path.exists(last_file)
    if other and not os.path.samefile(last_file, named):
        logger.warning(
            f"{last_file} is left aside, as --restore-file {named} is read each time; --continue-once and "
            "--finetune-from-model go on with it"
        )
    if best is None and os.path.exists(best_file):
        logger.warning(f"no best score is known: the next validation replaces {best_file}")


def _counters() -> Iterator[dict[str, Any]]:
    for command in loaded_commands("should_stop_early"):
        yield vars(command.should_stop_early)


class KeptPatience:
    """Count validations in a row that were no better, and go on with the count where training ``resumes``."""

    def __init__(self, resumes: bool):
        self.resumes = resumes
        self._set({})

    def state_dict(self) -> dict[str, Any]:
        counter = next((counter for counter in _counters() if BEST in counter), None)
        return {} if counter is None else {BEST: float(counter[BEST]), RUNS: int(counter[RUNS])}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.resumes and state:
            self._set({BEST: float(state[BEST]), RUNS: int(state[RUNS])})

    @staticmethod
    def _set(state: dict[str, Any]) -> None:
        for counter in _counters():
            for name in (BEST, RUNS):
                counter.pop(name, None)
            counter.update(state)


def ended(cfg: Any, updates: int, hours: float) -> str | None:
    """Return why a training is over before it goes on, if it is; fairseq would make and save one more update or epoch.

    ``hours`` are the checkpoint's; those since then differ from process to process.
    """
    if 0 < cfg.optimization.max_update <= updates:
        return f"{updates} updates are made, --max-update {cfg.optimization.max_update}"
    if 0 < cfg.optimization.stop_time_hours < hours:
        return f"it took {hours:.2f} hours, --stop-time-hours {cfg.optimization.stop_time_hours:g}"
    runs = max((counter.get(RUNS, 0) for counter in _counters()), default=0)
    if 0 < cfg.checkpoint.patience <= runs:
        return f"the last {runs} validations were no better, --patience {cfg.checkpoint.patience}"
    return None


def plateau_state(state_dict: Callable, schedule: ReduceLROnPlateauLRSchedule) -> dict[str, Any]:
    """Return fairseq's state, and how many epochs in a row were no better.

    The schedule lowers the learning rate once more than --lr-patience epochs in a row were no better. fairseq saves its
    best score alone, and it saves a checkpoint before it tells the schedule how the epoch ended.
    """
    return {**state_dict(), BAD_EPOCHS: schedule.lr_scheduler.num_bad_epochs}


def load_plateau(load: Callable, schedule: ReduceLROnPlateauLRSchedule, state: dict[str, Any]) -> None:
    """Load the state; a checkpoint of an earlier version lacks the count, 0 with the default --lr-patience 0."""
    load(state)
    schedule.lr_scheduler.num_bad_epochs = state.get(BAD_EPOCHS, 0)


def catch_up_plateau(trainer: Any, extra_state: dict[str, Any] | None, anew: bool) -> None:
    """Tell the schedule how the last epoch of the checkpoint ended; all other schedules count updates alone.

    ``extra_state``: of the checkpoint, if there is one. ``anew``: whether the schedule has forgotten the checkpoint
    (--reset-lr-scheduler), whose rate the optimizer has.
    """
    schedule = trainer.lr_scheduler
    if extra_state is None or not isinstance(schedule, ReduceLROnPlateauLRSchedule):
        return
    iterator = extra_state["train_iterator"]
    if anew and schedule.warmup_end:
        trainer.optimizer.set_lr(schedule.cfg.lr[0])
    elif not anew and iterator["iterations_in_epoch"] == 0:  # of the next epoch, which has not begun
        trainer.lr_step(iterator["epoch"] - 1, extra_state["val_loss"])
