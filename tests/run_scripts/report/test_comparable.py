"""Runs that no table mixes: of other versions, of one cell twice, or of one cell trained in two ways."""

from __future__ import annotations

import pytest

from preprocess.errors import InputError
from run_scripts.report.comparable import check_alike, still_failed
from run_scripts.report.runs import Results

from . import made


def check(tmp_path, runs) -> None:
    check_alike(runs, Results(tmp_path, tuple(runs)))


def refusal(tmp_path, runs) -> str:
    with pytest.raises(InputError) as error:
        check(tmp_path, runs)
    assert "\n" not in str(error.value) and str(error.value).startswith(str(tmp_path))
    return str(error.value)


def test_two_runs_of_one_cell_are_refused(tmp_path):
    one = made.run("a", "CR", options={"model": {"dropout": 0.1, "save_dir": "x"}})
    other = made.run("a", "CR", options={"model": {"dropout": 0.0, "save_dir": "y"}})
    message = refusal(tmp_path, [one, other])
    assert (
        f"runs {one['run']} and {other['run']} are both a on CR, lr 0.001, seed 1 (they differ in dropout)" in message
    )


def test_runs_of_different_versions_are_not_mixed(tmp_path):
    runs = [made.run("adapter", "CR"), made.run("adapter", "CR", 2, protocol=2)]
    assert "made with different versions of the settings (protocol 1 and 2)" in refusal(tmp_path, runs)


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ({"max_update": 200}, {"max_update": 400}, "max update 200 and 400"),
        ({}, {"batch_size": 8, "max_epoch": 3}, "batch size None and 8, max epoch None and 3"),
        ({"warm_up": None}, {"warm_up": 0.06}, "warm up None and 0.06"),
        ({}, {"supplementary": True}, "supplementary, which one of them has"),
        ({"init_prompts_from": None}, {"init_prompts_from": "/a.pt"}, "init prompts from, which one of them has"),
        ({"method": "m-idpg-phm"}, {"method": "m-idpg-dnn"}, "method m-idpg-phm and m-idpg-dnn"),
        ({"read_sha256": "1" * 64}, {"read_sha256": "2" * 64}, f"data {'1' * 16} and {'2' * 16}"),
        ({"given_options": ["--cpu"]}, {"given_options": ["--dropout", "0"]}, "--dropout 0"),
        ({"given_options": ["--lora-rank", "4"]}, {"given_options": ["--lora-rank=8"]}, "--lora-rank 4, --lora-rank 8"),
    ],
)
@pytest.mark.parametrize("place", [{"seed": 2}, {"lr": 5e-3}])
def test_seeds_and_rates_of_a_cell_are_trained_alike(tmp_path, one, other, said, place):
    """A sweep that was stopped, changed, and gone on with: no run stands twice, and no mean says that it is of two."""
    runs = [made.run("a", "CR", **one), made.run("a", "CR", **place, **other)]
    message = refusal(tmp_path, runs)
    assert f"runs {runs[0]['run']} and {runs[1]['run']} are both a on CR, and differ in {said}: remove" in message
    for apart in ({"task": "MR"}, {"row": "b"}, {"prompt_length": 10}, {"k": 100}):
        check(tmp_path, [runs[0], {**runs[1], **apart}])


def test_what_changes_no_result_may_differ(tmp_path):
    options = (["--cpu", "--fp16"], ["--fp16", "--update-freq", "2", "--num-workers=4"], None)
    check(tmp_path, [made.run("a", "CR", seed, given_options=given) for seed, given in enumerate(options)])


PLAIN, CLIPPED = ({"given_options": options} for options in ([], ["--clip-norm", "1"]))


@pytest.mark.parametrize(
    ("gone", "done", "counts"),
    [
        ({"seed": 1}, {"seed": 2}, True),
        ({"seed": 1}, {"seed": 1}, False),  # it has finished since, in smaller parts
        ({"seed": 1, "lr": 1e-4}, {"seed": 1}, True),
        ({"seed": 1, **PLAIN}, {"seed": 2, **CLIPPED}, False),
        ({"seed": 1, **CLIPPED}, {"seed": 2, **CLIPPED}, True),
        ({"seed": 1, **PLAIN}, {"seed": 2, "given_options": ["--update-freq", "2"]}, True),
        ({"seed": 1}, {"seed": 2, "warm_up": 0.06}, False),
        ({"seed": 1}, {"seed": 2, "protocol": 2}, False),
        ({"seed": 1, "task": "MR"}, {"seed": 2, **CLIPPED}, True),  # nothing of its cell has finished
    ],
)
def test_failed_runs_that_say_nothing_of_the_finished_ones(gone, done, counts):
    failed = made.failed("a", **{"task": "CR", "reason": "out of memory", "prompt_length": None, **gone})
    assert still_failed([failed], [made.run("a", "CR", **done)]) == [failed] * counts


def test_files_that_runs_start_from_may_have_moved(tmp_path):
    for name in ("init_prompts_from", "init_head_from"):
        check(tmp_path, [made.run("a", "CR", 1, **{name: "/old/a.pt"}), made.run("a", "CR", 2, **{name: "/new/a.pt"})])
