"""What stands under a table of the options and settings of its runs."""

from __future__ import annotations

import pytest

from run_scripts.report.methods import methods_table
from run_scripts.report.notes import (
    data_note,
    fewer_seeds,
    options_note,
    selection_notes,
    sizes_note,
    variants_note,
    versions_note,
)
from run_scripts.report.runs import Results
from run_scripts.report.scope import Choice, Scope

from . import made

OFF = {"given_options": ["--dropout", "0"]}
FEW = {"setting": "few-shot"}


def long(row, **more):
    options = ["--prompt-length", "20", *more.get("given_options", ())]
    return made.run(row, "MR", prompt_length=20, given_options=options)


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([made.run("a", "MR", **OFF), made.run("b", "CR", **OFF)], "--dropout 0"),
        ([made.run("a", "MR", **OFF), made.run("a", "CR", **OFF), made.run("b", "CR")], "a: --dropout 0"),
        ([made.run("a", "MR", **OFF), made.run("a", "CR")], "a on MR: --dropout 0"),
        (
            [made.run(row, "MR", k=k, **FEW, **(OFF if k == 100 else {})) for row in "ab" for k in (100, 500)],
            "a on MR with K = 100, b on MR with K = 100: --dropout 0",
        ),
        ([made.run("a", "MR"), long("a", **OFF)], "a on MR, prompt length 20: --dropout 0"),
        ([made.run("a", "MR", position=0), made.run("a", "MR", position=4, **OFF)], "a on MR, position 4: --dropout 0"),
        ([long("a"), made.run("b", "MR")], "a: --prompt-length 20"),
    ],
)
def test_options_of_all_runs_or_of_those_that_have_them(runs, said):
    assert options_note(runs) == [f"options besides the paper's: {said}"]


def test_without_options_there_is_no_note():
    assert options_note([made.run("a", "MR"), made.run("a", "MR", prompt_length=20)]) == []
    assert options_note([made.run("a", "MR"), long("a")]) == []  # the lengths stand beside the positions


def test_settings_of_some_rows_name_them():
    short = made.run("a", "MR", max_update=20)
    assert variants_note([short]).endswith("; not as in the paper: max update 20")
    assert variants_note([short, made.run("b", "MR")]).endswith("; not as in the paper: max update 20 (a)")
    runs = [short, made.run("a", "CR"), made.run("b", "CR", max_update=30)]
    assert variants_note(runs).endswith("; not as in the paper: max update 20, 30 (a on MR, b)")
    few = [made.run("a", "MR", k=100, dev_examples=8, max_epoch=5, **FEW)]
    assert variants_note(few).endswith("; not as in the paper: dev examples 8; max epoch 5")


def test_what_was_chosen_on_is_said_of_each_setting():
    full, few = selection_notes([made.run("a", "CR", selection="paper"), made.run("a", "CR", k=16, **FEW)])
    assert full.startswith("setting full; selection paper") and "the reported split itself" in full
    assert few.startswith("setting few-shot with K = 16; selection clean")


def test_figures_say_what_lacks_seeds():
    whole = [made.run("a", "CR", seed, position=place) for seed in (1, 2) for place in (0, 4)]
    assert fewer_seeds(Scope(whole, [])) == []
    lone = [made.run(row, "MRPC", 1, position=place) for row in "ab" for place in (0, 1)]
    assert fewer_seeds(Scope([*whole, *lone], [])) == ["fewer seeds: a, b on MRPC without 2"]
    one_place = [run for run in whole if (run["seed"], run["position"]) != (2, 4)]
    assert fewer_seeds(Scope(one_place, [])) == ["fewer seeds: a on CR, position 4 without 2"]
    other_rate = [made.run("b", "CR", 3, lr=1e-4, dev=1.0), made.run("b", "CR", 3, lr=1e-3)]
    said = "fewer seeds: a on CR without 3; b on CR without 1, 2"
    assert fewer_seeds(Scope([*whole, *other_rate], [])) == [said]


def on(row, task, read, data, **more):
    """A run whose record has these fingerprints of its data; None: it does not say."""
    found = {"read_sha256": read and read * 64, "data_sha256": data and data * 64}
    return made.run(row, task, **{name: value for name, value in found.items() if value}, **more)


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([on("a", "CR", "1", "1"), on("b", "CR", "2", "2")], ": 11111111 of a on CR; 22222222 of b on CR"),
        (
            [on("a", "CR", "1", "9"), on("b", "CR", "1", "8"), on("b", "CR", "2", "2", prompt_length=10)],
            ": 11111111 of a on CR; b on CR, prompt length 5; 22222222 of b on CR, prompt length 10",
        ),
        (
            [on("a", "CR", None, "1"), on("a", "MR", "3", "3"), on("b", "CR", "2", "2")],
            ", or not the same word vectors beside it, which older fingerprints cover: 11111111 of a on CR; "
            "22222222 of b on CR",
        ),
    ],
)
def test_rows_of_other_data_are_named(tmp_path, runs, said):
    """Under every table and figure of scores; rows of EFL have data of their own, so that it is no error."""
    assert data_note(runs) == [f"{'perhaps ' * said.startswith(',')}not the same data for all runs of a task{said}"]
    table = methods_table(Results(tmp_path, tuple(runs)), Choice(tasks=("CR",), prompt_length=5))
    assert (data_note(runs)[0] in table.notes) == ("prompt length" not in said)


@pytest.mark.parametrize(
    "runs",
    [
        [on("a", "CR", "1", "1"), on("b", "MR", "2", "2")],
        [on("a", "CR", "1", "1"), on("b", "CR", "1", "2"), on("vectors", "CR", "2", "2")],
        [on("a", "CR", "1", "1"), on("older", "CR", None, "2"), on("both", "CR", "1", "2")],
        [on("both", "CR", "1", "2"), on("vectors", "CR", "1", "3"), on("older", "CR", None, "2")],
        [on("a", "CR", "1", "1"), on("silent", "CR", None, None)],
    ],
)
def test_the_same_texts_are_the_same_data(runs):
    assert data_note(runs) == []


def test_rows_of_another_backbone_are_named():
    """Table 1 has EFL on roberta.large.mnli."""
    one, other = ({"path": f"/m/{name}/model.pt", "sha256": name * 8} for name in ("large", "mnli"))
    runs = [made.run("a", "CR", backbone=one), made.run("b", "CR", backbone=one)]
    assert " with backbone large/model.pt (largelar); prompt" in variants_note(runs)
    said = " with backbone large/model.pt (largelar) (a, b), mnli/model.pt (mnlimnli) (efl); prompt"
    assert said in variants_note([*runs, made.run("efl", "CR", backbone=other)])


def test_sizes_of_what_is_chosen_with_and_tested_on(tmp_path):
    """1,000 examples choose, as in the paper, but where K leaves fewer."""
    sizes = {"MR": (1000, 500), "CR": (1000, 500), "MRPC": (601, 500)}
    runs = [
        made.run("a", task, k=500, examples={"dev": dev, "test": test}, **FEW) for task, (dev, test) in sizes.items()
    ]
    said = "1,000 and 500 (MR with K = 500, CR with K = 500); 601 and 500 (MRPC with K = 500)"
    said = f"examples to choose with and to test on: {said}"
    assert sizes_note([*runs, made.run("b", "MR", k=500, **FEW)]) == [said]  # an older record of the same examples
    assert sizes_note([*runs, made.run("a", "RTE")]) == [f"{said}; not recorded of RTE"]
    assert sizes_note(runs)[0] in methods_table(Results(tmp_path, tuple(runs)), Choice(k=500)).notes
    assert sizes_note([made.run("a", "RTE")]) == []  # an older record


def test_runs_of_several_versions_of_the_code(tmp_path):
    """A sweep that goes on after an update runs what is missing: a mean over seeds is of both."""
    old, new = ({"python": p, "torch": "2.4.1", "fairseq_idpg": v} for p, v in (("3.10", "0.1.0"), ("3.11", "0.2.0")))
    runs = [made.run("a", "CR", 1, versions=old), made.run("a", "CR", 2, versions=new), made.run("a", "CR", 3)]
    assert versions_note(runs) == ["runs of several versions of fairseq_idpg 0.1.0, 0.2.0"]
    assert versions_note(runs)[0] in methods_table(Results(tmp_path, tuple(runs)), Choice()).notes
    assert versions_note(runs[1:]) == []


def test_runs_on_several_devices():
    """A torch without CUDA was on a CPU; of other records without hardware nobody knows."""
    runs = [made.run("a", "CR", seed, hardware=device) for seed, device in enumerate(("NVIDIA X", "CPU", None))]
    of_cpu = made.run("a", "CR", 3, versions={"torch": "2.13.0+cpu"})
    assert versions_note([*runs[:2], of_cpu]) == versions_note([runs[0], of_cpu]) == ["runs on CPU and on NVIDIA X"]
    assert versions_note(runs[1:]) == ["runs on CPU and on hardware that is not on record"]
    assert versions_note([runs[1], of_cpu]) == versions_note(runs[:1]) == versions_note(runs[2:]) == []


def test_runs_of_several_commits():
    """A version is no more than a name between two releases."""
    runs = [made.run("a", "CR", seed, git=git) for seed, git in enumerate(("ab12", "cd34", "cd34+", None))]
    changed = "1 of 3 runs with changes that were not committed"
    assert versions_note(runs) == [f"runs of 2 commits of this repository; {changed}"]
    assert versions_note(runs[:2]) == ["runs of 2 commits of this repository"]
    assert versions_note(runs[2:]) == ["1 of 1 runs with changes that were not committed"]
    assert versions_note(runs[1:2]) == versions_note(runs[3:]) == []
