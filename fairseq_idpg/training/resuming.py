"""Where a training goes on that was stopped: from which checkpoint, with which count of early stopping, or not at all.

Whether it is the same training, ``kept_options`` says.
"""

import logging
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from fairseq.dataclass.configs import CheckpointConfig

from preprocess.flags import flag_name

from ..errors import InputError

logger = logging.getLogger(__name__)

FINETUNE = "--finetune-from-model"
OF_FINETUNE = ("restore_file", "reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")
BEST, RUNS = "best", "num_runs"  # fairseq keeps both as attributes of its function should_stop_early


class KeptPatience:
    """How many validations in a row were no better, which fairseq forgets when it is started again.

    Args:
        resumes: whether the checkpoint that will be read is gone on with; otherwise its counter is not taken over.
    """

    def __init__(self, resumes: bool):
        self.resumes = resumes
        self._set({})

    def state_dict(self) -> dict[str, Any]:
        for counter in _counters():
            if BEST in counter:
                return {BEST: float(counter[BEST]), RUNS: int(counter[RUNS])}
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.resumes and state:
            try:
                self._set({BEST: float(state[BEST]), RUNS: int(state[RUNS])})
            except (LookupError, TypeError, ValueError):
                raise InputError("this checkpoint's counter of --patience is damaged: give another") from None

    @staticmethod
    def _set(state: dict[str, Any]) -> None:
        for counter in _counters():
            for name in (BEST, RUNS):
                counter.pop(name, None)
            counter.update(state)


def will_resume(cfg: Any, suffix: str) -> bool:
    """Whether fairseq goes on with the checkpoint that it is about to read, rather than start from its weights.

    Args:
        cfg: fairseq's options of checkpoints.
        suffix: what names of checkpoints end with in this process.

    Raises:
        InputError: --restore-file, --continue-once or --finetune-from-model is missing, where fairseq starts anew
            without a word; the last is given with what it leaves no choice of.
    """
    chosen = next((name for name in OF_FINETUNE if getattr(cfg, name) != getattr(CheckpointConfig, name)), None)
    if cfg.finetune_from_model is not None and chosen:
        raise InputError(
            f"{FINETUNE} with {flag_name(chosen)}: it starts from the weights alone by itself, and goes on with the "
            "checkpoint in --save-dir once there is one: leave one of them out"
        )
    named, option = cfg.restore_file.replace(".pt", f"{suffix}.pt"), "--restore-file"
    if cfg.restore_file == CheckpointConfig.restore_file:
        last = os.path.join(cfg.save_dir, named)
        if os.path.lexists(last) and not os.path.isfile(last):
            raise InputError(f"{last} is not a file: remove it, or give another --save-dir")
        others = {"--continue-once": cfg.continue_once, FINETUNE: cfg.finetune_from_model}  # fairseq takes the first
        begins = [(flag, path) for flag, path in others.items() if path is not None and not os.path.exists(last)]
        option, named = begins[0] if begins else (option, None)
    if named is not None and not os.path.isfile(named):
        raise InputError(
            f"{option} {named} is not a file: give the path of a checkpoint, or leave it out to go on from --save-dir "
            f"{cfg.save_dir}"
        )
    return option != FINETUNE and not (cfg.reset_optimizer or cfg.reset_dataloader)


def tell_of_other_files(cfg: Any, suffix: str, recorded: float | None, best: float | None) -> None:
    """Warns where --save-dir holds other checkpoints than those that the training goes on with.

    Args:
        cfg, suffix: see ``will_resume``.
        recorded: the best score of the checkpoint that was read; None where there is none.
        best: the one that the next validation is compared with.
    """
    last_file, best_file = (os.path.join(cfg.save_dir, f"checkpoint_{name}{suffix}.pt") for name in ("last", "best"))
    named = cfg.restore_file.replace(".pt", f"{suffix}.pt")
    other = cfg.restore_file != CheckpointConfig.restore_file and os.path.exists(last_file)
    if other and not os.path.samefile(last_file, named):
        logger.warning(
            "%s is left aside, as --restore-file %s is read each time; --continue-once and %s go on with it",
            last_file,
            named,
            FINETUNE,
        )
    if best is None and os.path.exists(best_file):
        why = "no best score is known" if recorded is None else f"the best score so far, {recorded}, is forgotten"
        logger.warning("%s: the next validation replaces %s", why, best_file)
    if best is not None and not os.path.exists(best_file):
        logger.warning("the best score so far, %s, has no file here: a validation as good writes %s", best, best_file)


def tell_of_unsaved_epochs(cfg: Any) -> None:
    """Epochs that fairseq validates and does not save are not among those that checkpoint_best.pt is the best of; at
    --max-epoch it saves nothing by itself."""
    save, validate = cfg.checkpoint.save_interval, cfg.dataset.validate_interval
    if validate % save and not cfg.dataset.disable_validation:
        logger.warning(
            "--save-interval %d with --validate-interval %d: epochs that are validated and not saved cannot become "
            "checkpoint_best.pt",
            save,
            validate,
        )
    most = cfg.optimization.max_epoch
    if most and most % save and not cfg.optimization.max_update:
        logger.warning("--save-interval %d: the last of --max-epoch %d epochs is not saved", save, most)


def loaded_commands(function: str) -> Iterator[ModuleType]:
    """The modules of fairseq's commands, imported or run as a script, that know ``function``."""
    for name in ("fairseq_cli.train", "fairseq_cli.validate", "__main__"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "cli_main") and hasattr(module, function):
            yield module


def _counters() -> Iterator[dict[str, Any]]:
    for command in loaded_commands("should_stop_early"):
        yield vars(command.should_stop_early)


def ended(cfg: Any, updates: int, hours: float) -> str | None:
    """Why a training is over before it goes on, if it is: fairseq would make one more update, or epoch, and save it.

    Args:
        updates: made so far.
        hours: of which its checkpoint says that they have passed; those since then differ from process to process.
    """
    if 0 < cfg.optimization.max_update <= updates:
        return f"{updates} updates are made, --max-update {cfg.optimization.max_update}"
    if 0 < cfg.optimization.stop_time_hours < hours:
        return f"it took {hours:.2f} hours, --stop-time-hours {cfg.optimization.stop_time_hours:g}"
    runs = max((counter.get(RUNS, 0) for counter in _counters()), default=0)
    if 0 < cfg.checkpoint.patience <= runs:
        return f"the last {runs} validations were no better, --patience {cfg.checkpoint.patience}"
    return None
