"""``load``: a checkpoint that was trained, ready to read sentences."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, overload

import torch

from preprocess.errors import reason_of

from ..errors import InputError
from ..models.config import predicts_words
from ..out_of_memory import put_on, usual_device
from ..representations.cache import NO_CACHES
from ..saving.configuration import check_is_ours
from ..saving.reading import check_is_there, load_state
from ..saving.record import Record, saved_record
from ..tasks.folder import preprocess_facts
from ..tasks.template import Template, find_phrasing
from .examples import keep_beginnings
from .glove import find_vectors, reads_vectors
from .int8 import check_int8, put_in_int8
from .many import ManyTasks
from .predictor import Predictor
from .text import TextEncoder, find_text_encoder
from .trained import LoadedModel, build_trained
from .values import check_switches, spelled

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
    """A trained model that reads sentences, see ``Predictor.predict``; of several on one backbone ``ManyTasks``.

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
        InputError: a file is missing, damaged, or not the one that the model was trained with; a switch is neither True
            nor False; the model does not fit into memory.
    """
    options: dict[str, Any] = {"device": device, "fp16": fp16, "truncate": truncate, "int8": int8}
    options.update(backbone=backbone, vocab=vocab, vectors=vectors)
    if isinstance(checkpoint, (str, Path)):
        return open_checkpoint(str(checkpoint), "checkpoint", **options)
    if isinstance(checkpoint, bytes) or not isinstance(checkpoint, Iterable):
        raise InputError(f"load takes a checkpoint, a list of some or {{name: checkpoint}}, not {checkpoint!r:.60}")
    named = checkpoint.items() if isinstance(checkpoint, Mapping) else [(None, path) for path in checkpoint]
    return open_many(named, "checkpoint", **options)


def open_many(checkpoints: Iterable[tuple[str | None, Any]], option: str, **options: Any) -> ManyTasks:
    """The tasks of checkpoints, by the names that they are given, if any; ``options``: of ``open_checkpoint``.

    Raises:
        InputError: see ``load`` and ``ManyTasks.add``; there are none; word vectors are named, and no task reads any.
    """
    many = ManyTasks(partial(open_checkpoint, option=option, shares=True, **options), option)
    for name, path in checkpoints:
        many.add(path, name)
    if not many.tasks:
        raise InputError(f"{option}: the list is empty: give one checkpoint or more")
    if options.get("vectors") is not None and not any(task.means for task in many.tasks.values()):
        named = f"{spelled('vectors', option)} {options['vectors']}"
        raise InputError(f"{named} has no effect: no task reads word vectors: leave it out")
    return many


def open_checkpoint(
    path: str,
    option: str,
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
        option: what named the file, for errors.
        data: in the place of the folder of the training.
        shares: the backbone is for several tasks, so that no method is merged into it, and ``vectors`` are for those
            that read some.
    """
    check_switches(fp16=fp16, truncate=truncate, int8=int8)
    what = f"{option} {path}"
    target = find_device(device, fp16, what)
    if int8:
        check_int8(target, what)
    moved = {name: str(place) for name, place in (("backbone", backbone), ("data", data)) if place is not None}
    state, record = read_trained(path, option, {**NO_CACHES, **moved})
    cfg = state["cfg"]
    text = find_text_encoder(record, None if vocab is None else str(vocab), usual_places(path, cfg), what)
    keep_beginnings(cfg.task, truncate)
    with torch.random.fork_rng(devices=[]):  # a model draws its initial values
        loaded = build_trained(state, path, option, text.dictionary)
    template = put_words(loaded, cfg, record, text)
    if shares:
        vectors = vectors if reads_vectors(loaded.model) else None
    else:
        loaded.model.merge_method()
    means = find_vectors(None if vectors is None else str(vectors), loaded.model, record, text, what)
    model = put_on(target, loaded.model.half() if fp16 else loaded.model, what)
    if int8:
        put_in_int8(model.encoder.sentence_encoder)
    return Predictor(model.eval(), loaded.task, record, text, means, template, option)


def read_trained(path: str, option: str, changes: dict[str, Any]) -> tuple[dict[str, Any], Record]:
    """What a checkpoint holds, with ``changes`` of its options, and what it says of its data.

    Raises:
        InputError: it is missing, damaged, no model of ours, or its backbone is gone.
    """
    what = f"{option} {path}"
    check_is_there(path, what)
    state = load_state(path, option, changes)
    check_is_ours(state, what)
    record, cfg = saved_record(state["model"], what), state["cfg"]
    if record is None or (not record.regression and not record.labels):
        raise InputError(
            f"{what} is of an earlier version, which recorded nothing of its data: predict for a folder of it with "
            "python -m fairseq_idpg.predict DATA-bin, or train it again"
        )
    if record.labels and len(record.labels) != cfg.task.num_classes:
        raise InputError(f"{what} records {len(record.labels)} labels of {cfg.task.num_classes} classes: give another")
    check_backbone(cfg.model, what)
    return state, record


def put_words(loaded: LoadedModel, cfg: Any, record: Record, text: TextEncoder) -> Template | None:
    """Tells a model that predicts words which ones, and its task the template that texts are put into; else None."""
    if not predicts_words(cfg.model):
        return None
    phrasing = find_phrasing(cfg.model, cfg.task, text.dictionary, bool(record.pairs), text.encoder)
    loaded.model.predict_words(cfg.task.classification_head_name, phrasing.words)
    loaded.task.template = replace(phrasing.template, behind_space=text.behind_space)
    return loaded.task.template


def find_device(device: Device, fp16: bool, what: str) -> torch.device:
    """The device that is named, or a GPU if there is one; ``what``: the checkpoint, for errors.

    Raises:
        InputError: there is no such device, or it does not compute in half precision.
    """
    if device is None:
        device = usual_device(cpu=False)
    try:
        found = torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = reason_of(error, 120)
        raise InputError(f"device {device} cannot be used ({reason}): name another, such as cpu") from None
    if fp16 and found.type == "cpu":
        raise InputError(f"{spelled('fp16', what)} is for a GPU, and this model would be on the CPU: leave it out")
    return found


def check_backbone(cfg: Any, what: str) -> None:
    """Raises InputError where the backbone of a checkpoint without one in it is gone."""
    if not os.path.isfile(cfg.backbone or "") and not (cfg.save_full_model or cfg.no_freeze_backbone):
        named = spelled("backbone", what)
        raise InputError(f"the backbone of {what}, {cfg.backbone}, is not there: say with {named} where it is now")


def usual_places(path: str, cfg: Any) -> Iterator[Path]:
    """Where the encoder's files may be: where the training data says, beside the backbone, beside the checkpoint."""
    try:
        recorded: Record = preprocess_facts(cfg.task.data)
    except InputError:
        recorded = Record()
    if recorded.vocab:
        yield Path(recorded.vocab)
    yield from (Path(os.path.abspath(place)).parent for place in (cfg.model.backbone, path) if place)
