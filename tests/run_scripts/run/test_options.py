"""Options in files of strangers: fairseq runs some as Python, and none of those gets there."""

import json

import pytest
from fairseq.options import get_training_parser

from preprocess.errors import InputError
from run_scripts.run.options import RESERVED, check_from_file, checked
from run_scripts.sweep import __main__ as sweep
from tests.run_scripts.tiny import IDPG, OPTIONS

RUN = [  # options that fairseq runs as Python, and what it needs besides to look at them
    (["adam-betas"], {}),
    (["adam_betas"], {"optimizer": "grouped_adam"}),
    (["adamax-betas"], {"optimizer": "adamax"}),
    (["adafactor-eps"], {"optimizer": "adafactor"}),
    (["lamb-betas"], {"optimizer": "lamb"}),
    (["model-overrides"], {}),
    (["pipeline-balance", "pipeline-devices"], {"pipeline-model-parallel": True}),
]
WRITTEN = [  # options that would name a place to write
    *({name: "PLACE"} for name in ("log-file", "plasma_path", "tensorboard-logdir", "representation-cache")),
    *({name: "--log-file=PLACE"} for name in ("no-shuffle", "dropout", "prompt-init-text")),
    *({"state-cache": "PLACE"}, {"log-file=PLACE": True}, {"user-dir=PLACE": True}),
]


@pytest.fixture
def attacked(world, tmp_path):
    """The error of a sweep with options in its file, in a row of it or on the command line; nothing is written."""
    place = tmp_path / "place"
    attack = {"ATTACK": f"__import__('pathlib').Path({str(place)!r}).touch() or (0.9, 0.98)", "PLACE": str(place)}

    def run(options, where, **keys):
        text = json.dumps(options)
        for name, value in attack.items():
            text = text.replace(name, value)
        options = json.loads(text)
        if where == "row":
            keys["rows"] = [{**IDPG, "options": {**IDPG["options"], **options}}]
        elif where == "file":
            keys["options"] = {**OPTIONS, **options}
        words = [f"options.{name}={json.dumps(value)}" for name, value in options.items()] if where == "change" else []
        config = world.config(tmp_path, **keys)
        with pytest.raises(SystemExit) as raised:
            sweep.main([str(config), "--results", str(tmp_path / "r"), *(["--set", *words] if words else [])])
        assert not place.exists() and not (tmp_path / "r").exists() and "\n" not in str(raised.value)
        return str(raised.value)

    return run


@pytest.mark.parametrize(
    ("names", "more", "where"),
    [*((*each, "file") for each in RUN), *((*RUN[0], where) for where in ("change", "row"))],
    ids=str,
)
def test_a_sweep_runs_no_text(attacked, names, more, where):
    said = attacked({**more, **dict.fromkeys(names, "ATTACK")}, where)
    assert f"--{names[0].replace('_', '-')}" in said


@pytest.mark.parametrize(
    ("options", "where"), [*((options, "file") for options in WRITTEN), (WRITTEN[0], "row")], ids=str
)
def test_a_file_names_no_place_to_write(attacked, options, where):
    (name,) = options
    assert name.partition("=")[0].replace("_", "-") in attacked(options, where)


def test_a_sweep_names_one_of_our_architectures(attacked):
    """Those of fairseq have options of their own that it runs."""
    assert "lightconv is unknown" in attacked({"weight-softmax": "ATTACK"}, "file", arch="lightconv")


def test_a_file_gives_numbers_choices_and_what_the_plugin_reads():
    options = {"adam-betas": "(0.9, 0.98)", "adam_betas": [0.9, 0.98], "update-freq": "[2, 4]", "lr-shrink": "5e-1"}
    options |= {"optimizer": "grouped_adam", "source-prompts": "../a.pt,b.pt", "template": "- {0} - It was <mask> ."}
    for name, value in {**options, "fp16": True}.items():
        check_from_file(name, value, "options")
    for name, value in {"adam-betas": ["x", "y"], "unknown": "x", "log-file": 5, "wandb-project": "x"}.items():
        with pytest.raises(InputError, match=f"--{name}"):
            check_from_file(name, value, "options")


def test_no_option_that_is_set_here_has_another_name():
    """fairseq takes --max-sentences for --batch-size, and -a for --arch."""
    names = [action.option_strings for action in get_training_parser()._actions]
    reserved = [name for group in names if RESERVED.keys() & set(group) for name in group]
    assert {"-a", "--max-sentences", "--lr"} <= set(reserved)
    for words in ([name] for name in [*reserved, "-aroberta_idpg_base", "--max-sentences=4", "--save-dir=x"]):
        with pytest.raises(InputError, match=" is set by "):
            checked(words)
    assert checked(["--clip-norm", "-1"]) == ("--clip-norm", "-1")


def test_betas_are_two_numbers():
    assert checked(["--adam-betas", "[0.9, .98]"]) == ("--adam-betas", "(0.9, 0.98)")
    assert checked(["--adam-betas=(0.9, 0.98)", "x"]) == ("--adam-betas=(0.9, 0.98)", "x")
    for words in (["--adam-betas", "(0.9, 'x')"], ["--adam-betas=f()"], ["--adam-betas", "--adam-betas"]):
        with pytest.raises(InputError, match="--adam-betas"):
            checked(words)
