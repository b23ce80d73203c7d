"""Options in files of strangers: fairseq runs some as Python, and none of those gets there."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import fields, replace
from pathlib import Path

import fairseq
import pytest
from fairseq.options import get_training_parser, parse_args_and_arch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_idpg.models.config import RobertaIDPGConfig
from preprocess.errors import InputError
from run_scripts.run import perform
from run_scripts.run.experiment import READ, Experiment
from run_scripts.run.options import EVALUATED, RESERVED, betas, check_from_file, checked
from run_scripts.sweep import __main__ as sweep
from run_scripts.sweep import local
from tests.run_scripts.tiny import IDPG, OPTIONS

FAIRSEQ = Path(fairseq.__file__).parent
RATE = st.floats() | st.integers()
NUMBERS = ("max_tokens_valid", "batch_size_valid", "update_epoch_batch_itr")  # that fairseq's parser leaves as texts


@pytest.fixture
def attack(tmp_path):
    """A Python expression that leaves a file, and whether the file is there."""
    path = tmp_path / "executed"
    yield f"__import__('pathlib').Path({str(path)!r}).touch() or (0.9, 0.98)"
    assert not path.exists()


def refused(call, *arguments):
    with pytest.raises((InputError, SystemExit)) as raised:
        call(*arguments)
    assert "\n" not in str(raised.value)
    return str(raised.value)


ATTACKS = [
    (["adam-betas"], {}),
    (["adam_betas"], {"optimizer": "grouped_adam"}),
    (["adamax-betas"], {"optimizer": "adamax"}),
    (["adafactor-eps"], {"optimizer": "adafactor"}),
    (["lamb-betas"], {"optimizer": "lamb"}),
    (["model-overrides"], {}),
    (["pipeline-balance", "pipeline-devices"], {"pipeline-model-parallel": True}),
]


@pytest.mark.parametrize(("names", "more"), ATTACKS, ids=lambda part: "+".join(part))
@pytest.mark.parametrize("place", ["sweep", "row", "change"])
def test_a_sweep_runs_no_text(world, tmp_path, attack, names, more, place):
    options = {**more, **dict.fromkeys(names, attack)}
    keys = {"rows": [{**IDPG, "options": {**IDPG["options"], **options}}]} if place == "row" else {}
    config = world.config(tmp_path, **keys, **({"options": {**OPTIONS, **options}} if place == "sweep" else {}))
    changes = [f"options.{name}={json.dumps(value)}" for name, value in options.items()] if place == "change" else []
    said = refused(
        sweep.main, [str(config), "--results", str(tmp_path / "r"), *(["--set", *changes] if changes else [])]
    )
    assert f"--{names[0].replace('_', '-')}" in said and not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    "options",
    [
        {"log-file": "PLACE"},
        {"plasma_path": "PLACE"},
        {"tensorboard-logdir": "PLACE"},
        {"representation-cache": "PLACE"},
        {"state-cache": "PLACE"},
        {"fp16": "--log-file=PLACE"},
        {"dropout": "--log-file=PLACE"},
        {"prompt-init-text": "--log-file=PLACE"},
    ],
    ids=str,
)
@pytest.mark.parametrize("in_row", [False, True])
def test_a_file_names_no_place_to_write(world, tmp_path, options, in_row):
    place = tmp_path / "place"
    options = {name: value.replace("PLACE", str(place)) for name, value in options.items()}
    rows = {"rows": [{**IDPG, "options": {**IDPG["options"], **options}}]}
    config = world.config(tmp_path, **(rows if in_row else {"options": {**OPTIONS, **options}}))
    said = refused(sweep.main, [str(config), "--results", str(tmp_path / "r")])
    assert "--" + next(iter(options)).replace("_", "-") in said and "sweep.yaml" in said
    assert not place.exists() and not (tmp_path / "r").exists()


def test_the_command_line_names_places_to_write(world, tmp_path, capsys):
    log = tmp_path / "x.log"
    given = ["--set", f"options.log-file={log}", "options.state-cache=x"]
    sweep.main([str(world.config(tmp_path)), "--results", str(tmp_path / "r"), "--dry-run", *given])
    assert f"--log-file {log}" in capsys.readouterr().out


def test_of_all_texts_a_file_gives_those_that_the_plugin_reads(world):
    """As fairseq-train's own parser has them, with the options of each optimizer and schedule."""
    texts = set()
    for parts in (["--optimizer", "adam"], ["--optimizer", "adafactor", "--lr-scheduler", "manual"]):
        parser = get_training_parser()
        words = [str(world.data), "--task", "sentence_prediction_idpg", "--arch", "roberta_idpg", *parts]
        parse_args_and_arch(parser, input_args=words, parse_known=True)
        texts.update(each for each in parser._actions if each.nargs != 0 and each.type not in (int, float))
    names = {
        name for each in texts if each.choices is None and each.dest not in NUMBERS for name in each.option_strings
    }
    given = set()
    for option in names - RESERVED.keys():
        with contextlib.suppress(InputError):
            check_from_file(option[2:], "~/place", "options")
            given.add(option)
    assert {"--source-prompts", "--template", "--finetune-from-model"} <= given and "--log-file" in names
    ours = {f"--{item.name.replace('_', '-')}" for item in fields(RobertaIDPGConfig)}
    assert given <= {*READ, *ours, "--update-freq"}  # of the last one fairseq's parser takes a list of numbers


def test_a_file_gives_numbers_choices_and_what_the_plugin_reads():
    options = {"adam-betas": "(0.9, 0.98)", "adam_betas": [0.9, 0.98], "update-freq": "[2, 4]", "lr-shrink": "5e-1"}
    options |= {"optimizer": "grouped_adam", "ddp-backend": "legacy_ddp", "weight-decay": "nan", "clip-norm": "-1"}
    options |= {
        "source-prompts": "../a.pt,b.pt",
        "template": "- {0} - It was <mask> .",
        "prompt-layers": "0,4",
        "fp16": True,
    }
    for name, value in options.items():
        check_from_file(name, value, "options")
    for name, value in {"adam-betas": ["x", "y"], "unknown": "x", "log-file": 5, "data": "x"}.items():
        with pytest.raises(InputError, match=f"--{name}"):
            check_from_file(name, value, "options")
    with pytest.raises(InputError, match="--represntation .*--representation"):
        check_from_file("represntation", "backbone", "options")


def test_a_sweep_names_one_of_our_architectures(world, tmp_path, attack):
    """Those of fairseq have options of their own that it runs."""
    config = world.config(tmp_path, arch="lightconv", options={**OPTIONS, "weight-softmax": attack})
    assert "arch lightconv is unknown: " in refused(sweep.main, [str(config), "--results", str(tmp_path / "r")])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"options": ["--adam-betas", "ATTACK"]}, "--adam-betas "),
        ({"options": ["--adam-betas=ATTACK"]}, "--adam-betas "),
        ({"options": ["--optimizer", "adamax", "--adamax-betas", "ATTACK"]}, "--adamax-betas: fairseq would run"),
        ({"options": ["--user-dir", "evil"]}, "--user-dir is set by the task"),
        ({"arch": "lightconv", "options": ["--weight-softmax", "ATTACK"]}, "arch lightconv is unknown"),
        ({"data": "--user-dir=evil"}, "experiment.json: data '--user-dir=evil' is no absolute path"),
        ({"backbone": "--user-dir=evil"}, "backbone '--user-dir=evil' is no absolute path"),
        ({"method": "--user-dir=evil"}, "--user-dir=evil"),
    ],
)
def test_a_job_runs_no_text(world, tmp_path, attack, change, said):
    """experiment.json, as the job of a sweep reads it."""
    given = Experiment("RTE", "m-idpg-phm", 1e-3, 1, str(world.data / "RTE-bin"), str(world.backbone))
    text = given.to_json()
    found = {**json.loads(text), **json.loads(json.dumps(change).replace("ATTACK", attack))}
    folder = tmp_path / "runs" / "x"
    folder.mkdir(parents=True)
    (folder / "experiment.json").write_text(json.dumps(found))
    with pytest.raises((InputError, SystemExit)) as raised:
        local.main([str(tmp_path), "x"])
    assert said in str(raised.value) and "\n" not in str(raised.value)
    assert not list((tmp_path / "runs").rglob("train.log"))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "[" * 100000, '{"task": "RTE"}', "\ud800", "OTHER"],
    ids=["empty", "torn", "list", "null", "deep", "lacking", "surrogate", "more"],
)
def test_an_experiment_of_another_version(world, tmp_path, text):
    given = Experiment("RTE", "m-idpg-phm", 1e-3, 1, str(world.data / "RTE-bin"), str(world.backbone))
    if text == "OTHER":
        text = json.dumps({**json.loads(given.to_json()), "new": 1})
    (tmp_path / "runs" / "x").mkdir(parents=True)
    (tmp_path / "runs" / "x" / "experiment.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    assert "experiment.json" in refused(local.main, [str(tmp_path), "x"])
    assert "experiment.json" in refused(local.main, [str(tmp_path), "y"])  # none


@pytest.mark.parametrize(
    "change",
    [{"lr": "fast"}, {"lr": 0}, {"lr": None}, {"seed": [1]}, {"seed": True}, {"task": "RT\0E"}, {"task": ["RTE"]}]
    + [{"options": "x"}, {"options": [1]}, {"options": ["a\0"]}, {"k": 0}, {"selection": "none"}, {"data": "/a\0b"}]
    + [{"supplementary": 1}, {"position": -1}, {"max_update": 1.5}, {"method": None}, {"row": 7}, {"batch_size": "x"}],
    ids=str,
)
def test_values_of_another_kind_in_an_experiment(world, tmp_path, change):
    given = Experiment("RTE", "m-idpg-phm", 1e-3, 1, str(world.data / "RTE-bin"), str(world.backbone))
    (tmp_path / "runs" / "x").mkdir(parents=True)
    (tmp_path / "runs" / "x" / "experiment.json").write_text(json.dumps({**json.loads(given.to_json()), **change}))
    assert next(iter(change)) in refused(local.main, [str(tmp_path), "x"]).replace("option ", "options ")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"run": "RUN"}', '{"run": "other", "status": "done"}', "[" * 100000])
def test_a_damaged_record_is_named(world, tmp_path, text):
    (tmp_path / "runs" / "RUN").mkdir(parents=True)
    (tmp_path / "runs" / "RUN" / "record.json").write_text(text)
    assert "record.json is damaged: remove it, and the run is made again" in refused(perform.finished, tmp_path, "RUN")
    (tmp_path / "runs" / "RUN" / "record.json").write_text('{"run": "RUN", "status": "done"}')
    assert perform.finished(tmp_path, "RUN")["status"] == "done" and perform.finished(tmp_path, "OTHER") is None


def test_two_numbers_are_passed_on_as_such():
    for text in ("(0.9, 0.98)", " (0.9,0.98)", "[0.9, 0.98]", "0.9,0.98"):
        assert checked(["--fp16", "--adam-betas", text]) == ("--fp16", "--adam-betas", "(0.9, 0.98)")
        assert checked([f"--adam-betas={text}", "--cpu"]) == ("--adam-betas=(0.9, 0.98)", "--cpu")


@pytest.mark.parametrize(
    "text",
    [
        "(0.9, 1)",
        "(0.9,)",
        "0.9",
        "(0.9, 'x')",
        "(-1, 0)",
        "(nan, 0)",
        "(1e999, 0)",
        "{}",
        "",
        "(" * 1000,
        "('a', 'b')",
    ],
)
def test_anything_else_is_refused(text):
    assert "--adam-betas" in refused(betas, text)


@given(st.text() | st.from_regex(r"[(\[][-+0-9.eEj_, ]{3,12}[)\]]", fullmatch=True) | st.tuples(RATE, RATE).map(str))
def test_what_passes_is_two_numbers(text):
    try:
        found = betas(text)
    except InputError:
        return
    assert re.fullmatch(r"\([0-9.e-]+, [0-9.e-]+\)", found)


def test_all_that_fairseq_runs_is_known():
    """Of the optimizers, and of the options that every run has."""
    used = {
        name
        for path in (FAIRSEQ / "optim").rglob("*.py")
        for name in re.findall(r"(?<![_a-z])eval\(self\.(?:cfg|args)\.(\w+)\)", path.read_text(encoding="utf-8"))
    }
    text = (FAIRSEQ / "distributed" / "utils.py").read_text(encoding="utf-8")
    used |= set(re.findall(r"eval_str_list\(\s*cfg\.(\w+)", text))
    assert used and {f"--{name.replace('_', '-')}" for name in used} <= {*EVALUATED, "--adam-betas"}


def test_no_option_that_is_set_here_has_another_name():
    """fairseq takes --max-sentences for --batch-size, and -a for --arch."""
    names = [action.option_strings for action in get_training_parser()._actions]
    reserved = [name for group in names if RESERVED.keys() & set(group) for name in group]
    assert {"-a", "--max-sentences", "--lr"} <= set(reserved)
    for words in ([name] for name in [*reserved, "-aroberta_idpg_base", "--max-sentences=4"]):
        assert " is set by " in refused(checked, words)
    assert checked(["--clip-norm", "-1"]) == ("--clip-norm", "-1")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dropout": None}, "options: dropout None: write a text, a number, true or false"),
        ({"dropout": {"a": 1}}, "options: dropout {'a': 1}: write a text"),
        ({"phm_n": 4, "phm-n": 8}, "options: phm-n stands twice"),
        ({"user-dir=evil": True}, "options: 'user-dir=evil' is no option"),
        ({"": 1}, "options: '' is no option"),
        ({1: 1}, "1: 1} is no mapping of names to values"),
        ({"prompt-init-text": "a\0b"}, "holds a NUL character"),
    ],
)
def test_options_that_are_none(world, tmp_path, options, said):
    config = world.config(tmp_path, options={**OPTIONS, **options})
    assert said in refused(sweep.main, [str(config), "--results", str(tmp_path / "r"), "--dry-run"])


def test_an_experiment_survives_its_file(world):
    given = Experiment("RTE", "m-idpg-phm", 1e-3, 1, str(world.data / "RTE-bin"), str(world.backbone), row="x")
    for change in ({}, {"k": 5, "options": ("--prompt-init-text", "")}, {"init_head_from": "/a", "position": 4}):
        assert Experiment.from_json(replace(given, **change).to_json()) == replace(given, **change)
