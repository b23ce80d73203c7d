"""Whether a trained model can do its work on another one's backbone, and which name its task has."""

import os

import torch

from ..backbone.weights import GEOMETRY
from ..errors import InputError
from ..models.config import predicts_words
from ..saving.record import symbols_fingerprint
from .predictor import Predictor

LOAD_ALONE = "load it alone"


def name_and_path(text: str) -> tuple[str | None, str]:
    """``NAME=FILE`` or ``FILE`` -> its task's name, if one is given, and the file."""
    name, given, path = text.partition("=")
    if given and name and os.sep not in name and not os.path.exists(text):
        return name, path
    return None, text


def check_shares(predictor: Predictor, what: str) -> None:
    """Raises InputError for a model that needs weights of the backbone, or a head of it, for itself."""
    cfg = predictor.model.args
    if predictor.model.trains_encoder:
        trained = "--no-freeze-backbone" if cfg.no_freeze_backbone else f"--method {cfg.method}"
        if not cfg.no_freeze_backbone and str(getattr(cfg, "train_layer_norms", "false")) == "true":
            trained += " --train-layer-norms true"
        raise InputError(
            f"{what}: {trained} trains weights of the backbone, which cannot be shared with other tasks: {LOAD_ALONE}"
        )
    if predicts_words(cfg):
        raise InputError(f"{what}: --predict-with {cfg.predict_with} shares no backbone with other tasks: {LOAD_ALONE}")


def check_same_backbone(predictor: Predictor, first: Predictor, what: str) -> None:
    """Raises InputError where the backbone, or the way from text to its ids, is not that of the ``first`` task."""
    model, other = predictor.model, first.model
    if model.backbone_digest != other.backbone_digest:
        raise InputError(
            f"{what}: its backbone {model.args.backbone} (SHA-256 {model.backbone_digest:.12}) is not that of the "
            f"other tasks, {other.args.backbone} ({other.backbone_digest:.12}): {LOAD_ALONE}"
        )
    sizes, others = ({name: getattr(each.args, name) for name in GEOMETRY} for each in (model, other))
    tensors, expected = (each.encoder.sentence_encoder.state_dict() for each in (model, other))
    changed = [name for name in GEOMETRY if sizes[name] != others[name]]
    changed += [name for name in expected if name not in tensors or not torch.equal(tensors[name], expected[name])]
    if changed:
        raise InputError(f"{what}: its backbone differs from that of the other tasks in {changed[0]}: {LOAD_ALONE}")
    for of_what, own, theirs in (
        ("dictionary", *(symbols_fingerprint(each.text.dictionary) for each in (predictor, first))),
        ("encoder of text", *(each.text.encoder.fingerprint() for each in (predictor, first))),
    ):
        if own != theirs:
            raise InputError(
                f"{what}: its {of_what}, in {predictor.text.folder} (SHA-256 {own:.12}), is not that of the other "
                f"tasks, in {first.text.folder} ({theirs:.12}): {LOAD_ALONE}"
            )
