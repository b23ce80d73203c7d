"""A checkpoint's own configuration, checked before anything is built from it.

fairseq builds whatever task, model and criterion a checkpoint names, and evaluates strings among their options as
Python (``encoder_layers`` of fconv, ``encoder_xformers_att_config`` of every transformer, ``wer_args`` of ctc). Here a
checkpoint that names anything but sentence prediction and RoBERTa is refused. Only options that the builder declares
are passed on, and only with values of the declared type.
"""

import argparse
import enum
import logging
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from reprlib import repr as shown  # values from a file, short
from types import UnionType
from typing import Any, Optional, Union, get_args, get_origin

from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.models.roberta.model import RobertaModel, base_architecture
from fairseq.tasks import TASK_DATACLASS_REGISTRY

from preprocess.flags import LARGEST_SEED, flag_name

from ..backbone.weights import SHAPE
from ..errors import InputError
from ..names import TASK
from .tensors import is_ours

logger = logging.getLogger(__name__)

OUR_MODEL = "roberta_idpg"
KNOWN_TASKS = (TASK, "sentence_prediction")
KNOWN_CRITERIONS = ("sentence_prediction_idpg", "sentence_prediction")
# The other sections that options of these three refer to.
PARENTS = ("common", "dataset", "distributed_training", "optimization", "checkpoint")
LARGEST = 2**16  # of whole numbers among the options: larger sizes could only fill the memory
LONGEST_TEXT, LONGEST_LIST = 2**17, 2**12  # of an option: what Linux takes as one argument; lists are slow to read
NO_SIZES = ("min_params_to_wrap", "init_token", "separator_token")
# Options that name files of the training.
PATHS: dict[str, tuple[str, ...]] = {
    "task": ("data", "representation_cache", "state_cache"),
    "model": ("backbone", "head_init_from", "prompt_init_from", "source_prompts", "spot_target", "spot_embeddings"),
    "criterion": (),
}
REMEDY = "give a checkpoint of --task sentence_prediction_idpg with --arch roberta_idpg"

Options = dict[str, Any]


def buildable(state: Mapping[str, Any], what: str) -> dict[str, Options | None]:
    """Return the configuration that a model may be built from; raise InputError, which begins with ``what``."""
    recorded = recorded_options(state)
    names = {section: options.get("_name") for section, options in recorded.items()}
    model, ours = model_class(names["model"]), names_ours(state)
    known = names["task"] in KNOWN_TASKS and names["criterion"] in KNOWN_CRITERIONS
    if not known or not (ours or model is RobertaModel):
        raise InputError(
            f"{what} holds a model of --task {shown(names['task'])}, --arch {shown(names['model'])} and --criterion "
            f"{shown(names['criterion'])}, not of sentence prediction with a RoBERTa: {REMEDY}"
        )
    criterion = CRITERION_DATACLASS_REGISTRY[names["criterion"]]
    types = {
        "task": declared(TASK_DATACLASS_REGISTRY[names["task"]]),
        "model": declared(MODEL_DATACLASS_REGISTRY[OUR_MODEL]) if ours else STOCK_TYPES,
        "criterion": declared(criterion),
    }
    built = {section: typed(recorded[section], types[section], what, report=ours) for section in types}
    built["criterion"] = {**defaults(criterion), **built["criterion"]}
    MODEL_REGISTRY[OUR_MODEL].check_size(built["model"], built["task"], state["model"], what)
    cfg = {**_parents(state), **{section: {**options, "_name": names[section]} for section, options in built.items()}}
    if not ours:  # fairseq's own RoBERTa reads a namespace
        cfg["model"] = argparse.Namespace(**cfg["model"])
    return cfg


def check_overrides(options: Mapping[Any, Any], what: str) -> None:
    """Raise InputError for overrides of anything but options of the model or the task, flat or in its section."""
    types = {
        "model": {**STOCK_TYPES, **declared(MODEL_DATACLASS_REGISTRY[OUR_MODEL])},
        "task": declared(TASK_DATACLASS_REGISTRY[TASK]),
    }
    sections = {name: options[name] for name in types if isinstance(options.get(name), dict)}
    flat = {name: value for name, value in options.items() if name not in sections}
    for owner, known, values in (
        ("the model or the task", {**types["model"], **types["task"]}, flat),
        *((f"the {name}", types[name], values) for name, values in sections.items()),
    ):
        # Both "_name"s say what was trained, and stay.
        unknown = next((name for name in values if name not in known or name == "_name"), None)
        if unknown is not None:
            raise InputError(f"{what}: {shown(unknown)} is no option of {owner}: leave it out")
        typed(values, known, what)


def check_is_roberta(state: Mapping[str, Any], what: str) -> Options:
    """Return the model's options in a file, of any type; raise InputError unless it is a RoBERTa."""
    options = recorded_options(state)["model"]
    name, model = options.get("_name"), model_class(options.get("_name"))
    if name is not None and not (model and issubclass(model, RobertaModel)):
        raise InputError(f"{what} holds a model of --arch {shown(name)}: give a RoBERTa")
    return options


def check_is_ours(state: Mapping[str, Any], what: str) -> None:
    """Raise InputError for a checkpoint of fairseq's own task or model."""
    if recorded_options(state)["task"].get("_name") != TASK or not is_ours(state["model"]):
        raise InputError(f"{what} is not a checkpoint of this package: {REMEDY}")


def names_ours(state: Mapping[str, Any]) -> bool:
    """Return whether a file says that it holds a model of this package."""
    return model_class(recorded_options(state)["model"].get("_name")) is MODEL_REGISTRY[OUR_MODEL]


def recorded_options(state: Mapping[str, Any]) -> dict[str, Options]:
    """Return the options of "task", "model" and "criterion" as they stand in the file, their names under "_name"."""
    if state.get("args") is not None:  # one namespace of all options, in old checkpoints, which fairseq prefers
        flat = as_options(state["args"])
        names = {"task": "task", "model": "arch", "criterion": "criterion"}
        return {section: {**flat, "_name": flat.get(name)} for section, name in names.items()}
    cfg = as_options(state.get("cfg"))
    recorded = {section: as_options(cfg.get(section)) for section in ("task", "model", "criterion")}
    recorded["model"].setdefault("_name", recorded["model"].get("arch"))
    return recorded


def as_options(value: Any) -> Options:
    """Return a section of a configuration as a dictionary; empty where it is something else."""
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    return {name: part for name, part in value.items() if isinstance(name, str)} if isinstance(value, Mapping) else {}


def model_class(name: Any) -> type | None:
    return (ARCH_MODEL_REGISTRY.get(name) or MODEL_REGISTRY.get(name)) if isinstance(name, str) else None


def declared(config: type) -> dict[str, Any]:
    return {f.name: Optional[f.type] if f.default is None else f.type for f in fields(config)}


def defaults(config: type) -> Options:
    return {f.name: f.default for f in fields(config) if f.default is not MISSING}


def _stock_types() -> dict[str, Any]:
    """Return the options of fairseq's RoBERTa, which has a parser and an architecture instead of a dataclass."""
    parser, architecture = argparse.ArgumentParser(), argparse.Namespace()
    RobertaModel.add_args(parser)
    base_architecture(architecture)
    types = {action.dest: bool if action.nargs == 0 else action.type or str for action in parser._actions}
    types.update({name: type(value) for name, value in vars(architecture).items() if value is not None})
    types.update(dict.fromkeys(("quant_noise_pq", "quant_noise_scalar"), float))  # whole numbers by default
    types.pop("help")
    return {name: Optional[kind] for name, kind in types.items()}


STOCK_TYPES = _stock_types()


def typed(options: Options, types: Mapping[str, Any], what: str, report: bool = False) -> Options:
    """Return the ``options`` that ``types`` declares, with ``report`` warn of others; refuse bad values."""
    for name, value in options.items():
        if name not in types:
            continue
        flag = f"{what} says {flag_name(name)} {shown(value)}, which"
        if not is_taken(value, types[name]):
            kinds = [kind for kind in get_args(types[name]) or (types[name],) if kind is not type(None)]
            words = " or ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
            raise InputError(f"{flag} is not {words}: give another")
        least, most = (0, LARGEST_SEED) if name == "seed" else (1 if name in SHAPE else -LARGEST, LARGEST)
        if type(value) is int and name not in NO_SIZES and not least <= value <= most:
            raise InputError(f"{flag} no model has: give another")
    unknown = [name for name, value in options.items() if name not in types and name != "_name" and value is not None]
    if unknown and report:
        logger.warning("%s: options that this version does not know are left out: %s", what, shown(unknown))
    return {name: value for name, value in options.items() if name in types}


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value is plain data of a type that fairseq's dataclasses, or ours, declare."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in inner)
    if origin is list:
        return isinstance(value, list) and all(fits(part, inner[0]) for part in value)
    if origin is dict:
        of_key, of_value = inner
        return isinstance(value, dict) and all(fits(k, of_key) and fits(v, of_value) for k, v in value.items())
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return type(value) is str and value in [member.value for member in kind]
    if kind is float:
        return type(value) in (int, float) and math.isfinite(value)
    return type(value) is kind


def is_taken(value: Any, kind: Any) -> bool:
    """Return whether a value fits, is not too long, and holds nothing that omegaconf would interpolate."""
    if isinstance(value, (str, list)) and len(value) > (LONGEST_TEXT if isinstance(value, str) else LONGEST_LIST):
        return False
    return fits(value, kind) and "${" not in str(value) and value != "???"


def _parents(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the other sections, with the options that fit; never a folder to import."""
    sections: dict[str, Any] = {f.name: f.type for f in fields(FairseqConfig)}
    cfg: dict[str, Any] = {name: None for name, kind in sections.items() if kind is Any}
    saved = as_options(state.get("cfg"))
    for section in PARENTS:
        types, options = declared(sections[section]), as_options(saved.get(section))
        fitting = {name: value for name, value in options.items() if name in types and is_taken(value, types[name])}
        cfg[section] = {**defaults(sections[section]), **fitting}
        cfg[section].pop("user_dir", None)
    return cfg
