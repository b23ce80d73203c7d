"""``load``: a checkpoint that was trained, ready to read sentences."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, overload

import torch

from ..errors import InputError
from ..models.config import predicts_words
from ..out_of_memory import put_on, usual_device
from ..representations.cache import NO_CACHES
from ..saving.configuration import check_is_ours
from ..saving.reading import check_is_there, load_state
from ..saving.record import Record, saved_record
from ..saving.tensors import FINGERPRINT
from ..tasks.folder import preprocess_facts
from ..tasks.template import Template, find_phrasing
from .examples import keep_beginnings
from .int8 import check_int8, put_in_int8
from .many import ManyTasks
from .predictor import Predictor
from .text import TextEncoder, find_text_encoder, find_vectors
from .trained import LoadedModel, build_trained

Device = str | torch.device | None
File = str | Path | None
Several = list[Any] | tuple[Any, ...] | Mapping[str, Any]


@overload
def load(checkpoint: str | Path, *args: Any, **options: Any) -> Predictor: ...


@overload
def load(checkpoint: Several, *args: Any, **options: Any) -> ManyTasks: ...


def load(
    checkpoint: str | Path | Several,
    device: Device = None,
    backbone: File = None,
    fp16: bool = False,
    vocab: File = None,
    vectors: File = None,
    truncate: bool = False,
    int8: bool = False,
) -> Predictor | ManyTasks:
    """Return a trained model that reads sentences, see ``Predictor.predict``; of several on one backbone ``ManyTasks``.

    Args:
        checkpoint: what fairseq-train saved, or a folder that ``python -m fairseq_idpg.export`` made of it. Or a list
            of such, or {name of a task: such}: their tasks share one backbone in memory.
        device: where the model goes; default: a GPU if there is one.
        backbone: the backbone's model.pt, if it has moved since the training.
        fp16: compute in half precision, on a GPU.
        vocab: folder of the encoder's files, if they have moved; the default is to look where they were when the data
            was made, beside the backbone and beside the checkpoint.
        vectors: file of the word vectors that the model was trained on, for methods that read them (GloVe).
        truncate: cut texts that are too long at their ends, although the model was trained on whole ones.
        int8: compute in int8, on a CPU that has instructions for it: faster, with other rounding; see ``int8.py``.

    Raises:
        InputError: a file is missing, damaged, or not the one that the model was trained with; the model does not fit
            into memory; tasks cannot share a backbone.
    """
    options: dict[str, Any] = {"device": device, "fp16": fp16, "truncate": truncate, "int8": int8}
    options.update(backbone=backbone, vocab=vocab, vectors=vectors)
    if isinstance(checkpoint, (str, Path)):
        return open_checkpoint(str(checkpoint), **options)
    named = checkpoint.items() if isinstance(checkpoint, Mapping) else ((None, path) for path in checkpoint)
    return open_many(named, **options)


def open_many(checkpoints: Iterable[tuple[str | None, Any]], **options: Any) -> ManyTasks:
    """Return the tasks of checkpoints, by the names that they are given, if any; see ``load`` and ``ManyTasks.add``."""
    many = ManyTasks(partial(open_checkpoint, shares=True, **options))
    for name, path in checkpoints:
        many.add(path, name)
    return many


def open_checkpoint(
    path: str,
    device: Device = None,
    fp16: bool = False,
    truncate: bool = False,
    backbone: File = None,
    vocab: File = None,
    vectors: File = None,
    data: str | None = None,
    int8: bool = False,
    shares: bool = False,
) -> Predictor:
    """``load`` of one checkpoint.

    Args:
        data: a folder to use instead of that of the training.
        shares: the backbone is for several tasks, so that no method is merged into it.
    """
    what = f"checkpoint {path}"
    target = torch.empty(0, device=usual_device(cpu=False) if device is None else device).device
    if fp16 and target.type == "cpu":
        raise InputError("`fp16` is for a GPU, and this model would be on the CPU: leave it out")
    if int8:
        check_int8(target)
    moved = {name: str(place) for name, place in (("backbone", backbone), ("data", data)) if place is not None}
    state, record = read_trained(path, {**NO_CACHES, **moved})
    cfg = state["cfg"]
    text = find_text_encoder(record, None if vocab is None else str(vocab), usual_places(path, cfg), what)
    keep_beginnings(cfg.task, truncate)
    with torch.random.fork_rng(devices=[]):  # a model draws its initial values
        loaded = build_trained(state, path, "checkpoint", text.dictionary)
    template = set_verbalisers(loaded, cfg, record, text)
    if not shares:
        loaded.model.merge_method()
    means = find_vectors(None if vectors is None else str(vectors), loaded.model, record, text)
    model = put_on(target, loaded.model.half() if fp16 else loaded.model, what)
    if int8:
        put_in_int8(model.encoder.sentence_encoder)
    return Predictor(model.eval(), loaded.task, record, text, means, template)


def read_trained(path: str, changes: dict[str, Any]) -> tuple[dict[str, Any], Record]:
    """Return what a checkpoint holds, with ``changes`` of its options, and what it says of its data.

    Raises:
        InputError: it is missing, damaged, no model of ours, or its backbone is gone.
    """
    what = f"checkpoint {path}"
    check_is_there(path, what)
    state = load_state(path, "checkpoint", changes)
    check_is_ours(state, what)
    record, cfg = recorded(state, what), state["cfg"].model
    # where a checkpoint has no backbone in it
    if not os.path.isfile(cfg.backbone or "") and not (cfg.save_full_model or cfg.no_freeze_backbone):
        raise InputError(f"the backbone of {what}, {cfg.backbone}, is not there: say with `backbone` where it is now")
    return state, record


def recorded(state: dict[str, Any], what: str) -> Record:
    """Return what a checkpoint records of its data; raise InputError for one of an early version."""
    record = saved_record(state["model"], what)
    if record is None or FINGERPRINT not in state["model"] or not (record.regression or record.labels):
        raise InputError(
            f"{what} is of an earlier version, which recorded nothing of its data: predict for a folder of it with "
            "python -m fairseq_idpg.predict DATA-bin, or train it again"
        )
    return record


def set_verbalisers(loaded: LoadedModel, cfg: Any, record: Record, text: TextEncoder) -> Template | None:
    """Tell a model that predicts words which ones, and return the template that texts are put into; else None."""
    if not predicts_words(cfg.model):
        return None
    template, words = find_phrasing(cfg.model, cfg.task, text.dictionary, bool(record.pairs), text.encoder)
    loaded.model.predict_words(cfg.task.classification_head_name, words)
    loaded.task.template = replace(template, behind_space=text.behind_space)
    return loaded.task.template


def usual_places(path: str, cfg: Any) -> Iterator[Path]:
    """Yield where the encoder may be: where the training data says, beside the backbone, beside the checkpoint."""
    try:
        vocab = preprocess_facts(cfg.task.data).vocab
    except InputError:  # what is there now need not be the data of the training
        vocab = None
    if vocab:
        yield Path(vocab)
    yield from (Path(os.path.abspath(place)).parent for place in (cfg.model.backbone, path) if place)
