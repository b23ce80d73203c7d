"""Loading what was trained: ``load`` to answer sentences, ``load_trained`` to look at a model."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, overload

import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.data import Dictionary
from fairseq.dataclass.utils import merge_with_parent
from fairseq.models import MODEL_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from omegaconf.errors import ConfigAttributeError

from preprocess.dictionary import SPECIAL
from preprocess.errors import reason_of

from ..backbone.cpu import pack_linears
from ..errors import InputError, refused
from ..models.config import open_options, predicts_words, use_method_file
from ..out_of_memory import put_on, usual_device
from ..representations.cache import NO_CACHES
from ..saving.backbone_file import backbone_path, read_backbone
from ..saving.configuration import check_is_ours
from ..saving.reading import load_state
from ..saving.record import recorded, saved_record
from ..saving.shared_folder import onnx_file
from ..tasks.template import find_phrasing
from .many import ManyTasks
from .onnx_file import OnnxModel, in_int8
from .peft import reader
from .predictor import Predictor
from .sharing import find_folder
from .text import File, find_text_encoder, find_vectors, task_dictionary

Device = str | torch.device | None
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
    method_file: File = None,
) -> Predictor | ManyTasks:
    """Return a trained model that reads sentences, see ``Predictor.predict``; of several on one backbone ``ManyTasks``.

    Args:
        checkpoint: what fairseq-train saved, or a folder that ``python -m fairseq_idpg.export`` made of it, here or, as
            ``user/name``, on the Hugging Face hub; a folder of peft; or the model.onnx in a folder, which onnxruntime
            computes on the CPU. Or a list of such, or {name of a task: such}: tasks that are not ONNX files share one
            backbone in memory.
        device: default: a GPU if there is one.
        backbone: the backbone's model.pt, if it has moved since the training.
        fp16: compute in half precision, on a GPU.
        vocab: folder of the encoder's files, if they have moved; default: where they were when the data was made,
            beside the backbone, or beside the checkpoint.
        vectors: file of the word vectors that the model was trained on, for methods that read them (GloVe).
        truncate: cut texts that are too long at their ends, although the model was trained on whole ones.
        int8: compute in int8, on a CPU: faster, with other rounding. The first call makes an ONNX file, in
            CHECKPOINT.int8.
        method_file: Python file of a method that is not part of this package; it is run.

    Raise InputError where a file is missing, damaged, or not the one that the model was trained with; where the model
    does not fit into memory; and where tasks cannot share a backbone.
    """
    options: dict[str, Any] = {"device": device, "fp16": fp16, "truncate": truncate, "int8": int8}
    options.update(backbone=backbone, vocab=vocab, vectors=vectors, method_file=method_file)
    if isinstance(checkpoint, (str, Path)):
        return open_checkpoint(str(checkpoint), **options)
    named = checkpoint.items() if isinstance(checkpoint, Mapping) else ((None, path) for path in checkpoint)
    return open_many(list(named), **options)


def open_many(checkpoints: Sequence[tuple[str | None, Any]], **options: Any) -> ManyTasks:
    """Return the tasks of checkpoints, by their names, if they have one; see ``load``."""
    return ManyTasks(partial(open_checkpoint, shares=len(checkpoints) > 1, **options), checkpoints)


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
    method_file: File = None,
    shares: bool = False,
) -> Predictor:
    """``load`` of one checkpoint, on the folder ``data``; ``shares``: other tasks use its backbone too."""
    path = find_folder(path)
    what = f"checkpoint {path}"
    use_method_file(method_file)
    if int8:
        path = in_int8(path, open_checkpoint, backbone=backbone, vocab=vocab, vectors=vectors)
    # What the checkpoint holds, with its files where they are now. Some checkpoints have the backbone in them.
    moved = {name: str(place) for name, place in (("backbone", backbone), ("data", data)) if place is not None}
    state = load_state(path, "checkpoint", {**NO_CACHES, **moved}, read=reader(path, moved.get("backbone")))
    check_is_ours(state, what)
    onnx = onnx_file(path)
    # A tensor says the whole name of its device, with the number that "cuda" leaves out.
    try:
        target = torch.empty(0, device=usual_device(cpu=onnx is not None) if device is None else device).device
    except (AssertionError, RuntimeError) as error:
        raise refused("device", f"is {device!r} ({reason_of(error)}): give 'cpu', or leave it out") from None
    if fp16 and (onnx or target.type == "cpu"):
        raise InputError("`fp16` is for a GPU, and this model would be on the CPU: leave it out")
    record, cfg = recorded(state, what), state["cfg"]
    options = cfg.model
    whole = onnx or options.save_full_model or options.no_freeze_backbone
    if not whole and not os.path.isfile(options.backbone or ""):
        remedy = "say with `backbone` where its model.pt is now"
        raise InputError(f"the backbone of {what}, {options.backbone}, is not a file: {remedy}")

    # The encoder may be where it was recorded, beside the backbone, or beside the checkpoint.
    beside = [Path(os.path.abspath(place)).parent for place in (options.backbone, path) if place]
    text = find_text_encoder(record, vocab, beside, what)

    keep_beginnings(cfg.task, truncate)
    template, words = None, list[int]()
    if predicts_words(options):
        phrasing, words = find_phrasing(options, cfg.task, text.dictionary, bool(record.pairs), text.encoder)
        template = replace(phrasing, behind_space=text.behind_space)
    if onnx:
        model = OnnxModel(onnx, options, cfg.task.classification_head_name)
        return Predictor(model, SimpleNamespace(cfg=cfg.task), record, text, template=template)
    with torch.random.fork_rng(devices=[]):  # a model draws its initial values: the caller's draws stay the same
        loaded = build_trained(state, path, "checkpoint", text.dictionary)
    model, task = loaded.model, loaded.task
    if template is not None:
        model.predict_words(cfg.task.classification_head_name, words)
        task.template = template
    if not shares:  # a merged method would change the backbone of the other tasks
        model.merge_method()
    means = find_vectors(vectors, model, record, text)
    model = put_on(target, model.half() if fp16 else model, what)
    if target.type == "cpu":
        pack_linears(model.encoder.sentence_encoder.layers)
    return Predictor(model.eval(), task, record, text, means, template)


def keep_beginnings(cfg: Any, truncate: bool) -> None:
    """Cut texts at their ends if the training cut them, at any place; with ``truncate`` in any case."""
    # A random crop would depend on the text's number in a file.
    if truncate:
        cfg.shorten_data_split_list = ""
    if truncate or str(cfg.shorten_method) == "random_crop":
        cfg.shorten_method = "truncate"


@dataclass(frozen=True)
class LoadedModel:
    name: str  # its method, or fairseq's name of a model without one
    path: str
    model: Any
    task: Any  # what its batches are made with; ``cfg`` and ``source_dictionary`` at least

    @property
    def prompt_length(self) -> int:
        """Rows that every input must have room for; fairseq's own models take none."""
        return getattr(self.model, "prompt_length", 0)

    def check_backbone(self) -> None:
        """Raise ModelLost where the backbone's file was written to; fairseq's own models do not read one."""
        if isinstance(self.model, MODEL_REGISTRY["roberta_idpg"]):
            self.model.check_backbone()


def load_trained(
    path: str,
    option: str,
    dictionary: Dictionary | None,
    overrides: dict[str, Any],
    check: Callable[[Any], None] = lambda cfg: None,
) -> LoadedModel:
    """Return the model of a checkpoint, of this package or of fairseq itself; ``option`` named its ``path``.

    ``dictionary``: of the text that the model will read; None: it reads examples of ``overrides["data"]`` as in
    training, in a template and with word vectors. ``check``: sees the model's configuration before anything large is
    built.
    """
    state = load_state(path, option, {**NO_CACHES, **overrides}, read=reader(path, overrides.get("backbone")))
    check(state["cfg"].model)
    if dictionary is not None:
        return build_trained(state, path, option, dictionary)
    (model,), _, task = load_model_ensemble_and_task([path], state=state)
    return LoadedModel(state["cfg"].model.method, path, model.eval(), task)


def build_trained(state: dict[str, Any], path: str, option: str, dictionary: Dictionary) -> LoadedModel:
    """Return the model of a checkpoint that was read; see ``load_trained``."""
    cfg = state["cfg"]
    if cfg.task.init_token is None:
        raise InputError(f"{option} {path} was trained without --init-token, so that it has no <s> state: give another")
    # setup_task would read the data's labels: the text may have others than the training data, or none.
    name = cfg.task._name
    complete = merge_with_parent(TASK_DATACLASS_REGISTRY[name](), cfg.task)  # an older checkpoint lacks newer options
    record = saved_record(state["model"], f"{option} {path}")
    names = [] if record is None else record.labels or []
    # fairseq reads the name of class i at nspecial + i; for scores its label dictionary is that of the text.
    labels = dictionary if complete.regression_target else task_dictionary([*SPECIAL, *names])
    task = TASK_REGISTRY[name](complete, dictionary, labels)
    task.model_record = record
    try:
        (model,), _, _ = load_model_ensemble_and_task([path], state=state, task=task)
    except (RuntimeError, ConfigAttributeError) as error:
        raise InputError(
            f"{option} {path} cannot be loaded with a dictionary of {len(dictionary)} symbols ({reason_of(error)}): "
            "give data and checkpoint of one backbone, trained with this version"
        ) from None
    return LoadedModel(getattr(cfg.model, "method", None) or cfg.model._name, path, model.eval(), task)


def load_untrained(path: str, dictionary: Dictionary) -> LoadedModel:
    """Return the untouched backbone; raise InputError where it is missing or does not fit ``dictionary``."""
    backbone = read_backbone(backbone_path(path))
    positions = backbone.args.get("max_positions", 512)
    options = open_options(**backbone.sizes, max_positions=positions, method="head-only", backbone=path)
    cfg = SimpleNamespace(init_token=dictionary.bos(), separator_token=None, max_positions=positions)
    task = SimpleNamespace(cfg=cfg, source_dictionary=dictionary)
    model = MODEL_REGISTRY["roberta_idpg"].build_model(options, task)
    return LoadedModel("backbone, not fine-tuned", os.path.abspath(path), model.eval(), task)
