"""Loading a model to look at: a trained checkpoint, of this package or of fairseq itself, or an untouched backbone."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.data import Dictionary
from fairseq.dataclass.utils import merge_with_parent
from fairseq.models import MODEL_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from omegaconf.errors import ConfigAttributeError

from preprocess.dictionary import SPECIAL
from preprocess.errors import reason_of

from ..errors import InputError
from ..models.config import open_options
from ..representations.cache import NO_CACHES
from ..saving.backbone_file import backbone_path, read_backbone, recorded_sizes
from ..saving.reading import load_state
from ..saving.record import saved_record
from ..tasks.task import SentencePredictionIDPGTask
from .text import task_dictionary

TASK_CLASSES = {"sentence_prediction": SentencePredictionTask, "sentence_prediction_idpg": SentencePredictionIDPGTask}


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode.

    Attributes:
        name: its method, or fairseq's name of a model without one.
        path: the file it comes from.
        task: settings that its batches are made with; ``cfg`` and ``source_dictionary`` at least.
    """

    name: str
    path: str
    model: Any
    task: Any

    @property
    def prompt_length(self) -> int:
        """Rows that every input must have room for; fairseq's own models take none."""
        return getattr(self.model, "prompt_length", 0)

    def check_backbone(self) -> None:
        """Raise ModelLost where somebody has written into the backbone's file; fairseq's own models read none."""
        if isinstance(self.model, MODEL_REGISTRY["roberta_idpg"]):
            self.model.check_backbone()


def load_dictionary(path: str) -> Dictionary:
    """Return a dict.txt as the task reads it, <mask> at its end.

    Raises:
        InputError: it does not exist or is no dictionary.
    """
    try:
        return SentencePredictionTask.load_dictionary(path)
    except Exception as error:  # fairseq raises that, of bytes that are no UTF-8
        raise InputError(f"{path} is not a dictionary ({error}): name a dict.txt or a binarized folder") from None


def load_trained(
    path: str,
    option: str,
    dictionary: Dictionary,
    overrides: dict[str, Any],
    check: Callable[[Any], None] = lambda cfg: None,
) -> LoadedModel:
    """Return the trained model of a checkpoint.

    Args:
        option: the option that named ``path``, for errors.
        dictionary: of the text that the model will read.
        overrides: values that replace those of the checkpoint's configuration; a "data" that is not given stays.
        check: sees the model's configuration before anything large is built, and may refuse it.

    Raises:
        InputError: see ``load_state``; the model does not fit ``dictionary`` or this version; its backbone is missing
            or another.
    """
    return build_trained(_state_of(path, option, overrides, check), path, option, dictionary)


def load_for_folder(
    path: str, option: str, overrides: dict[str, Any], check: Callable[[Any], None] = lambda cfg: None
) -> LoadedModel:
    """Return what ``load_trained`` does, to read examples of ``overrides["data"]`` as in training and prediction.

    In the template of a masked language model, with the folder's word vectors, pairs as pairs; data that the model was
    not made for is refused.
    """
    state = _state_of(path, option, overrides, check)
    (model,), _, task = load_model_ensemble_and_task([path], state=state)
    return LoadedModel(state["cfg"].model.method, path, model.eval(), task)


def _state_of(path: str, option: str, overrides: dict[str, Any], check: Callable[[Any], None]) -> dict[str, Any]:
    if not path:
        raise InputError(f"{option} is empty: name a checkpoint")
    state = load_state(path, option, {**NO_CACHES, **overrides})
    check(state["cfg"].model)
    return state


def build_trained(state: dict[str, Any], path: str, option: str, dictionary: Dictionary) -> LoadedModel:
    """Return the model of a checkpoint that was read; arguments and errors are those of ``load_trained``."""
    cfg = state["cfg"]
    if cfg.task.init_token is None:
        raise InputError(f"{option} {path} was trained without --init-token, so that it has no <s> state: give another")
    # not setup_task: the text may have other labels, or none, than the data that the model was trained on
    name = cfg.task._name
    complete = merge_with_parent(TASK_DATACLASS_REGISTRY[name](), cfg.task)  # an older checkpoint lacks newer options
    record = saved_record(state["model"], f"{option} {path}")
    names = [] if record is None else record.labels or []
    # fairseq's recipe reads the name of class i at nspecial + i; of scores its label dictionary is that of the text
    labels = dictionary if complete.regression_target else task_dictionary([*SPECIAL, *names])
    task = TASK_CLASSES[name](complete, dictionary, labels)
    task.model_record = record
    try:
        (model,), _, _ = load_model_ensemble_and_task([path], state=state, task=task)
    except (RuntimeError, ConfigAttributeError) as error:
        reason = reason_of(error)
        raise InputError(
            f"{option} {path} cannot be loaded with a dictionary of {len(dictionary)} symbols ({reason}): give data "
            "and checkpoint of one backbone, trained with this version"
        ) from None
    return LoadedModel(getattr(cfg.model, "method", None) or cfg.model._name, path, model.eval(), task)


def load_untrained(path: str, dictionary: Dictionary) -> LoadedModel:
    """Return the untouched backbone: nothing injected, nothing trained.

    Raises:
        InputError: it is missing, does not record its size, or has another dictionary.
    """
    backbone = read_backbone(backbone_path(path))
    positions = backbone.args.get("max_positions", 512)
    options = open_options(**recorded_sizes(backbone), max_positions=positions, method="head-only", backbone=path)
    cfg = SimpleNamespace(init_token=dictionary.bos(), max_positions=positions)
    task = SimpleNamespace(cfg=cfg, source_dictionary=dictionary)
    model = MODEL_REGISTRY["roberta_idpg"].build_model(options, task)
    return LoadedModel("backbone, not fine-tuned", os.path.abspath(path), model.eval(), task)
