"""``--optimizer grouped_adam``: fairseq's Adam with learning rates for the head, the method and word rows.

    lr(head) = --lr * --head-lr,  lr(method) = --lr * --prompt-lr,  lr(backbone, if trained) = --lr

What a method adds to word embeddings (DePT's and EPT's A and B) has lr = --lr * --words-lr.

Groups survive a resume. With --fp16 fairseq puts all parameters into one flat tensor, which has no groups, unless
--fp16-no-flatten-grads is given.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fairseq.optim import register_optimizer
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from torch import nn

from ..errors import InputError
from ..names import TASK, documented

HEAD, METHOD, WORDS, BACKBONE = "head", "method", "words", "backbone"
WEIGHT, BIAS, PROMPT = "weight", "bias", "prompt"
STACKED = "stacked-bias"  # one parameter with the biases of several adapters
GROUP = "param_group"  # the attribute of a parameter


@dataclass
class GroupedAdamConfig(FairseqAdamConfig):
    head_lr: float = documented("factor of --lr for the classification head", 1.0)
    prompt_lr: float = documented("factor of --lr for the method's parameters", 1.0)
    words_lr: float = documented(
        "factor of --lr, not of --prompt-lr, for what adept, dept and ept add to the word embeddings", 1.0
    )
    no_decay_biases: bool = documented("no weight decay for biases, LayerNorms and a learned --adapter-scale", False)
    no_decay_prompts: bool = documented("no weight decay for prompt rows and a generator's output bias", False)


def mark_groups(model: nn.Module, prompts: Iterable[nn.Parameter], words: Iterable[nn.Parameter] = ()) -> None:
    """Name each parameter's group, ``PART/KIND``, in an attribute that fairseq's fp16 copies keep."""
    prompt_ids, word_ids = ({id(parameter) for parameter in parameters} for parameters in (prompts, words))
    for name, parameter in model.named_parameters():
        part = {"classification_heads": HEAD, "method": METHOD}.get(name.split(".")[0], BACKBONE)
        part = WORDS if id(parameter) in word_ids else part
        matrix = STACKED if name.endswith("bias") else WEIGHT
        kind = PROMPT if id(parameter) in prompt_ids else BIAS if parameter.dim() < 2 else matrix
        setattr(parameter, GROUP, f"{part}/{kind}")


@register_optimizer("grouped_adam", dataclass=GroupedAdamConfig)
class GroupedAdam(FairseqAdam):
    """Adam over the groups that ``mark_groups`` named."""

    def __init__(self, cfg: GroupedAdamConfig, params: Iterable[nn.Parameter]):
        self.factors = {HEAD: cfg.head_lr, METHOD: cfg.prompt_lr, WORDS: cfg.words_lr, BACKBONE: 1.0}
        super().__init__(cfg, self._groups(cfg, list(params)))
        self.set_lr(self.optimizer_config["lr"])

    @staticmethod
    def _groups(cfg: GroupedAdamConfig, params: list[nn.Parameter]) -> list[dict[str, Any]]:
        if not all(hasattr(parameter, GROUP) for parameter in params):
            raise InputError(f"--optimizer grouped_adam needs --task {TASK}; --fp16 needs --fp16-no-flatten-grads")
        names = [getattr(parameter, GROUP) for parameter in params]
        parts, kinds = zip(*(name.split("/") for name in names))
        for option, is_set, has_effect, reason in (
            ("--head-lr", cfg.head_lr != 1, HEAD in parts, "no classification head is trained"),
            ("--prompt-lr", cfg.prompt_lr != 1, METHOD in parts, "the method has no parameters"),
            ("--words-lr", cfg.words_lr != 1, WORDS in parts, "the method adds no rows to the word embeddings"),
            ("--no-decay-prompts", cfg.no_decay_prompts, PROMPT in kinds, "the method trains no prompt rows"),
        ):
            if is_set and not has_effect:
                raise InputError(f"{option} has no effect: {reason}: leave it out")
        undecayed = {BIAS, STACKED} if cfg.no_decay_biases else set()
        undecayed |= {PROMPT} if cfg.no_decay_prompts else set()
        if not cfg.no_decay_biases:  # one group for both, as in checkpoints of earlier versions
            names = [name.replace(STACKED, WEIGHT) for name in names]
        members: dict[str, list[nn.Parameter]] = {}
        for name, parameter in zip(names, params):
            members.setdefault(name, []).append(parameter)
        decay = {name: 0.0 if name.split("/")[1] in undecayed else cfg.weight_decay for name in members}
        return [{"params": each, "name": name, "weight_decay": decay[name]} for name, each in members.items()]

    def set_lr(self, lr: float) -> None:
        self._lr = lr
        for group in self.param_groups:
            group["lr"] = lr * self._factor(group)

    def get_lr(self) -> float:
        """Return the learning rate before any factor, as schedulers and the log want it."""
        for group in self.param_groups:
            factor = self._factor(group)
            # reduce_lr_on_plateau changes the groups' own learning rates, without ``set_lr``
            if factor and group["lr"] != self._lr * factor:
                return group["lr"] / factor
        return self._lr

    def _factor(self, group: dict[str, Any]) -> float:
        return self.factors[group["name"].split("/")[0]]
