"""Options with which a training would be another than was asked for, and those whose text is Python."""

import ast
from types import SimpleNamespace

import pytest
import torch
from fairseq import options

from fairseq_idpg.errors import InputError
from fairseq_idpg.tasks.positions import check_tokens
from fairseq_idpg.training.arguments import check_arguments, parse_overrides
from fairseq_idpg.training.fairseq_patches import _convert
from tests.folders import training_arguments
from tests.helpers import dictionary

DICTIONARY = dictionary()
METRIC, OURS = "--best-checkpoint-metric", ["--criterion", "sentence_prediction_idpg"]
TAKEN = [
    [],
    [METRIC, "em", "--report-f1a-and-em", *OURS],
    ["--optimizer", "grouped_adam", "--lr", "1e-3,1e-4"],
    ["--lr-scheduler", "polynomial_decay", "--total-num-update", "9", "--adam-betas", "(0, 0.999)"],
    ["--valid-subset", "valid,test"],
    *(["--optimizer", name, "--lr-scheduler", "manual"] for name in ("sgd", "adafactor", "nag")),  # of no dataclass
]
REFUSED = [  # what is given, and the option that the refusal names
    ([METRIC, "nothing"], f"{METRIC} nothing"),
    ([METRIC, "f1"], "--report-acc-and-f1"),
    ([METRIC, "em"], "--criterion sentence_prediction_idpg"),
    ([METRIC, "em", *OURS], "--report-f1a-and-em"),
    (["--regression-target"], f"{METRIC} accuracy"),
    (["--criterion", "cross_entropy"], "--criterion cross_entropy"),
    (["--train-subset", "dev"], "--train-subset dev"),
    (["--valid-subset", "valid,train1"], "--valid-subset valid,train1"),
    *((["--adam-betas", text], "--adam-betas") for text in ("(0.9, 1)", "f()")),
    (["--optimizer", "adafactor", "--adafactor-eps", "(1e-30)"], "--adafactor-eps"),
    *((words.split(), words) for words in ("--batch-size 0", "--lr -1", "--max-epoch -1")),
]


@pytest.mark.parametrize("given", TAKEN, ids=" ".join)
def test_taken(given):
    check_arguments(training_arguments(*given))


@pytest.mark.parametrize(("given", "named"), REFUSED, ids=[" ".join(given) for given, _ in REFUSED])
def test_refused(given, named):
    with pytest.raises(InputError, match=named):
        check_arguments(training_arguments(*given))


@pytest.mark.parametrize(("metric", "highest"), [("accuracy", True), ("loss", False), ("nll_loss", False)])
def test_the_checkpoint_that_is_kept_is_the_best(metric, highest):
    args = training_arguments()
    args.best_checkpoint_metric, args.maximize_best_checkpoint_metric = metric, highest
    check_arguments(args)
    args.maximize_best_checkpoint_metric = not highest
    with pytest.raises(InputError, match=f"{METRIC} {metric} .*--maximize-best-checkpoint-metric"):
        check_arguments(args)


def test_a_folder_whose_name_fairseq_would_cut():
    with pytest.raises(InputError, match="run_12:30-bin"):
        check_arguments(training_arguments(folder="run_12:30-bin"))


@pytest.mark.parametrize(
    "tokens", [{"init_token": None}, {"init_token": 55}, {"init_token": 1}, {"init_token": 4}, {"separator_token": 100}]
)
def test_tokens(tokens):
    (name,) = tokens
    with pytest.raises(InputError, match=f"--{name.replace('_', '-')}"):
        check_tokens(SimpleNamespace(**{"init_token": 0, "separator_token": None, **tokens}), DICTIONARY)
    check_tokens(SimpleNamespace(init_token=0, separator_token=54), DICTIONARY)


@pytest.mark.parametrize("option", ["--save-dir", "--log-file"])
def test_places_that_cannot_be_written_to(option, tmp_path):
    (tmp_path / "file").touch()
    args = training_arguments("--save-dir", str(tmp_path), option, str(tmp_path / "file" / "x"))
    with pytest.raises(InputError, match=f"{option} {tmp_path}"):
        _convert(lambda args: args, args)


def test_validation_is_of_one_process(tmp_path, monkeypatch):
    """Whose number fairseq takes from the GPUs there are; half precision needs none."""
    usual = ["DATA", "--task", "sentence_prediction_idpg", "--criterion", "sentence_prediction", "--init-token", "0"]
    args = options.parse_args_and_arch(
        options.get_validation_parser(),
        input_args=[*usual, "--num-classes", "2", "--path", str(tmp_path), "--batch-size", "8", "--cpu", "--fp16"],
    )
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    args.distributed_world_size = 2
    assert _convert(lambda args: args, args).distributed_world_size == 1
    args.distributed_world_size, args.task = 2, "sentence_prediction"
    assert _convert(lambda args: args, args).distributed_world_size == 2
    args.task, args.distributed_init_method = "sentence_prediction_idpg", "tcp://localhost:9"
    assert _convert(lambda args: args, args).distributed_world_size == 2


OVERRIDES_REFUSED = {
    "{'backbone': 5}": "--backbone 5",
    "{'_name': 'roberta'}": "'_name'",
    "{'bakbone': 'model.pt'}": "'bakbone'",
    "{'task': {'backbone': 'model.pt'}}": "'backbone' is no option of the task",
    "print('never')": "",
}


@pytest.mark.parametrize("text", OVERRIDES_REFUSED)
def test_overrides_refused(text):
    with pytest.raises(InputError, match=f"^--model-overrides .*{OVERRIDES_REFUSED[text]}"):
        parse_overrides(text)


@pytest.mark.parametrize(
    "text", ["{}", "{'backbone': 'x.pt', 'seed': 70000}", "{'model': {'dropout': 0}, 'prompt_position': 0}"]
)
def test_overrides_taken(text):
    assert parse_overrides(text) == ast.literal_eval(text)
    assert parse_overrides(None) == {}
