"""What happens when a batch does not fit into memory: the run ends with one line."""

import contextlib
from typing import Any, Callable, Dict, Iterator

from .arguments import TASK
from .errors import InputError

OUT_OF_MEMORY = "out of memory"  # by these words fairseq knows the error too


@contextlib.contextmanager
def refuse_batch(sample: Dict[str, Any], where: str, remedy: str) -> Iterator[None]:
    """Around a pass over the batch of ``sample``.

    Args:
        where: what the line begins with.
        remedy: what it ends with.

    Raises:
        InputError: a RuntimeError inside speaks of memory.
    """
    try:
        yield
    except RuntimeError as error:
        if OUT_OF_MEMORY not in str(error):
            raise
        rows, tokens = sample["net_input"]["src_tokens"].shape
        raise InputError(
            f"{where}: a batch of {rows} x {tokens} tokens does not fit into memory "
            f"({str(error).strip().splitlines()[0]}): {remedy}"
        ) from error


def refuse_to_skip(sample: Dict[str, Any], update: int) -> contextlib.AbstractContextManager[None]:
    """Ends a run whose batch of ``sample`` does not fit into memory.

    fairseq warns ("attempting to recover from OOM"), leaves the batch out and goes on, so the longest examples are
    never trained on. ``InputError`` passes its ``except RuntimeError``; with several processes the others are ended by
    whatever started them.
    """
    remedy = (
        "give --update-freq 2 and half the --batch-size (with --total-batch-size --update-freq 2 alone), which makes "
        "the same updates of smaller batches"
    )
    return refuse_batch(sample, f"update {update + 1}", remedy)


def validate_batch(theirs: Callable, trainer: Any, sample: Any, raise_oom: bool = False) -> Any:
    """fairseq's ``Trainer.valid_step``, which tries a batch again that did not fit, and then ends in a traceback."""
    if getattr(trainer.cfg.task, "_name", None) != TASK:
        return theirs(trainer, sample, raise_oom)
    run = sample or trainer._dummy_batch  # a process that has fewer batches than others runs that one
    where = f"the validation after update {trainer.get_num_updates()}"
    with refuse_batch(run, where, "give a smaller --batch-size-valid or --max-tokens-valid"):
        return theirs(trainer, sample, raise_oom)
