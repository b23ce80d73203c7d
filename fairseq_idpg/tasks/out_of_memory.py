"""What happens when a training step does not fit into memory: the run ends."""

import contextlib
from typing import Any, Dict, Iterator

from ..errors import InputError

OUT_OF_MEMORY = "out of memory"  # by these words fairseq knows the error too


@contextlib.contextmanager
def refuse_to_skip(sample: Dict[str, Any], update: int) -> Iterator[None]:
    """Ends a run whose batch of ``sample`` does not fit into memory.

    fairseq warns ("attempting to recover from OOM"), leaves the batch out and goes on, so the longest examples are
    never trained on. ``InputError`` passes its ``except RuntimeError``; with several processes the others are ended by
    whatever started them.

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
            f"update {update + 1}: a batch of {rows} x {tokens} tokens does not fit into memory "
            f"({str(error).strip().splitlines()[0]}): give --update-freq 2 and half the --batch-size (with "
            "--total-batch-size --update-freq 2 alone), which makes the same updates of smaller batches"
        ) from error
