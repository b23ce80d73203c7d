"""Options that methods declare: joined for the command line, filled from presets, refused where they do nothing."""

from argparse import Namespace
from dataclasses import dataclass, fields
from typing import Optional

import pytest
from fairseq.dataclass import FairseqDataclass

from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.base import Method
from fairseq_idpg.methods.options import Filled, TrueFalse, fill_options, joined_options, option, options_of
from fairseq_idpg.methods.registry import PRESETS, Preset, register_preset
from fairseq_idpg.models.config import METHOD_OPTIONS, BackboneConfig
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
class Clash(FairseqDataclass):
    dropout: float | None = option(0.5, "dropout of its own")


@dataclass
class Switched(Second):
    bright: Filled[bool] = option(True, "a flag that is on")


@dataclass
class Spelled(Second):
    bright: Filled[TrueFalse] = option(True, "words, and a default that is not one of them")


class OfSecond(Method):
    config = Second


class OfSwitched(Method):
    config = Switched


class OfSpelled(Method):
    config = Spelled


SHAPED = Preset("shaped", (OfSecond,), {"rows": 7})


def test_joined_options_are_all_options_once():
    joined = joined_options("Joined", [First, Second, First], beside=[BackboneConfig])
    assert list(options_of(joined)) == ["rows", "size", "shape", "corners"]
    assert {f.name: f.default for f in fields(joined)} == dict.fromkeys(["_name", *options_of(joined)])
    assert options_of(joined)["rows"].type == Optional[int] and options_of(joined)["rows"].metadata["changeable"]


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ([First, Other], r"--size .*First.*Other"),
        ([Clash], r"--dropout .*BackboneConfig.*Clash"),
    ],
)
def test_one_option_declared_twice_names_both(configs, message):
    with pytest.raises(ValueError, match=message):
        joined_options("Joined", configs, beside=[BackboneConfig])


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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rows": 8}, "--rows 8: give 1 or more, below 8"),
        ({"rows": 0}, "--rows 0: give 1 or more, below 8"),
        ({"size": 3}, "--size 3 .* --method shaped"),
        ({"corners": 6}, "--corners 6 .* --shape round.*--shape square"),
    ],
)
def test_options_without_effect_or_out_of_range_are_refused(given, message):
    cfg = Namespace(**{**dict.fromkeys(["rows", "size", "shape", "corners"]), **given})
    with pytest.raises(InputError, match=message):
        fill_options(cfg, SHAPED, ["rows", "size", "shape", "corners"])


@pytest.mark.parametrize(
    ("name", "method", "settings", "message"),
    [
        ("adapter", OfSecond, {}, "adapter"),
        ("shaped", OfSecond, {"colour": "red"}, "colour"),
        ("shaped", OfSwitched, {}, "--bright"),  # a sweep's `false` would be recorded, and train with true
        ("shaped", OfSpelled, {}, "--bright"),
    ],
)
def test_registration_mistakes(name, method, settings, message):
    before = dict(PRESETS)
    with pytest.raises(ValueError, match=message):
        register_preset(name, method, **settings)
    assert PRESETS == before
