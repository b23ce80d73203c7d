"""Where prompt rows start: numbers, words of the vocabulary, a text, or the prompt of another task.

Words: "The Power of Scale for Parameter-Efficient Prompt Tuning" (Lester et al., 2021), Section 2.1,
https://arxiv.org/abs/2104.08691; transfer between tasks (--prompt-init saved), as SPoT (see ``spot``) and IDPG's
supplementary training (Appendix A.4) do it.

Differs from the IDPG paper in: nothing by default. Its code says uniform(-0.5, 0.5), but draws every table again, from
N(0, 0.02^2), when it builds the model.
"""

import logging
import re
from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

import torch
from torch import Tensor

from preprocess.dictionary import FILLER
from preprocess.flags import flag_name

from ...backbone.weights import LM_HEAD, STACK
from ...errors import InputError
from ...saving.backbone_file import names_of_today, read_checkpoint, weights_digest
from ...saving.tensors import FINGERPRINT, as_digest
from ..base import WordEmbeddings
from ..options import options_of

logger = logging.getLogger(__name__)
FREQUENT = 5000
NO_WORD = re.compile(rf"\[unused\d+\]|{FILLER}\d+")  # BERT's dictionary begins with a thousand unused symbols


def pieces(text: str, words: WordEmbeddings) -> Tensor:
    """Return the embeddings of a text's pieces, n x d; InputError if it has none."""
    ids = words.encode(text)
    if not ids:
        raise InputError(f"--prompt-init-text {text!r} has no words: write some, or 'terrible|great' for class-labels")
    return words.embeddings[torch.as_tensor(ids)]


def vocabulary_rows(text: str, words: WordEmbeddings, count: int) -> Tensor:
    """Return the embeddings of different words, drawn from the most frequent ones, count x d."""
    # the dictionary lists its words by frequency, then <mask>
    ids = range(words.specials, len(words.embeddings) - 1)
    word_ids = (i for i in ids if not (words.symbols and NO_WORD.fullmatch(words.symbols[i])))
    frequent = torch.tensor(list(islice(word_ids, FREQUENT)))
    # a small vocabulary is shuffled several times
    times = max(1, -(-count // len(frequent)))
    return words.embeddings[torch.cat([frequent[torch.randperm(len(frequent))] for _ in range(times)])[:count]]


def class_label_rows(text: str, words: WordEmbeddings, count: int) -> Tensor:
    """Return a row for each class, the mean of its text's pieces, and frequent words behind them, count x d.

    Raise InputError if a text has no pieces, or there are more texts than rows.
    """
    means = torch.stack([pieces(label, words).mean(0) for label in text.split("|")])
    if len(means) > count:
        raise InputError(f"--prompt-init-text has {len(means)} classes for {count} prompt rows: raise --prompt-length")
    return torch.cat([means, vocabulary_rows("", words, count - len(means))])


def text_rows(text: str, words: WordEmbeddings, count: int) -> Tensor:
    """Return the embeddings of a text's pieces, cut or repeated to count x d; InputError if it has none."""
    return torch.stack(list(islice(cycle(pieces(text, words)), count)))


WORDS: dict[str, Callable[[str, WordEmbeddings, int], Tensor]] = {
    "vocabulary": vocabulary_rows,
    "class-labels": class_label_rows,
    "text": text_rows,
}
INITS = ("normal", "standard-normal", "uniform", *WORDS, "saved")


@torch.no_grad()
def set_initial_rows(method: Any, cfg: Any, words: WordEmbeddings, rows: Tensor | None) -> None:
    """Give ``rows`` of a prompt method the values that --prompt-init asks for, except ``saved``, in place.

    Words start the rows of the first place, as in LPT; those of other places keep their drawn values. Raise InputError
    without such rows, or if words shall start keys and values.
    """
    init = str(cfg.prompt_init)
    among_words = method.prompt_length or method.insertion == "late"
    if init == "normal":
        return
    if rows is None or init in WORDS and not among_words:
        raise InputError(
            f"--prompt-init {init} cannot start rows of --method {cfg.method} ({method.insertion}): leave it out"
        )
    if init == "uniform":
        rows.uniform_(-0.5, 0.5)
    elif init == "standard-normal":
        rows.normal_()
    else:
        rows[0] = WORDS[init](cfg.prompt_init_text or "", words, rows.size(1)).to(rows)


# --- of another task


def below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with ``prefix``, without it."""
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}


def saved_methods(tensors: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """Return the values of a checkpoint's method, or of each of the methods that it joins."""
    whole = below(tensors, "method.")
    numbers = {name.split(".")[1] for name in whole if name.startswith("parts.")}
    return [below(whole, f"parts.{number}.") for number in sorted(numbers)] or [whole]


def other_meaning(method: Any, cfg: Any, options: dict[str, Any]) -> list[str]:
    """Return options, as they are typed, that this run sets otherwise than the training of a checkpoint's values.

    Reparameterization does not count: once folded, its rows are ordinary rows.
    """
    names = [n for n, declared in options_of(method.config).items() if not declared.metadata["changeable"]]
    fitted = {n: options[n] for n in names if options.get(n) is not None and "reparameterization" not in n}
    return [
        f"without {flag_name(n)}" if value is False else f"with {flag_name(n)}{'' if value is True else f' {value}'}"
        for n, value in fitted.items()
        if str(value) != str(getattr(cfg, n))
    ]


def on_other_backbone(options: dict[str, Any], tensors: dict[str, Tensor], words: WordEmbeddings | None) -> bool:
    """Return whether a checkpoint's values were fitted to other weights than this run's; False if either is unknown."""
    ours = None if words is None else words.fingerprint
    if ours is None:
        return False
    # if the backbone was trained, the checkpoint holds it, and the fingerprint is of the weights before that
    if options.get("no_freeze_backbone"):
        trained = names_of_today(tensors)
        digests = [weights_digest(trained, parts) for parts in ((STACK,), (STACK, LM_HEAD))]
        return as_digest(ours) not in digests
    theirs = tensors.get(FINGERPRINT)
    return theirs is not None and not torch.equal(theirs, ours.cpu())


def load_saved(method: Any, path: str, cfg: Any, words: WordEmbeddings | None = None) -> None:
    """Take all values of a method from the checkpoint of another task, where it may have been joined with others.

    Warn if they were trained with other options, or on another backbone, of the same shapes. Raise InputError if the
    checkpoint cannot be read, or holds another method or other sizes. ``words``: None before the backbone is read.
    """
    options, tensors = read_checkpoint(path, "--prompt-init-from")

    # t keys and t values have the shape of 2 t rows, so that shapes do not tell them apart
    insertion = str(options.get("prompt_insertion") or method.insertion)
    if insertion != method.insertion and any("key-value" in each for each in (insertion, method.insertion)):
        raise InputError(
            f"--prompt-init-from {path} is for --prompt-insertion {insertion}: give that, or one for {method.insertion}"
        )

    # of several methods that the checkpoint joins, the one that is most like this one
    candidates = saved_methods(tensors)
    if not method.training_only:  # a folded prompt needs nothing of what made it
        made_by = "reparameterization."
        candidates = [{n: value for n, value in each.items() if not n.startswith(made_by)} for each in candidates]
    shapes = shapes_of(method.state_dict())
    state = min(candidates, key=lambda each: len(shapes ^ shapes_of(each)))
    differing = sorted(shapes ^ shapes_of(state))
    if differing:
        raise InputError(f"--prompt-init-from {path} has another method or sizes ({differing[0][0]}): give the same")

    elsewhere = on_other_backbone(options, tensors, words)
    differences = ["on another backbone or with another --predict-with"] if elsewhere else []
    differences += other_meaning(method, cfg, options)
    if differences:
        logger.warning(f"--prompt-init-from {path} was trained {', '.join(differences)}: give the same, unless meant")
    method.load_state_dict(state)


def shapes_of(tensors: dict[str, Tensor]) -> set[tuple[str, torch.Size]]:
    return {(name, value.shape) for name, value in tensors.items()}
