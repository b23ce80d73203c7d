"""Options and data in a checkpoint, with which a training that goes on is compared."""

import hashlib
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from preprocess.checksums import sha256
from preprocess.flags import flag_name

from ..errors import InputError
from ..methods.registry import find_preset
from ..models.config import METHOD_OPTIONS
from ..saving.configuration import as_options

logger = logging.getLogger(__name__)


def of_method(changeable: bool) -> list[str]:
    """Return the options of methods that a resumed training may change, or may not.

    Another value of the latter gives tensors of the same shape another meaning.
    """
    return [name for name, option in METHOD_OPTIONS.items() if option.metadata["changeable"] == changeable]


# With another value of these, the weights would be of no single setting.
FIXED = {
    "task": (
        *("prompt_position", "init_token", "separator_token", "max_positions", "swap_pairs", "num_classes"),
        *("regression_target", "shorten_method", "shorten_data_split_list"),
    ),
    "model": (
        *("no_freeze_backbone", "pooler_activation_fn", "predict_with", "template", "verbalisers", "verbaliser_loss"),
        "method",
    ),
    "checkpoint": ("best_checkpoint_metric", "maximize_best_checkpoint_metric"),
}
# Another value of these may be meant. --max-epoch and the like are changed all the time and are not mentioned.
CHANGEABLE = {
    "common": ("seed", "fp16", "bf16", "amp"),
    "distributed_training": ("distributed_world_size", "fix_batches_to_gpus", "ddp_comm_hook"),
    "dataset": ("batch_size", "max_tokens", "required_batch_size_multiple", "curriculum", "grouped_shuffling"),
    "optimization": ("lr", "update_freq", "clip_norm", "skip_remainder_batch"),
    "task": ("total_batch_size", "group_by_length", "no_shuffle", "representation_cache_dtype", "state_cache_dtype"),
    "model": ("dropout", "attention_dropout", "activation_dropout", "pooler_dropout"),
    "criterion": ("class_weights",),
}
WHOLE = ("optimizer", "lr_scheduler")  # sections whose options are all changeable, but not their names
PRECISION = "an optimizer of"


class KeptOptions:
    """Options and data of a training, compared with those of the checkpoint that it goes on from.

    ``cfg``: fairseq's whole configuration, as the model has completed it. ``resumes``: whether training goes on with
    the checkpoint; otherwise it starts from the weights alone, which may be those of any training.
    """

    def __init__(self, cfg: Any, resumes: bool):
        plain: Any = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
        options = {section: as_options(value) for section, value in plain.items()}
        self.resumes = resumes
        self.model = options["model"]
        self.keeps_optimizer = not options["checkpoint"]["no_save_optimizer_state"]
        self.renewed = ["--lr-scheduler"] if options["checkpoint"].get("reset_lr_scheduler") else []
        self.fixed: dict[str, Any] = {
            **by_flag(options, FIXED),
            **by_flag(options, {"model": of_method(changeable=False)}),
            **{flag_name(name): options[name].get("_name") for name in (*WHOLE, "criterion")},
            PRECISION: optimizer_precision(options["common"]),
            **data_fingerprints(options["task"]["data"], options["dataset"]),
        }
        if self.fixed["--lr-scheduler"] == "reduce_lr_on_plateau" and not self.renewed:  # its rate is the checkpoint's
            self.fixed["--lr"] = options["optimization"]["lr"]
        # The section of an optimizer without a dataclass, such as sgd, is a namespace of all arguments.
        sections = [section for section in WHOLE if isinstance(plain[section], dict)]
        whole = {section: [name for name in options[section] if name != "_name"] for section in sections}
        whole["model"] = of_method(changeable=True)
        self.changeable = {**by_flag(options, whole), **by_flag(options, CHANGEABLE)}

    def state_dict(self) -> dict[str, Any]:
        return {"fixed": self.fixed, "changeable": self.changeable, "optimizer": self.keeps_optimizer}

    def check(self, state: dict[str, Any]) -> None:
        """Raise InputError if an option that must not change had another value in the checkpoint's training."""
        unread = [*self.renewed, *([PRECISION] if state.get("optimizer") is False else [])]
        theirs = {name: value for name, value in as_options(state.get("fixed")).items() if name not in unread}
        if theirs.get("--optimizer") is None:  # earlier versions saved a namespace here
            theirs.pop("--optimizer", None)
        differing = differences(theirs, self.fixed) if self.resumes else []
        if differing:
            # if the method differs, its name says enough: leave its options out of the message
            another = theirs.get("--method") != self.fixed.get("--method")
            own = tuple(f"{flag_name(name)} " for name in METHOD_OPTIONS) if another else ()
            told = [each for each in differing if not each.startswith(own)]
            raise InputError(
                f"the checkpoint to go on from was trained with {'; '.join(told)}: give the same, or another --save-dir"
            )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.check(state)
        if not self.resumes:
            self._check_start(as_options(state.get("fixed")))
            return
        differing = differences(as_options(state.get("changeable")), self.changeable)
        if differing:
            logger.warning(
                "training goes on with other options than it had: %s; past epochs are not trained again; "
                "to train them with these, give another --save-dir",
                "; ".join(differing),
            )
        if state.get("optimizer") is False:
            logger.warning(
                "the checkpoint was saved with --no-save-optimizer-state: Adam's moments and the count of updates "
                "start anew, and results differ from those of a run that was never stopped"
            )

    def _check_start(self, fixed: dict[str, Any]) -> None:
        """Raise InputError if a file is named to start head or prompt from; warn if the method differs."""
        own = by_flag({"model": self.model}, {"model": ["method", *of_method(changeable=False)]})
        theirs, ours = ({name: value for name, value in each.items() if value is not None} for each in (fixed, own))
        if others := differences(theirs, ours):
            logger.warning("training starts from weights of another method: they had %s", "; ".join(others))
        for name in ("head_init_from", "prompt_init_from"):
            if self.model.get(name):
                raise InputError(
                    f"{flag_name(name)} {self.model[name]} has no effect: head and prompt are those of the checkpoint "
                    "that training starts from (--finetune-from-model, or --restore-file with --reset-optimizer): "
                    "leave one of them out"
                )
        # Other starting values have no effect either, but name no file that would seem to be read.
        defaults = find_preset(self.model["method"]).defaults if self.model.get("method") else {}
        starting = [name for name, option in METHOD_OPTIONS.items() if option.metadata["starting"]]
        unused = [name for name in starting if self.model.get(name) not in (None, defaults.get(name))]
        if unused:
            logger.warning(
                "without effect: %s, as weights are those of the checkpoint that training starts from",
                ", ".join(f"{flag_name(name)} {_short(self.model[name])}" for name in unused),
            )


def by_flag(options: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """Return flag -> value of the options ``names`` of each section."""
    return {
        flag_name(name): options[section][name]
        for section in names
        for name in names[section]
        if name in options[section]
    }


def optimizer_precision(common: Mapping[str, Any]) -> str:
    """Return which kind of optimizer fairseq takes; each kind reads its own checkpoints alone."""
    if not (common.get("fp16") or common.get("bf16") or common.get("amp")):
        return "float32"
    if common.get("memory_efficient_fp16") or common.get("memory_efficient_bf16"):
        return "--memory-efficient-fp16 or --memory-efficient-bf16"
    return "--amp" if common.get("amp") else "--fp16 or --bf16"


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """Return ``--seed 1, now 2`` for each value that both know and that differs."""
    changed = [name for name in ours if name in theirs and theirs[name] != ours[name]]
    return [f"{name} {_short(theirs[name])}, now {_short(ours[name])}" for name in changed]


def _short(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def data_fingerprints(folder: str, dataset: Mapping[str, Any]) -> dict[str, str]:
    """Return shortened SHA-256 of the data that training reads, and of those that choose its best checkpoint."""
    training, validation = map(re.escape, (dataset["train_subset"], dataset["valid_subset"].split(",")[0]))
    joined = r"\d*" if dataset.get("combine_valid_subsets") else ""
    return {
        "the training data": split_fingerprint(folder, rf"{training}\d*"),  # fairseq joins train, train1 …
        "the validation data": split_fingerprint(folder, validation + joined),
    }


def split_fingerprint(folder: str, split: str) -> str:
    """Return the SHA-256 of the files of all splits whose names match the regular expression ``split``."""
    wanted = re.compile(rf"{split}\.(bin|idx|label)|dict\.txt")
    digest = hashlib.sha256()
    for part in ("input0", "input1", "label"):
        for path in sorted(Path(folder, part).glob("*")):
            if wanted.fullmatch(path.name) and path.is_file():
                digest.update(f"{part}/{path.name} {sha256(path)}\n".encode())
    return digest.hexdigest()[:12]
