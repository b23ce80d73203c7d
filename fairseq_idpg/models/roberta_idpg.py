"""``roberta_idpg``: a frozen RoBERTa that takes prompts or adapters, their method, and a classification head.

representation M(x) -> method (prompt rows, adapters) -> encoder with these injected -> head (or its own LM head)
"""

import argparse
import copy
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import ARCH_CONFIG_REGISTRY, register_model, register_model_architecture
from fairseq.models.roberta.model import RobertaModel, base_architecture
from omegaconf import OmegaConf
from torch import Tensor

from ..backbone.cpu import drop_quickly
from ..backbone.encoder import OpenRobertaEncoder
from ..backbone.injection import NO_ROOM, NOTHING, Injection, Room, Start
from ..backbone.weights import Undrawn, check_geometry
from ..errors import InputError
from ..methods.base import Geometry, Method
from ..methods.registry import find_preset
from ..representations.kinds import GLOVE, pass_representation
from ..saving.backbone_file import backbone_path, read_backbone
from .checkpoint import SavesTrainableOnly
from .config import SIZES, RobertaIDPGConfig, fill_method_options, predicts_words
from .graphs import TrainingGraphs
from .heads import VerbaliserHead
from .prepare import prepare_model
from .short_form import complete_arguments
from .size import check_encoder_size, check_size

logger = logging.getLogger(__name__)


@register_model("roberta_idpg", dataclass=RobertaIDPGConfig)
class RobertaIDPGModel(SavesTrainableOnly, RobertaModel):
    """fairseq's RoBERTa with a prompt method attached."""

    # attributes, for modules that may not import those of models
    check_size = staticmethod(check_size)
    prepare = prepare_model

    def __init__(
        self, args: argparse.Namespace, encoder: OpenRobertaEncoder, draws: AbstractContextManager | None = None
    ):
        # RobertaModel draws every Linear and Embedding again, so the method, which draws its own, is built later.
        with draws or nullcontext():
            super().__init__(args, encoder)
        self.requires_grad_(False)
        stack = self.encoder.sentence_encoder.requires_grad_(args.no_freeze_backbone)
        self.predicts_words = predicts_words(args)
        if self.predicts_words:
            self.encoder.lm_head.requires_grad_(args.no_freeze_backbone)
        # None without a method, as with --method head-only or fine-tuning
        self.method: Method | None = find_preset(args.method).build(args, Geometry.of(args))
        if self.method is not None:
            # Without a method the encoder is fairseq's. With one it draws dropout faster and skips pads.
            drop_quickly(stack)
            for layer in stack.layers:
                layer.skips_pads = True
            for name, parameter in stack.named_parameters():
                parameter.requires_grad_(parameter.requires_grad or self.method.trains(name))
            if self.method.own_encoder:
                self.method.encoder = copy.deepcopy(self.encoder).requires_grad_(True)
                self.method.encoder.lm_head = None
        # M(x) has a gradient where any weight is trained that it comes from.
        trained = [name.split(".") for name, parameter in stack.named_parameters() if parameter.requires_grad]
        self.trains_encoder = bool(trained) or self.method is not None and self.method.own_encoder
        # The first layer in which, or in front of which, anything is injected or trained (the embedding: 0), or L
        # without any. Without dropout the states that enter it depend on the text alone.
        injected = len(stack.layers) if self.method is None else self.method.first_layer(len(stack.layers))
        self.first_layer = min([injected, *(int(parts[1]) if parts[0] == "layers" else 0 for parts in trained)])
        if getattr(args, "checkpoint_activations", False):
            stack.checkpointed_from = self.first_layer
        self.graphs = TrainingGraphs() if str(getattr(args, "gpu_graphs", "off")) == "auto" else None

    def _apply(self, fn: Any, recurse: bool = True) -> "RobertaIDPGModel":
        # A move, or another precision, leaves recordings that read the weights where they were.
        if getattr(self, "graphs", None) is not None:
            self.graphs = TrainingGraphs()
        return super()._apply(fn, recurse)

    @staticmethod
    def add_args(parser: argparse.ArgumentParser) -> None:
        gen_parser_from_dataclass(parser, RobertaIDPGConfig(), delete_default=True)

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "RobertaIDPGModel":
        """Build the model and fill it from ``cfg.backbone``, unless a checkpoint will bring all weights.

        Raise InputError where options contradict each other, or the backbone is missing, damaged or of another size.
        """
        fill_method_options(cfg)
        options: Any = OmegaConf.to_container(cfg, resolve=True) if OmegaConf.is_config(cfg) else vars(cfg)
        args = argparse.Namespace(**options)
        base_architecture(args)
        try:
            path = backbone_path(args.backbone)
        except InputError:
            if not (args.save_full_model or args.no_freeze_backbone):
                raise
            logger.warning("backbone %s is missing; waiting for a checkpoint that holds all weights", args.backbone)
            return cls(args, OpenRobertaEncoder(args, task.source_dictionary))
        backbone = read_backbone(path)
        check_geometry(backbone, args, task.source_dictionary)
        check_encoder_size(args, backbone)
        # A checkpoint replaces what a trained model would draw at its start, so that is left out.
        draws = Undrawn() if getattr(task, "judges", False) else None
        with draws or nullcontext():
            encoder = OpenRobertaEncoder(args, task.source_dictionary)
        model = cls(args, encoder, draws)
        model.load_backbone(backbone)
        return model

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str,
        checkpoint_file: str = "checkpoint_best.pt",
        data_name_or_path: str | None = None,
        **options: Any,
    ):
        """Return fairseq's hub interface of a trained model: ``encode``, ``extract_features``, ``predict``.

        Args:
            model_name_or_path: the folder of ``checkpoint_file``, or a folder to share.
            data_name_or_path: a folder that records the encoder of texts, where the checkpoint's is not meant;
                ``task.load_dataset`` reads its splits.
            options: see ``fairseq_idpg.load``.
        """
        hub = import_module("..inference.hub", __package__)  # which stands above the models
        return hub.from_pretrained(model_name_or_path, checkpoint_file, data=data_name_or_path, **options)

    @property
    def prompt_length(self) -> int:
        """t, the rows that every input must have room for; 0 where none are inserted into the input."""
        return 0 if self.method is None else self.method.prompt_length

    def register_classification_head(self, name: str, num_classes: int | None = None, **kwargs: Any) -> None:
        # where the LM head predicts, ``predict_words`` registers it
        if not predicts_words(self.args):
            super().register_classification_head(name, num_classes, **kwargs)

    def predict_words(self, name: str, words: list[int]) -> VerbaliserHead:
        """Predict with the LM head instead of the head ``name``; ``words``: the token of each class's word."""
        all_words = str(self.args.verbaliser_loss) == "vocabulary"
        self.classification_heads[name] = VerbaliserHead(self.encoder.lm_head, words, all_words)
        return self.classification_heads[name]

    def merge_method(self) -> None:
        """Write the method into the backbone's weights where it can be, for prediction; it is not saved again.

        A method that reads M(x), which the untouched backbone computes, stays apart.
        """
        if self.method is not None and self.method.representation is None:
            self.method.merge(self.encoder.sentence_encoder)

    def parameter_counts(self) -> dict[str, int]:
        """Count ``method``, ``head`` and ``backbone`` parameters (embeddings and layers, without the LM head)."""
        parts = {"method": self.method, "head": self.classification_heads, "backbone": self.encoder.sentence_encoder}
        return {name: sum(p.numel() for p in part.parameters()) if part else 0 for name, part in parts.items()}

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        prompted_tokens: Tensor | None = None,
        prompt_offset: Tensor | None = None,
        representation: Tensor | None = None,
        states: Tensor | None = None,
        padded: bool | None = None,
        mask_index: Tensor | None = None,
        inspect: Callable[[Injection], Injection] | None = None,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        classification_head_name: str | None = None,
        **kwargs: Any,
    ):
        """Run RoBERTa with what the method injects; return (B x T' x d features or B x classes logits, extra).

        Args:
            src_tokens: B x T, the raw input; M(x) is computed from it.
            prompted_tokens: B x T', the input with placeholders where the prompt goes (from the task).
            prompt_offset: B, index of the first placeholder in each row of ``prompted_tokens``.
            representation: B x w, M(x) where the batch brings it (word vectors, rows of a cache).
            states: T x B x d, what enters layer ``first_layer`` where the batch brings it; no layer below is run then.
            padded: whether either kind of tokens has pads (from the task).
            mask_index: B, index of the template's ``<mask>`` in each row of what the encoder reads (from the task).
            inspect: gets the injection, and returns the one to use instead.

        Raise InputError where the backbone was not loaded, or the batch lacks the prompt's place or vectors.
        """
        if not self.backbone_loaded:
            raise InputError(f"--backbone {self.args.backbone} was not loaded: give the path of its model.pt")
        # One GPU replays training passes that were recorded on batches of the same shape: see ``TrainingGraphs``, which
        # calls this function again to record. Passes that return more than logits are not recorded.
        needs_layers = return_all_hiddens or inspect is not None
        usual = states is None and not (needs_layers or kwargs)
        if self.training and self.graphs is not None and classification_head_name is not None and usual:
            tensors = {
                "src_tokens": src_tokens,
                "prompted_tokens": prompted_tokens,
                "prompt_offset": prompt_offset,
                "representation": representation,
                "mask_index": mask_index,
            }
            batch, padded, outputs = self.graphs.replay(self, tensors, padded, classification_head_name)
            if outputs is not None:
                return outputs.pop("logits"), outputs
            src_tokens, prompted_tokens = batch["src_tokens"], batch.get("prompted_tokens")
        method, stack = self.method, self.encoder.sentence_encoder
        kind = None if method is None else method.representation
        if self.prompt_length and prompted_tokens is None or kind == GLOVE and representation is None:
            raise InputError(f"--method {self.args.method} needs batches of --task sentence_prediction_idpg: give it")

        # The encoder reads the text with placeholders, where the task has made room for prompt rows. It begins at
        # layer ``first_layer`` where the batch brings the states that enter it.
        tokens, room = src_tokens, NO_ROOM
        if self.prompt_length:
            assert prompted_tokens is not None and prompt_offset is not None
            tokens, room = prompted_tokens, Room(prompt_offset, self.prompt_length, src_tokens)
        start = None if states is None else Start(self.first_layer, states.type_as(stack.embed_tokens.weight))

        # M(x) is that of the raw text. The batch brings it, or a first pass of the encoder, without any injection,
        # computes it.
        read: Any = None if method is None else pass_representation(self, src_tokens, representation, padded, start)

        # A head on M(x) alone needs no second pass: M(x) stands where the states leave the last layer.
        needs_head = classification_head_name is not None
        if method is not None and method.hides_pass and needs_head and not needs_layers:
            method, start = None, Start(len(stack.layers), read[None])

        # The head reads the state of one token, ``<s>`` or ``<mask>``, so the last layer computes no other. A baseline
        # computes all in training, where dropout then draws what it draws in fairseq.
        head_reads = None
        if needs_head and not needs_layers and not (self.training and method is None):
            head_reads = mask_index if self.predicts_words else tokens.new_zeros(tokens.size(0))

        # The method turns M(x) into an injection; the frozen encoder runs with it, and the head reads the last states.
        # This is a function because training may run it twice.
        def run() -> tuple[Tensor, dict[str, Any]]:
            injection = NOTHING if method is None else method.injection(read)
            x, extra = self.encoder(
                tokens,
                features_only or needs_head,
                return_all_hiddens,
                injection=injection if inspect is None else inspect(injection),
                room=room,
                padded=padded,
                start=start,
                read=head_reads,
                **kwargs,
            )
            if needs_head:
                x = self.classification_heads[classification_head_name](
                    x, mask_index=mask_index if head_reads is None else None, extra=extra
                )
            return x, extra

        x, extra = run()

        # In training a method may compare the logits with those of a second pass, which has other draws (dropout,
        # experts) and the same M(x). Scores have no distribution to compare, so theirs are compared with themselves.
        if method is not None and method.second_pass and self.training and needs_head:
            second_pass_logits = x
            if x.size(-1) > 1:
                # The loss is that of the first pass, and so are the terms that methods add to it.
                first_extras = [(part, part.extra) for part in method.modules() if isinstance(part, Method)]
                second_pass_logits, _ = run()
                for part, first_extra in first_extras:
                    part.extra = first_extra
            method.compare(x, second_pass_logits)
        return x, extra


def fill_size(size: Mapping[str, Any], args: Any) -> None:
    """Fill what ``args`` leave open: a size, and what ``complete_arguments`` adds.

    fairseq's parser sets --tpu with --bf16; without torch_xla there is no TPU.
    """
    for name, value in size.items():
        setattr(args, name, getattr(args, name, value))
    if getattr(args, "bf16", False) and find_spec("torch_xla") is None:
        args.tpu = False
    complete_arguments(args)


# fairseq has registered --arch roberta_idpg with the model, as a size that changes nothing.
ARCH_CONFIG_REGISTRY["roberta_idpg"] = partial(fill_size, {})
for _name, _size in SIZES.items():
    register_model_architecture("roberta_idpg", _name)(partial(fill_size, _size))
