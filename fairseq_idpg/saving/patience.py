"""Early stopping that goes on where it stood, and trainings that have ended already."""

import sys
from types import ModuleType
from typing import Any, Dict, Iterator, Optional

from ..errors import InputError

BEST, RUNS = "best", "num_runs"  # fairseq keeps both as attributes of its function should_stop_early


class Patience:
    """How many validations in a row were no better, which fairseq forgets when it is started again.

    Args:
        resumes: whether the checkpoint that will be read is gone on with; otherwise its counter is not taken over.
    """

    def __init__(self, resumes: bool):
        self.resumes = resumes
        self._set({})

    def state_dict(self) -> Dict[str, Any]:
        for counter in _counters():
            if BEST in counter:
                return {BEST: float(counter[BEST]), RUNS: int(counter[RUNS])}
        return {}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        if self.resumes and state:
            try:
                self._set({BEST: float(state[BEST]), RUNS: int(state[RUNS])})
            except (LookupError, TypeError, ValueError):
                raise InputError("this checkpoint's counter of --patience is damaged: give another") from None

    @staticmethod
    def _set(state: Dict[str, Any]) -> None:
        for counter in _counters():
            for name in (BEST, RUNS):
                counter.pop(name, None)
            counter.update(state)


def loaded_commands(function: str) -> Iterator[ModuleType]:
    """The modules of fairseq's commands, imported or run as a script, that know ``function``."""
    for name in ("fairseq_cli.train", "fairseq_cli.validate", "__main__"):
        module = sys.modules.get(name)
        if hasattr(module, "cli_main") and hasattr(module, function):
            yield module


def _counters() -> Iterator[Dict[str, Any]]:
    for command in loaded_commands("should_stop_early"):
        yield vars(command.should_stop_early)


def ended(cfg: Any, updates: int) -> Optional[str]:
    """Why a training is over before it goes on, if it is: fairseq would make one more update, or epoch, and save it."""
    if 0 < cfg.optimization.max_update <= updates:
        return f"{updates} updates are made, --max-update {cfg.optimization.max_update}"
    runs = max(
        (getattr(command.should_stop_early, RUNS, 0) for command in loaded_commands("should_stop_early")), default=0
    )
    if 0 < cfg.checkpoint.patience <= runs:
        return f"the last {runs} validations were no better, --patience {cfg.checkpoint.patience}"
    return None
