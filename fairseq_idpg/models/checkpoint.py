"""Checkpoints that hold what was trained, and never load onto the wrong backbone.

A checkpoint has the trainable tensors, the head, and the SHA-256 of the backbone's tensors; its configuration has the
path of the backbone's file. For M-IDPG-PHM on RoBERTa-large that is 14 MB instead of 1.4 GB, mostly Adam's state.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from fairseq.models import BaseFairseqModel
from torch import Tensor

from preprocess.checksums import sha256

from ..backbone.weights import ENCODER, LM_HEAD, STACK, TIED, VERSION, Backbone, SharedWeights, as_own
from ..errors import InputError
from ..saving import tensors
from ..saving.record import saved_record
from .config import predicts_words

logger = logging.getLogger(__name__)


class SavesTrainableOnly(BaseFairseqModel):
    """Mixin in front of RobertaModel: ``state_dict`` leaves out the backbone, and loading completes it again.

    ``kept`` has what else a checkpoint keeps, by name, each with ``state_dict`` and ``load_state_dict`` of plain values
    and tensors. It is torch's extra state of a module, which goes wherever the weights go: resuming, validation, other
    processes. fairseq hands a task's state to validation alone.
    """

    def __init__(self, args: Any, encoder: Any):
        super().__init__(args, encoder)
        self.backbone_loaded = False  # whether the encoder holds a real backbone's weights
        self.backbone_file = ""  # their file; version 0.1 knew backbones by the bytes of their files
        self.shared_weights: SharedWeights | None = None  # those that are read from the file when they are needed
        # the tensors of the encoder that the model reads, by the beginnings of their names
        self.parts_read = (STACK, LM_HEAD) if predicts_words(args) else (STACK,)
        self.kept: dict[str, Any] = {}
        self.register_buffer(tensors.FINGERPRINT, torch.zeros(32, dtype=torch.uint8))

    def load_backbone(self, backbone: Backbone) -> None:
        """Take the encoder's weights from a checkpoint, without heads and prompts in it.

        Frozen weights become the file's own, so that they take no memory; trained weights are copied. Raise InputError
        where the checkpoint does not fit --arch, or lacks what the model reads.
        """
        state = {name: value for name, value in backbone.weights.items() if not name.startswith(tensors.HEADS)}
        state.setdefault(VERSION, self._everything()[VERSION])
        super().upgrade_state_dict_named(state, "")  # renames what older fairseq versions wrote
        state = {name: value for name, value in state.items() if name.startswith(ENCODER) and name != TIED}
        if LM_HEAD in self.parts_read:
            backbone.check_lm_head()
        parameters = dict(self.named_parameters())
        own = {name: value.shape for name, value in parameters.items() if name.startswith(STACK)}
        theirs = {name: value.shape for name, value in state.items() if name.startswith(STACK) and name != VERSION}
        misfits = [name for name in {**own, **theirs} if own.get(name) != theirs.get(name)]
        misfits += [name for name, value in state.items() if not value.is_floating_point()]  # quantized: no weights
        if misfits:
            raise InputError(
                f"--backbone {backbone.path} does not fit --arch in {len(misfits)} tensors ({misfits[0]}): give another"
            )
        # torch's own loading: fairseq's would first complete and check a checkpoint of ours
        torch.nn.Module.load_state_dict(self, as_own(state, parameters), strict=False, assign=True)
        if TIED not in parameters:  # the word embeddings, under their own name
            self.encoder.lm_head.weight = self.encoder.sentence_encoder.embed_tokens.weight
        if self.method is not None and self.method.own_encoder:
            self.method.encoder.load_state_dict(self.encoder.state_dict(), strict=False)
        self.backbone_loaded = True
        self.backbone_file = backbone.path
        self.backbone_fingerprint.copy_(tensors.as_fingerprint(backbone.fingerprint(self.parts_read)))
        self.shared_weights = SharedWeights.of(self, backbone)

    @property
    def backbone_digest(self) -> str:
        return tensors.as_digest(self.backbone_fingerprint)

    def train(self, mode: bool = True) -> "SavesTrainableOnly":
        if mode:
            self._check_not_merged()
        return super().train(mode)

    def get_extra_state(self) -> dict[str, Any]:
        state = {name: part.state_dict() for name, part in self.kept.items()}
        return {name: value for name, value in state.items() if value}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        for name, part in self.kept.items():
            if name in state:
                part.load_state_dict(state[name])

    def check_backbone(self) -> None:
        """Raise ModelLost where another process may have written into the file of the weights."""
        if self.shared_weights is not None:
            self.shared_weights.check(self)

    def state_dict(self, *args: Any, prefix: str = "", **kwargs: Any) -> dict[str, Tensor]:
        """Return trainable tensors, the head, the fingerprint and a checksum; everything with --save-full-model.

        With --no-save-optimizer-state training cannot be resumed, so tensors that only training needs are left out.
        """
        self._check_not_merged()
        self.check_backbone()
        if self.method is not None:
            self.method.fold()
        state = super().state_dict(*args, prefix=prefix, **kwargs)
        if getattr(self.args, "no_save_optimizer_state", False):
            for name in self._training_only(state, prefix):
                del state[name]
        if not self.args.save_full_model:
            for name in self._reloaded_from_backbone():
                state.pop(prefix + name, None)
        if not prefix:
            tensors.carry_checksum(state)
        return state

    def _check_not_merged(self) -> None:
        if self.method is not None and self.method.merged:
            raise RuntimeError("the method was merged into the backbone's weights for prediction: load the model anew")

    def _training_only(self, state: dict[str, Tensor], prefix: str = "") -> list[str]:
        """Return the keys of ``state`` that a trained method does not need."""
        names = () if self.method is None else self.method.training_only
        return [key for key in state if key.startswith(tuple(f"{prefix}method.{name}" for name in names))]

    def _reloaded_from_backbone(self) -> Iterator[str]:
        trainable = {n for n, p in self.named_parameters(remove_duplicate=False) if p.requires_grad}
        return (n for n in self._everything() if n.startswith(ENCODER) and n not in trainable)

    def _everything(self) -> dict[str, Tensor]:
        return super().state_dict()

    def upgrade_state_dict_named(self, state_dict: dict[str, Any], name: str) -> None:
        """Complete a checkpoint from the loaded backbone, in place; one of fairseq's own is a start for the encoder.

        A checkpoint with a fingerprint is this package's: then only the frozen backbone may be missing, since this
        model's head and method are random. Raise InputError where the checkpoint's backbone, head, method or options
        are not this model's.
        """
        self._check_not_merged()
        whole = self._everything()
        ours, old = tensors.is_ours(state_dict), state_dict.pop(tensors.OLD_FINGERPRINT, None)

        # Tensors of earlier versions get their present names. fairseq takes a checkpoint without a version for a very
        # old one. It deletes a head of another name or size, which would then stay random.
        if ours:
            state_dict.setdefault(tensors.FINGERPRINT, whole[tensors.FINGERPRINT])
            tensors.check_same_heads(state_dict, whole)
        state_dict.setdefault(VERSION, whole[VERSION])
        super().upgrade_state_dict_named(state_dict, name)

        # A checkpoint of ours must have all that was trained; of fairseq's own the encoder is taken.
        if ours:
            if "run" in self.kept:  # compared first: it names options, where tensors would show sizes
                self.kept["run"].check(state_dict.get(tensors.EXTRA_STATE, {}).get("run", {}))
            if self._training_only(whole) and not self._training_only(state_dict):
                for method in (self.method, *self.method.members):
                    method.folded = True
            self._check_complete(state_dict, whole)
            if saved_record(state_dict, "this checkpoint") is None:
                logger.warning(
                    "this checkpoint is of an earlier version, without a record of its data and a checksum of its "
                    "weights: labels, their order, the encoding of texts and special tokens cannot be compared with "
                    "those of its training"
                )
        else:
            tensors.take_encoder(state_dict, whole)
        tensors.check_shapes(state_dict, whole)

        # A backbone that the checkpoint leaves out must be the loaded one. Frozen weights that it has must be the same.
        if not all(key in state_dict for key in whole if key.startswith(self.parts_read)):
            self._check_same_backbone(state_dict[tensors.FINGERPRINT] if ours else None, old)
        if self.backbone_loaded and not (ours and self.args.save_full_model):
            self._check_same_weights(state_dict, whole, ours)
        self.backbone_loaded = True

        # The loaded backbone has all that is missing now.
        state_dict.setdefault(tensors.EXTRA_STATE, {})
        for key, value in whole.items():
            state_dict.setdefault(key, value)

    def _check_complete(self, state_dict: dict[str, Tensor], whole: dict[str, Tensor]) -> None:
        # the backbone's file has what is frozen, and a folded method does not need what only training did
        folded = [] if self._training_only(state_dict) else self._training_only(whole)
        replaceable = {tensors.EXTRA_STATE, *folded, *self._reloaded_from_backbone()}
        missing = [key for key in whole if key not in state_dict and key not in replaceable]
        unknown = [key for key in state_dict if key not in whole and key != tensors.EXTRA_STATE]
        if missing or unknown:
            raise InputError(
                f"this checkpoint {'lacks ' + missing[0] if missing else 'holds ' + unknown[0]}, "
                f"{'trained' if missing else 'unknown'} here: give the --method and the options it was trained with "
                "(--train-layer-norms true, --no-freeze-backbone), or another --save-dir or --restore-file"
            )

    def _check_same_backbone(self, fingerprint: Tensor | None, old: Tensor | None) -> None:
        """Compare fingerprints of the backbone's tensors, or of its file's bytes, which is the ``old`` one."""
        if not self.backbone_loaded:
            raise InputError(
                f"this checkpoint holds prompts only, and --backbone {self.args.backbone} is missing: give its path"
            )
        theirs, own, source = fingerprint, self.backbone_fingerprint, "its tensors"
        if old is not None:
            theirs, own, source = old, tensors.as_fingerprint(sha256(Path(self.backbone_file))), "the file"
        if theirs is not None and not torch.equal(theirs.cpu(), own.cpu()):
            raise InputError(
                f"--backbone {self.args.backbone} (SHA-256 of {source} {tensors.as_digest(own)[:12]}) is not the "
                f"backbone this checkpoint was trained on (SHA-256 {tensors.as_digest(theirs)[:12]}): give that one"
            )

    def _check_same_weights(self, state_dict: dict[str, Tensor], whole: dict[str, Tensor], ours: bool) -> None:
        # what is frozen here would not be saved again, so a checkpoint may not bring other values for it
        for key in self._reloaded_from_backbone():
            if key not in state_dict or not key.startswith(self.parts_read) or same_values(state_dict[key], whole[key]):
                continue
            trained = "the options it was trained with (--train-layer-norms true, --no-freeze-backbone, --backbone)"
            raise InputError(
                f"{'this checkpoint' if ours else '--restore-file'} holds another encoder than --backbone "
                f"{self.args.backbone}, frozen here ({key} differs): give "
                f"{trained if ours else 'the same file to both, or --backbone alone'}"
            )


def same_values(one: Tensor, other: Tensor) -> bool:
    """Compare up to the rounding of the coarser of two precisions."""
    coarser = one.dtype if one.element_size() < other.element_size() else other.dtype
    return torch.equal(one.to(other.device, coarser), other.to(coarser))
