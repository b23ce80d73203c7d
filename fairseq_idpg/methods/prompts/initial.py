"""Where prompt rows start: numbers, words of the vocabulary, a text, or the prompt of another task.

Words: "The Power of Scale for Parameter-Efficient Prompt Tuning" (Lester et al., 2021), Section 2.1,
https://arxiv.org/abs/2104.08691; transfer: SPoT, see ``spot``, and IDPG's supplementary training (Appendix A.4).

Differs from the IDPG paper in: nothing by default; its code writes uniform(-0.5, 0.5) but draws every table again from
N(0, 0.02^2) when the model is built.
"""

import logging
import re
from itertools import cycle, islice
from typing import Any, Callable, Dict, List, Optional

import torch
from torch import Tensor

from preprocess.dictionary import FILLER
from preprocess.flags import flag_name

from ...backbone.loading import names_of_today, read_checkpoint, weights_digest
from ...errors import InputError
from ...saving.tensors import FINGERPRINT, LM_HEAD, STACK, as_digest
from ..base import WordEmbeddings
from ..options import options_of

logger = logging.getLogger(__name__)

FREQUENT = 5000
NO_WORD = re.compile(rf"\[unused\d+\]|{FILLER}\d+")  # BERT's dictionary begins with a thousand of the former


def pieces(text: str, words: WordEmbeddings) -> Tensor:
    """Embeddings of a text's pieces: n x d; raises InputError where it has none."""
    ids = words.encode(text)
    if not ids:
        raise InputError(f"--prompt-init-text: {text!r} has no words: write some")
    return words.embeddings[torch.as_tensor(ids)]


def frequent_words(words: WordEmbeddings) -> List[int]:
    """The first words of the dictionary, which has them in the order of their frequency."""
    ids = range(words.specials, len(words.embeddings) - 1)  # the last symbol is <mask>
    return list(islice((i for i in ids if not (words.symbols and NO_WORD.fullmatch(words.symbols[i]))), FREQUENT))


def vocabulary_rows(text: Optional[str], words: WordEmbeddings, count: int) -> Tensor:
    """Embeddings of different words, drawn from the most frequent ones: count x d."""
    frequent = torch.tensor(frequent_words(words))
    times = max(1, -(-count // len(frequent)))
    return words.embeddings[torch.cat([frequent[torch.randperm(len(frequent))] for _ in range(times)])[:count]]


def class_label_rows(text: Optional[str], words: WordEmbeddings, count: int) -> Tensor:
    """A row for each class, the mean of its text's pieces, and sampled words after them: count x d.

    Raises:
        InputError: there are no texts, a text without pieces, or more texts than rows.
    """
    if not text:
        raise InputError("--prompt-init class-labels needs the classes' texts: --prompt-init-text 'terrible|great'")
    means = torch.stack([pieces(label, words).mean(0) for label in text.split("|")])
    if len(means) > count:
        raise InputError(f"--prompt-init-text has {len(means)} classes for {count} prompt rows: raise --prompt-length")
    return torch.cat([means, vocabulary_rows(None, words, count - len(means))])


def text_rows(text: Optional[str], words: WordEmbeddings, count: int) -> Tensor:
    """Embeddings of a text's pieces, cut to, or repeated up to, count x d; raises InputError where there are none."""
    if not text:
        raise InputError("--prompt-init text needs a text: --prompt-init-text 'It was great'")
    return torch.stack(list(islice(cycle(pieces(text, words)), count)))


WORDS: Dict[str, Callable[[Optional[str], WordEmbeddings, int], Tensor]] = {
    "vocabulary": vocabulary_rows,
    "class-labels": class_label_rows,
    "text": text_rows,
}
INITS = ("normal", "standard-normal", "uniform", *WORDS, "saved")


@torch.no_grad()
def set_initial_rows(method: Any, cfg: Any, words: WordEmbeddings, rows: Optional[Tensor] = None) -> None:
    """Gives ``rows``, or those that ``method.initial_rows`` names, the values that --prompt-init asks for, in place.

    Words are for the rows of the input, which stand among word embeddings, and for those that join late at the first
    place, as LPT does; rows of later layers keep what they are drawn from on construction.

    Raises:
        InputError: there are no such rows, or rows of another kind; see ``WORDS`` and ``load_saved``.
    """
    init, rows = str(cfg.prompt_init), method.initial_rows if rows is None else rows
    if rows is None and init not in ("normal", "saved"):
        raise InputError(f"--prompt-init {init}: --method {cfg.method} has no rows to start from: leave it out")
    if init == "uniform":
        rows.uniform_(-0.5, 0.5)
    elif init == "standard-normal":
        rows.normal_()
    elif init == "saved":
        load_saved(method, cfg.prompt_init_from, cfg, words)
    elif init in WORDS:
        if not (method.prompt_length or method.insertion == "late"):
            raise InputError(
                f"--prompt-init {init} is for rows of the input, not for --prompt-insertion {method.insertion}: "
                "give normal, standard-normal, uniform or saved"
            )
        rows[0] = WORDS[init](cfg.prompt_init_text, words, rows.size(1)).to(rows)


def below(tensors: Dict[str, Tensor], prefix: str) -> Dict[str, Tensor]:
    """The tensors whose names begin with ``prefix``, without it."""
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}


def saved_methods(tensors: Dict[str, Tensor]) -> List[Dict[str, Tensor]]:
    """The values of the method in a checkpoint, or of each of those that it joins."""
    own = below(tensors, "method.")
    numbers = {name.split(".")[1] for name in own if name.startswith("parts.")}
    return [below(own, f"parts.{number}.") for number in sorted(numbers)] or [own]


def differing_names(one: Dict[str, Tensor], other: Dict[str, Tensor]) -> List[str]:
    """Names that only one of them has, or whose tensors have another shape."""
    same = {name for name in one.keys() & other.keys() if one[name].shape == other[name].shape}
    return sorted((one.keys() | other.keys()) - same)


def other_meaning(method: Any, cfg: Any, options: Dict[str, Any]) -> List[str]:
    """Options that a checkpoint was trained with and this run has otherwise, of those its values were fitted to.

    How rows are made in training is none of them: folded, they are rows like others.
    """
    fitted = [n for n, declared in options_of(method.config).items() if not declared.metadata["changeable"]]
    known = {n: options[n] for n in fitted if options.get(n) is not None and "reparameterization" not in n}
    return [
        f"without {flag_name(n)}" if value is False else f"with {flag_name(n)}{'' if value is True else f' {value}'}"
        for n, value in known.items()
        if str(value) != str(getattr(cfg, n))
    ]


def on_other_backbone(options: Dict[str, Any], tensors: Dict[str, Tensor], words: Optional[WordEmbeddings]) -> bool:
    """Whether a checkpoint's values were fitted to other weights than this run's; False where either is silent.

    One that trained its backbone holds these weights itself; its fingerprint is of those that it began with.
    """
    ours = None if words is None else words.fingerprint
    if ours is None:
        return False
    if options.get("no_freeze_backbone"):
        trained = names_of_today(tensors)
        digests = [weights_digest(trained, parts) for parts in ((STACK,), (STACK, LM_HEAD))]
        return as_digest(ours) not in digests
    theirs = tensors.get(FINGERPRINT)
    return theirs is not None and not torch.equal(theirs, ours.cpu())


def check_same_kind(method: Any, path: str, options: Dict[str, Any]) -> None:
    """Raises InputError for rows where keys and values are wanted, or the reverse: t of each are shaped as 2 t rows."""
    insertion = str(options.get("prompt_insertion") or method.insertion)
    if insertion != method.insertion and any("key-value" in each for each in (insertion, method.insertion)):
        raise InputError(
            f"--prompt-init-from {path} holds a prompt for --prompt-insertion {insertion}, and this run's is for "
            f"{method.insertion}: give the same, or another checkpoint"
        )


def warn_of(path: str, other: List[str]) -> None:
    """Tells what the values of a checkpoint were fitted to and this run has otherwise, if there is any."""
    if other:
        logger.warning(
            "--prompt-init-from %s was trained %s, which this run has otherwise: give the same, unless this is meant",
            path,
            ", ".join(other),
        )


def load_saved(method: Any, path: Optional[str], cfg: Any, words: Optional[WordEmbeddings] = None) -> None:
    """Takes all of a method's values from the checkpoint of another task, where it may have been joined with others.

    Values of other options that have the same shapes, or of another backbone of the same width, are a start all the
    same, of which a warning tells.

    Args:
        words: of this run's backbone; None before it is read.

    Raises:
        InputError: no checkpoint is named; it cannot be read, or holds another method or other sizes.
    """
    if not path:
        raise InputError("--prompt-init saved needs a checkpoint: --prompt-init-from PATH/checkpoint_best.pt")
    options, tensors = read_checkpoint(path, "--prompt-init-from")
    check_same_kind(method, path, options)
    own = method.state_dict()
    nearest: List[str] = []
    for state in saved_methods(tensors):
        if not method.training_only:  # a folded prompt needs nothing of what made it
            state = {name: value for name, value in state.items() if not name.startswith("reparameterization.")}
        differing = differing_names(own, state)
        if not differing:
            elsewhere = on_other_backbone(options, tensors, words)
            other = ["on another backbone or with another --predict-with"] if elsewhere else []
            warn_of(path, other + other_meaning(method, cfg, options))
            method.load_state_dict(state)
            return
        nearest = min(nearest or differing, differing, key=len)
    raise InputError(
        f"--prompt-init-from {path} holds another method or other sizes ({nearest[0]} differs): give one that was "
        "trained with the same --method and options"
    )
