"""The data folder of a task: a wrong one is refused by name, of a right one it is found out what it holds."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import Dictionary, data_utils

from preprocess.checksums import FOLDER_FACTS
from preprocess.data_folder import DataFolder, check_split
from preprocess.encoders import Encoder, check_encoder, folder_encoder, load_encoder
from preprocess.few_shot import has_exchanged_pairs
from preprocess.flags import flag_name
from preprocess.glove import read_facts
from preprocess.questions import Questions, question_file
from preprocess.split_scores import OF_QUESTIONS, OF_TEXTS

from ..errors import PREPROCESS, InputError
from ..metrics import REPORT
from ..saving.configuration import fits
from ..saving.record import Record, read_record, symbols_fingerprint


def has_pairs(data: str) -> bool:
    """Whether the folder holds sentence pairs."""
    return os.path.isdir(os.path.join(data, "input1"))


def check_folder(data: str, regression: bool, may_lack_labels: bool = False) -> None:
    """Raise InputError unless the folder holds input0 and, for classes, label, each with its dictionary, undamaged."""
    DataFolder(Path(data), regression)
    label = Path(data, "label")
    needed = not regression and not (may_lack_labels and not any(label.glob("*.idx")))
    if needed and not (label / "dict.txt").is_file():
        raise InputError(f"data folder {data} has no label/dict.txt: {PREPROCESS}")


def check_swapped(data: str, training: bool) -> None:
    """The folder must hold pairs that --swap-pairs append can exchange; before ``training`` in one order each.

    Raises:
        InputError: single sentences, or pairs in both orders.
    """
    if not has_pairs(data):
        raise InputError(f"--swap-pairs append needs sentence pairs, but {data} has no input1: leave it out")
    if training and has_exchanged_pairs(DataFolder(Path(data))):
        raise InputError(
            f"--swap-pairs append: {data} was made with --swap-pairs append and has each training pair in both orders: "
            "leave it out"
        )


def check_files(data: str, split: str, regression: bool | None, combine: bool = False) -> None:
    """Every file of a split (``combine``: and of split1, split2 ..., as fairseq reads them) must be undamaged.

    ``regression``: whether labels are scores; None: whether the folder has any.

    Raises:
        InputError: a file is damaged, or there is no such split, or nothing in it.
    """
    folder = DataFolder(Path(data), regression)
    if split not in folder.splits:
        raise InputError(
            f"data folder {data} has no input0/{split}.idx: name a split that it has, {' or '.join(folder.splits)}"
        )
    examples = [check_split(folder, name) for name in (folder.joined(split) if combine else [split])]
    if not examples[0]:
        raise InputError(f"split {split} of {data} is empty: {PREPROCESS}")


def find_questions(data: str, split: str, reports: Sequence[str], examples: int) -> Questions | None:
    """Return which question each example of a split answers; None where examples are no answers.

    Raises:
        InputError: ``reports`` has a metric of questions, and the folder does not say which there are; there are other
            splits' examples among them.
    """
    questions = DataFolder(Path(data)).questions(split)
    if questions is not None and len(questions.number) != examples:
        raise InputError(
            f"--combine-valid-subsets: {os.path.join(data, question_file(split))} has the questions of {split} alone: "
            "leave it out"
        )
    for metric in reports:
        known = questions is not None and (metric not in OF_TEXTS or questions.em is not None)
        if metric in OF_QUESTIONS and not known:
            what = "no" if questions is None else "no texts of answers in"
            raise InputError(
                f"{flag_name(REPORT + metric)} scores questions, and {data} has {what} {question_file(split)}: "
                "leave it out, or make the folder with python -m preprocess"
            )
    return questions


def both_lengths(data: str, split: str, dictionary: Dictionary, combine: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Lengths of the first sentences of a split, and of the second ones, None without; see ``sentence_lengths``."""
    a = sentence_lengths(data, "input0", split, dictionary, combine)
    return a, sentence_lengths(data, "input1", split, dictionary, combine) if has_pairs(data) else None


def sentence_lengths(data: str, part: str, split: str, dictionary: Dictionary, combine: bool) -> np.ndarray:
    """Lengths of the sentences of ``part`` (input0 or input1) without their closing ``</s>``."""
    sentences = read_sentences(data, part, split, dictionary, combine)
    return np.asarray(sentences.sizes) - 1  # a copy: the sizes lie in a file that fairseq closes with the data set


def read_sentences(data: str, part: str, split: str, dictionary: Dictionary, combine: bool) -> Any:
    """fairseq's dataset of the sentences of ``part`` (input0 or input1), each closed by ``</s>``."""
    return data_utils.load_indexed_dataset(os.path.join(data, part, split), dictionary, combine=combine)


def encode_text(data: str, text: str) -> list[int]:
    """Ids of a text by the encoder that the folder records, without ``</s>``."""
    return text_encoder(data, text).encode([text])[0][:-1].tolist()


def text_encoder(data: str, text: str) -> Encoder:
    """Return the encoder that the folder records (``preprocess.json``), to encode ``text``.

    Raises:
        InputError: it is not there, or not the one that the folder was made with.
    """
    if not os.path.isfile(os.path.join(data, FOLDER_FACTS)):
        raise InputError(
            f"{data}/{FOLDER_FACTS} is missing, so that {text!r} cannot be encoded as the data was: make "
            "the folder with python -m preprocess"
        )
    folder = DataFolder(Path(data))
    encoder = load_encoder(*folder_encoder(folder, None, None))
    check_encoder(folder, encoder)
    return encoder


def folder_record(cfg: Any, dictionary: Dictionary, label_names: list[str]) -> Record:
    """What is known of the task's folder, from its files and the ``preprocess.json`` that our preprocess leaves there.

    Raises:
        InputError: ``preprocess.json`` is damaged.
    """
    pairs = has_pairs(cfg.data)
    facts = preprocess_facts(cfg.data)
    return replace(
        facts,
        regression=cfg.regression_target,
        labels=label_names or None,
        scale=facts.scale if cfg.regression_target else None,
        pairs=pairs,
        tokens={"--init-token": cfg.init_token, "--separator-token": cfg.separator_token if pairs else None},
        prompt_position=cfg.prompt_position,
        dictionary=symbols_fingerprint(dictionary),
        vectors=vector_digests(cfg.data),
    )


def vector_digests(data: str) -> dict[str, str] | None:
    """SHA-256 of the files that the folder's word vectors come from; None where it has none that can be read."""
    try:
        digests = read_facts(Path(data)).get("vectors_sha256")
    except InputError:
        return None
    return digests if fits(digests, dict[str, str]) else None


def preprocess_facts(data: str) -> Record:
    """What ``preprocess.json`` says: the task's name, the encoder, the scale of scores; nothing where there is none.

    Raises:
        InputError: it is damaged.
    """
    path = Path(data, FOLDER_FACTS)
    if not os.path.isfile(path):  # Path's own fails in a folder that one may not enter
        return Record()
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        own = ("task", "scale", "bpe", "vocab", "max_length")
        found = {**{name: facts.get(name) for name in own}, "bpe_sha256": facts.get("vocab_sha256")}
        return read_record(found, str(path))
    except (OSError, ValueError, AttributeError, RecursionError):
        raise InputError(f"{path} is damaged: make the folder with python -m preprocess") from None
