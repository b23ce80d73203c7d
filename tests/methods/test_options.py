"""Options that methods declare: joined for the command line, filled from presets, refused where they do nothing."""

from argparse import Namespace
from dataclasses import dataclass, fields

import pytest
from fairseq.dataclass import FairseqDataclass

from fairseq_idpg.methods.base import Method
from fairseq_idpg.methods.options import Filled, fill_options, joined_options, option
from fairseq_idpg.methods.registry import PRESETS, Preset, register_preset
from fairseq_idpg.models.config import METHOD_OPTIONS
from fairseq_idpg.optim.grouped_adam import GroupedAdamConfig
from fairseq_idpg.tasks.config import SentencePredictionIDPGConfig


@dataclass
class Common(FairseqDataclass):
    rows: int | None = option(5, "rows", changeable=True, least=1, below=8)


@dataclass
class First(Common):
    size: int | None = option(16, "size")


@dataclass
class Second(Common):
    shape: str | None = option("round", "shape")
    corners: int | None = option(4, "corners", only_with=("shape", ("square",)), formerly=3)


@dataclass
class Other(FairseqDataclass):
    size: float | None = option(16, "size")


@dataclass
class Switched(Second):
    bright: Filled[bool] = option(True, "a flag that is on")


class OfSecond(Method):
    config = Second


class OfSwitched(Method):
    config = Switched


SHAPED = Preset("shaped", (OfSecond,), {"rows": 7})


def test_one_option_declared_twice_names_both():
    with pytest.raises(ValueError, match=r"--size .*First.*Other"):
        joined_options("Joined", [First, Other], beside=[])


@pytest.mark.parametrize("config", [SentencePredictionIDPGConfig, GroupedAdamConfig])
def test_no_option_of_a_method_is_one_of_the_task_or_the_optimizer(config):
    """They are declared after the model's, so they cannot be looked at when those are joined."""
    assert not METHOD_OPTIONS.keys() & {f.name for f in fields(config)} - {"_name"}


@pytest.mark.parametrize(
    ("recorded", "filled"),
    [
        ({"shape": None, "corners": None}, ("round", 4)),
        ({"shape": "square", "corners": None}, ("square", 4)),
        ({"shape": "square", "corners": 6}, ("square", 6)),
        ({"shape": "square"}, ("square", 3)),  # older than the option
        ({"shape": None}, ("round", 4)),
    ],
)
def test_options_left_open_are_filled(recorded, filled):
    cfg = Namespace(rows=None, size=None, **recorded)
    for _ in range(2):
        fill_options(cfg, SHAPED, ["rows", "size", "shape", "corners"])
        assert (cfg.rows, cfg.size, cfg.shape, cfg.corners) == (7, None, *filled)


def test_every_number_has_a_range():
    """See test_refusals.py for those that depend on other options."""
    facts = {name: declared.metadata for name, declared in METHOD_OPTIONS.items()}
    ranges = {name: f["range"] for name, f in facts.items() if type(f["preset_default"]) in (int, float)}
    free = {name for name, (least, above, _) in ranges.items() if max(least, above) < 0}
    assert free == {"words_alpha", "ept_init_length", "representation_width"}
    assert {name for name, (*_, below) in ranges.items() if below == 1} == {n for n in ranges if n.endswith("_dropout")}


@pytest.mark.parametrize(
    ("name", "method", "settings", "message"),
    [
        ("adapter", OfSecond, {}, "adapter"),
        ("shaped", OfSecond, {"colour": "red"}, "colour"),
        ("shaped", OfSwitched, {}, "--bright"),  # a sweep's `false` would be recorded, and train with true
    ],
)
def test_registration_mistakes(name, method, settings, message):
    before = dict(PRESETS)
    with pytest.raises(ValueError, match=message):
        register_preset(name, method, **settings)
    assert PRESETS == before
