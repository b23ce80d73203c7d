"""Which runs a table takes, and what it refuses to mix."""

from __future__ import annotations

import pytest

from preprocess.errors import InputError
from run_scripts.report.runs import Results
from run_scripts.report.scope import Choice, take_runs

from . import made

ANY = Choice()

OTHER = {"path": "/models/mnli/model.pt", "sha256": "cd34" * 16}


def taken(tmp_path, runs, choice=ANY, **more) -> list[str]:
    return [run["run"] for run in take_runs(Results(tmp_path, tuple(runs)), choice, **more).done]


def refusal(tmp_path, runs, choice=ANY, **more) -> str:
    with pytest.raises(InputError) as error:
        taken(tmp_path, runs, choice, **more)
    message = str(error.value)
    assert "\n" not in message
    return message


def test_two_selections_demand_a_choice(tmp_path):
    runs = [made.run("a", "CR"), made.run("b", "CR", selection="paper")]
    message = refusal(tmp_path, runs)
    assert "more than one selection: clean, paper; give --selection" in message and str(tmp_path) in message
    assert taken(tmp_path, runs, Choice(selection="paper")) == [runs[1]["run"]]


def test_two_backbones_demand_a_choice(tmp_path):
    runs = [made.run("a", "CR"), made.run("b", "CR", backbone=OTHER)]
    message = refusal(tmp_path, runs)
    assert "mnli/model.pt (cd34cd34), roberta.large/model.pt (ab12ab12); give --backbone" in message
    for name in ("ab12", "AB12AB12", "roberta.large/model.pt", "/models/roberta.large/model.pt"):
        assert taken(tmp_path, runs, Choice(backbones=(name,))) == [runs[0]["run"]]
    assert taken(tmp_path, runs, Choice(backbones=("ab12", "mnli/model.pt"))) == [run["run"] for run in runs]
    for name in ("b12a", "large/model.pt"):
        assert "holds no finished full run" in refusal(tmp_path, runs, Choice(backbones=(name,)))


def test_the_same_backbone_at_two_paths_is_one(tmp_path):
    moved = {**made.BACKBONE, "path": "/elsewhere/model.pt"}
    assert len(taken(tmp_path, [made.run("a", "CR"), made.run("b", "CR", backbone=moved)])) == 2


def test_one_row_never_mixes_backbones(tmp_path):
    runs = [made.run("a", "CR"), made.run("a", "MR", backbone=OTHER)]
    assert "a has runs with more than one backbone" in refusal(tmp_path, runs, Choice(backbones=("ab12", "cd34")))


def test_supplementary_training_makes_backbones_of_its_own(tmp_path):
    runs = [made.run("a", "CR"), made.run("b", "CR", supplementary_position=0, backbone=OTHER)]
    assert len(taken(tmp_path, runs)) == 2


def test_full_and_few_shot_runs_are_not_mixed(tmp_path):
    runs = [made.run("a", "CR"), made.run("a", "CR", setting="few-shot", k=100)]
    assert taken(tmp_path, runs) == [runs[0]["run"]]
    assert taken(tmp_path, runs, ks=(100, 500)) == [runs[1]["run"]]
    assert "no finished few-shot run with K = 500" in refusal(tmp_path, runs, ks=(500,))


def test_positions_of_one_row_and_kind_demand_a_choice(tmp_path):
    single, pair = made.run("a", "CR"), made.run("a", "RTE")
    assert len(taken(tmp_path, [single, pair])) == 2  # 0 for singles, 1 for pairs
    others = [made.run("a", "CR", position=4), made.run("a", "RTE", position=0)]
    runs = [single, pair, *others]
    assert "a on single sentences has runs with more than one position: 0, 4; give --position" in refusal(
        tmp_path, runs
    )
    assert taken(tmp_path, runs, Choice(positions=(0, 1))) == [single["run"], pair["run"]]
    assert taken(tmp_path, runs, Choice(positions=(0,))) == [single["run"], others[1]["run"]]
    unprompted = made.run("adapter", "RTE", prompt_length=None)
    assert unprompted["run"] in taken(tmp_path, [*runs, unprompted], Choice(positions=(0,)))


def test_supplementary_positions_of_a_row_demand_a_choice(tmp_path):
    runs = [made.run("a", "CR"), made.run("a", "CR", supplementary_position=0)]
    assert "supplementary position: 0, none; give --supplementary-position" in refusal(tmp_path, runs)
    assert taken(tmp_path, runs, Choice(supplementary="none")) == [runs[0]["run"]]
    assert taken(tmp_path, runs, Choice(supplementary=0)) == [runs[1]["run"]]


def test_the_papers_prompt_length_is_taken_among_several(tmp_path):
    runs = [made.run("m-idpg-phm", "CR", prompt_length=length) for length in (1, 5, 10)]
    assert taken(tmp_path, runs) == [runs[1]["run"]]
    assert taken(tmp_path, runs, Choice(prompt_length=10)) == [runs[2]["run"]]
    longer = made.run("prompt-tuning-134", "CR", prompt_length=134)
    assert longer["run"] in taken(tmp_path, [*runs, longer], Choice(prompt_length=10))
    assert "more than one prompt length: 1, 10; give --prompt-length" in refusal(tmp_path, [runs[0], runs[2]])
    assert len(taken(tmp_path, runs, free=["prompt_length"])) == 3


def test_failed_runs_are_counted_and_not_taken(tmp_path):
    runs = [made.run("a", "CR"), made.failed("a", "CR", 2), made.failed("a", "CR", 3, selection="paper")]
    scope = take_runs(Results(tmp_path, tuple(runs)), Choice(selection="clean"))
    assert [run["seed"] for run in scope.failed] == [2]
    assert "no finished full run" in refusal(tmp_path, runs[1:])


def test_other_tasks_than_the_papers_are_left_out_unless_named(tmp_path):
    runs = [made.run("a", "CR"), made.run("a", "MNLI")]
    assert taken(tmp_path, runs) == [runs[0]["run"]]
    assert taken(tmp_path, runs, Choice(tasks=("MNLI",))) == [runs[1]["run"]]
    assert "with --tasks RTE, --selection clean" in refusal(tmp_path, runs, Choice(tasks=("RTE",), selection="clean"))


def test_a_failed_prompt_of_another_position_is_none_of_the_table(tmp_path):
    """It does not know its prompt's length, and so not whether it has a prompt."""
    done = [made.run("a", "CR", position=0), made.run("adapter", "CR", prompt_length=None)]
    gone = [made.failed(row, "CR", 9, position=1, prompt_length=None) for row in ("a", "adapter")]
    scope = take_runs(Results(tmp_path, (*done, *gone)), Choice(positions=(0,)))
    assert scope.done == done and scope.failed == gone[1:]
