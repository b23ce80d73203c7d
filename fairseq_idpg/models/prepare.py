"""What a model needs besides its backbone: options before it is built, starting values and records afterwards.

The task hands ``DataFacts`` to ``complete_options`` before it builds a model, and to ``prepare_model`` after that.
"""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairseq.data import Dictionary

from ..errors import InputError
from ..methods.base import Method, WordEmbeddings
from ..methods.registry import find_preset
from ..names import as_typed
from ..optim.grouped_adam import mark_groups
from ..optim.half_precision import KeptHalfPrecision
from ..representations.kinds import GLOVE
from ..representations.stored import vectors_width
from ..saving.backbone_file import NO_BACKBONE
from ..saving.record import SECTION, KeptRecord, Record, symbols_fingerprint
from .config import fill_method_options, predicts_words
from .heads import load_head

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DataFacts:
    """Facts that only the task knows."""

    task_cfg: Any
    dictionary: Dictionary
    encode: Callable[[str], list[int]]  # text -> ids, as the data folder was encoded
    record: Record | None  # of the folder; None where the model will read texts
    take_order: Callable[[list[str]], None] | None  # takes the order of a checkpoint's classes, if there are classes


def complete_options(cfg: Any, data: DataFacts) -> None:
    """Put the options of the model as they take effect into ``cfg``, which every checkpoint keeps.

    Raise InputError where --arch is fairseq's, or the method's options do not fit each other or the data.
    """
    if getattr(cfg, "method", None) is None:
        raise InputError(f"--arch {getattr(cfg, '_name', None)} cannot take prompts: give --arch roberta_idpg")
    folder, width = data.task_cfg.data, getattr(cfg, "representation_width", None)
    fill_method_options(cfg)
    if find_preset(cfg.method).needs_pairs and data.record is not None and not data.record.pairs:
        raise InputError(f"--method {cfg.method} needs pairs, and {folder} has none: preprocess it with --efl")
    # The width is that of the folder's vectors; a model that reads texts keeps the one that its checkpoint records.
    if getattr(cfg, "representation", None) == GLOVE and not (width and data.record is None):
        cfg.representation_width = vectors_width(folder, width)
    if cfg.backbone and cfg.backbone != NO_BACKBONE:
        cfg.backbone = os.path.abspath(cfg.backbone)


def prepare_model(model: Any, data: DataFacts, training: bool) -> None:
    """Give a model starting values, records for its checkpoints, and groups for its optimizer.

    Only a new model (``training``) gets starting values; else a checkpoint brings them. Raise InputError where a
    starting value is missing, or an option changes nothing.
    """
    cfg, method = model.args, model.method
    if data.record is None:
        kept = KeptRecord(Record(dictionary=symbols_fingerprint(data.dictionary)), "the text", None, training)
    else:
        reads_vectors = method is not None and method.representation == GLOVE
        kept = KeptRecord(data.record, data.task_cfg.data, data.take_order, training, reads_vectors)
    model.kept[SECTION] = kept
    if training:
        model.kept["fp16"] = KeptHalfPrecision(saved=not cfg.no_save_optimizer_state)
        set_initial_values(model, data)
        check_method_effects(cfg, method)
        check_has_rows(data.task_cfg, cfg, method)
    prompts, words = ([], []) if method is None else (method.prompt_parameters(), method.word_parameters())
    mark_groups(model, prompts, words)
    log_model(model, data.task_cfg.prompt_position)


def set_initial_values(model: Any, data: DataFacts) -> None:
    """Give the method its starting values, and the head those of the checkpoint that --head-init-from names."""
    cfg = model.args
    if str(getattr(cfg, "prompt_init", None)) == "class-labels" and cfg.prompt_init_text:
        texts, classes = cfg.prompt_init_text.split("|"), data.task_cfg.num_classes
        if len(texts) != classes > 1:
            raise InputError(f"--prompt-init-text has {len(texts)} texts for {classes} classes: give one each, a|b")
    if model.method is not None:
        embeddings, special = model.encoder.sentence_encoder.embed_tokens.weight, data.dictionary.nspecial
        fingerprint, symbols = model.backbone_fingerprint, data.dictionary.symbols
        words = WordEmbeddings(embeddings, special, data.encode, fingerprint, symbols=symbols)
        model.method.set_initial_values(cfg, words)
    if cfg.head_init_from:
        assert data.record is not None
        load_head(model, cfg.head_init_from, data.task_cfg.classification_head_name, data.record)


def check_method_effects(cfg: Any, method: Method | None) -> None:
    """Raise InputError for options of a new run's method that change nothing, with the reason."""
    defaults = find_preset(cfg.method).defaults
    for name, reason in ({} if method is None else method.without_effect(cfg)).items():
        if str(getattr(cfg, name)) != str(defaults[name]):
            raise InputError(f"{as_typed(cfg, name)} has no effect: {reason}")


def check_has_rows(task_cfg: Any, cfg: Any, method: Method | None) -> None:
    """Raise InputError for a --prompt-position of a method that inserts no rows into the input."""
    position = task_cfg.prompt_position
    if position and not getattr(method, "prompt_length", 0):
        raise InputError(f"--prompt-position {position} has no effect with --method {cfg.method}: leave it out")


def log_model(model: Any, position: int) -> None:
    counts = model.parameter_counts()
    method, head, backbone = counts["method"], counts["head"], counts["backbone"]
    trainable, total = sum(p.numel() for p in model.parameters() if p.requires_grad), sum(counts.values())
    part = sum(p.numel() for p in model.encoder.sentence_encoder.parameters() if p.requires_grad)
    state = "trained" if part == backbone else f"frozen but for {part:,} that the method trains" if part else "frozen"
    logger.info(
        f"method {model.args.method}: {trainable:,} trainable of {total:,} parameters ({trainable / total:.3%}): "
        f"method {method:,} ({method / backbone:.3%} of the backbone), head {head:,}, backbone {backbone:,} {state}"
    )
    if model.method is not None:
        place = f" from position {position}" if model.prompt_length else ""
        representation = f"; representation {model.method.representation}" if model.method.representation else ""
        logger.info(f"{model.method.describe()}{place}{representation}")
    if predicts_words(model.args):
        logger.info(f"predicted by the backbone's LM head, frozen: {model.args.template} ({model.args.verbalisers})")
    logger.info(f"backbone: {model.args.backbone} (SHA-256 {model.backbone_digest})")
