"""Sentences that lie in memory as the batches that the task makes of a data folder."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from fairseq.data import ConcatSentencesDataset, Dictionary, ListDataset, PrependTokenDataset
from torch import Tensor

from ..errors import InputError
from ..tasks.dataset import PromptedDataset, by_length, place_prompts, unlabelled
from ..tasks.positions import Lengths, prompt_block, text_room
from ..tasks.template import Template, in_places

NAME = "text"  # instead of a split's name


def text_examples(
    cfg: Any,
    dictionary: Dictionary,
    parts: Sequence[list[Tensor]],
    prompt_length: int,
    name: Callable[[int], str],
    may_be_cut: bool,
    template: Template | None = None,
) -> PromptedDataset:
    """Return examples of one sentence or two.

    Args:
        cfg: the task's options.
        parts: ids of the N first sentences and, for pairs, of the N second ones, each closed by ``</s>``.
        name: of an input, for errors.
        may_be_cut: whether texts may be cut where the options say so.
        template: what the sentences are put into, if the model predicts words.

    Raises:
        InputError: a sentence has no token; a text is too long and may not be cut; there is no room for text.
    """
    lengths = [np.array([len(ids) - 1 for ids in part], np.int64) for part in parts]
    empty = np.flatnonzero(np.min(lengths, axis=0) == 0)  # of signs that the encoder leaves out
    if len(empty):
        raise InputError(f"{name(int(empty[0]))} has a sentence without any token of this model: give text")
    placed = lengths if template is None else in_places(template, lengths, [parts])
    if not may_be_cut or not cuts(cfg):
        remedy = ", or let texts be cut at their ends with `truncate`" if may_be_cut else ""
        check_lengths(cfg, placed, prompt_length, name, f"shorten it{remedy}", template)
    places = place_prompts(cfg, dictionary, NAME, lengths, prompt_length, template, placed)
    tokens = PrependTokenDataset(listed(parts[0]), cfg.init_token)
    if len(parts) == 2:
        second = listed(parts[1])
        if cfg.separator_token is not None:
            second = PrependTokenDataset(second, cfg.separator_token)
        tokens = ConcatSentencesDataset(tokens, second)
    pad = dictionary.pad()
    return PromptedDataset(unlabelled(tokens, pad), places, pad=pad, arrange=by_length)


def cuts(cfg: Any) -> bool:
    """Return whether texts may be cut; --shorten-data-split-list lets splits of a folder be cut alone."""
    return str(cfg.shorten_method) != "none" and not cfg.shorten_data_split_list


def keep_beginnings(cfg: Any, truncate: bool) -> None:
    """Let texts that may be cut lose their ends: what is kept of one must not depend on its number in a file.

    Args:
        truncate: all may be cut, whatever the training allowed.
    """
    if truncate:
        cfg.shorten_data_split_list = ""
    if truncate or str(cfg.shorten_method) == "random_crop":
        cfg.shorten_method = "truncate"


def listed(part: list[Tensor]) -> ListDataset:
    return ListDataset(part, np.array([len(ids) for ids in part], np.int64))


def check_lengths(
    cfg: Any,
    lengths: Lengths,
    prompt_length: int,
    name: Callable[[int], str],
    remedy: str,
    template: Template | None = None,
) -> None:
    """Raise InputError for a text that is too long."""
    rows = len(prompt_block(cfg.prompt_position, prompt_length, 0, 0))
    room = text_room(cfg, len(lengths) == 2, prompt_length, rows, None if template is None else template.words)
    together = np.sum(lengths, axis=0)
    too_long = np.flatnonzero(together > room)
    if len(too_long):
        raise InputError(
            f"{name(int(too_long[0]))} has {together[too_long[0]]} tokens, and this model takes {room} beside its "
            f"prompt: {remedy}"
        )
