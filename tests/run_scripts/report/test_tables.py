"""The tables: ours, the paper's, the difference, what is missing and what is said below."""

from __future__ import annotations

import shutil

import pytest

from preprocess.errors import InputError
from run_scripts.report.counts import count_table
from run_scripts.report.paper import paper
from run_scripts.report.render import Table
from run_scripts.report.runs import Results
from run_scripts.report.scope import Choice
from run_scripts.report.significance import Significance
from run_scripts.report.tables import SCORE_TABLES, overview, score_table

from . import made
from .made import cells

ANY = Choice()

SEEDS = (1, 2, 3, 4, 5)


def table(tmp_path, number, runs, choice=ANY, **more) -> Table:
    return score_table(SCORE_TABLES[number], Results(tmp_path, tuple(runs)), choice, **more)


def seeds(row, task, scores, **more):
    return [made.run(row, task, seed, test=score, **more) for seed, score in zip(SEEDS, scores)]


def test_ours_beside_the_papers_values(tmp_path):
    found = table(tmp_path, 1, seeds("m-idpg-phm", "CR", [92, 93, 94, 95, 96]))
    assert found.header == ["method", "values", *paper().tasks, "Avg"]
    assert found.names == 2
    ours, papers, gaps = (cells(found, "m-idpg-phm", name) for name in ("ours", "paper", "difference"))
    assert (ours["CR"], papers["CR"], gaps["CR"]) == ("94.0±1.6", "93.2±0.3", "+0.8")
    assert (ours["RTE"], papers["RTE"], gaps["RTE"]) == ("missing", "83.5±0.7", "-")
    assert (ours["Avg"], papers["Avg"], gaps["Avg"]) == ("missing", "91.9", "-")
    assert set(cells(found, "efl", "ours").values()) == {"efl", "ours", "missing"}
    assert [group[0][0] for group in found.groups] == list(paper().blocks[1][None])


def test_the_average_is_over_all_tasks_or_over_those_asked_for(tmp_path):
    runs = [run for i, task in enumerate(made.TEN) for run in seeds("efl", task, [80 + i])]
    assert cells(table(tmp_path, 1, runs), "efl", "ours")["Avg"] == "84.5"
    assert cells(table(tmp_path, 1, runs), "efl", "difference")["Avg"] == "-7.8"
    part = table(tmp_path, 1, runs, Choice(tasks=("CR", "MR")))
    assert part.header == ["method", "values", "CR", "MR", "Avg"]
    assert cells(part, "efl", "ours")["Avg"] == "82.5"
    assert cells(part, "efl", "paper")["Avg"] == f"{(93.0 + 91.7) / 2:.1f}"
    assert any("the paper's of its printed values" in note for note in part.notes)


def test_fewer_seeds_are_marked_and_named(tmp_path):
    runs = [*seeds("efl", "CR", [90] * 5), *seeds("adapter", "CR", [90, 91, 92])]
    runs += [made.failed("adapter", "CR", 4), made.failed("adapter", "CR", 5), made.failed("efl", "MR", 1)]
    found = table(tmp_path, 1, runs)
    assert cells(found, "adapter", "ours")["CR"] == "91.0±1.0 (n=3)"
    assert cells(found, "efl", "ours")["CR"] == "90.0±0.0"
    assert "(n=...): fewer seeds; adapter on CR without 4, 5" in found.notes
    assert "failed runs, left out: 3 (adapter on CR 2; efl on MR 1)" in found.notes


def test_rates_at_which_seeds_diverged_are_named_and_out(tmp_path):
    """Not averaged over fewer seeds without a word; a cell without another rate is missing."""
    runs = [*seeds("adapter", "CR", [80, 81], lr=5e-3, dev=90), *seeds("adapter", "CR", [70, 71, 72], lr=1e-3)]
    runs += [made.failed("adapter", "CR", 3, lr=5e-3, reason="diverged", error="NaN"), *seeds("efl", "MR", [60, 61])]
    runs += [made.failed("efl", "MR", seed, reason="out of memory") for seed in (3, 4)]
    found = table(tmp_path, 1, runs)
    assert cells(found, "adapter", "ours")["CR"].startswith("71.0")
    assert cells(found, "efl", "ours")["MR"] == "missing"
    assert (
        "learning rates that are out, and missing where no other is left: adapter on CR, lr 0.005, seed 3: diverged; "
        "efl on MR, lr 0.001, seed 3, 4: out of memory"
    ) in found.notes


def test_options_besides_the_papers_stand_below(tmp_path):
    shared = ["--dropout", "0", "--group-by-length"]
    options = {"efl": shared, "m-idpg-phm": [*shared, "--generator-dropout", "0.0"]}
    options["m-idpg-dnn"] = options["m-idpg-phm"]
    found = table(tmp_path, 1, [made.run(row, "CR", given_options=given) for row, given in options.items()])
    note = "options besides the paper's: --dropout 0 --group-by-length; m-idpg-phm, m-idpg-dnn: --generator-dropout 0.0"
    assert note in found.notes
    assert not any("besides" in note for note in table(tmp_path, 1, [made.run("efl", "CR")]).notes)


def test_options_of_a_row_on_one_task_stand_below_too(tmp_path):
    runs = [made.run("efl", "CR", given_options=["--fp16"])]
    runs += [made.run("efl", "MR", given_options=["--fp16", "--dropout", "0"]), made.run("adapter", "CR")]
    assert "options besides the paper's: efl: --fp16; efl on MR: --dropout 0" in table(tmp_path, 1, runs).notes


def test_rows_that_lack_the_same_seeds_are_named_together(tmp_path):
    runs = [made.run(row, "CR", seed) for row in ("efl", "adapter") for seed in (1, 2)]
    runs += [made.run(row, "MR", 1) for row in ("efl", "adapter")]
    assert "(n=...): fewer seeds; efl, adapter on MR without 2" in table(tmp_path, 1, runs).notes


def test_the_protocol_stands_below(tmp_path):
    more = {"supplementary_position": 4}
    runs = [*seeds("efl", "CR", [90, 91], prompt_length=None), *seeds("s-idpg-phm", "RTE", [80], **more)]
    text = "\n".join(table(tmp_path, 1, runs).notes)
    assert "over seeds 1, 2, at the learning rate with the best mean dev score" in text
    assert "setting full; selection clean: learning rate and checkpoint chosen on examples held out" in text
    assert "metric: accuracy; MRPC, QQP: mean of accuracy and F1; STS-B: mean of Pearson's and Spearman's" in text
    backbone = "roberta_idpg_large with backbone roberta.large/model.pt (ab12ab12)"
    assert f"{backbone}; prompt position of pairs 1; prompt length 5" in text
    assert "not as in the paper" not in text
    short = table(tmp_path, 1, [made.run("efl", "CR", max_update=5, max_epoch=None)]).notes
    assert any("not as in the paper: max update 5" in note for note in short)
    assert "s-idpg-phm after supplementary training, position 4" in text


def test_the_papers_selection_says_what_it_chooses_by(tmp_path):
    found = table(tmp_path, 1, seeds("adapter", "MRPC", [80], selection="paper"))
    said = "chosen on the reported split itself, as in the authors' scripts: a checkpoint by its accuracy, of STS-B by"
    assert any(said in note for note in found.notes)


def test_rows_of_our_own_have_no_paper_lines_and_ablations_stay_in_their_table(tmp_path):
    runs = [made.run(row, "CR") for row in ("efl", "head-only", "M-16-previous", "L-16-previous", "phm-residual")]
    main = [group[0][0] for group in table(tmp_path, 1, runs).groups]
    assert main == [*paper().blocks[1][None], "head-only"]
    assert [line[:2] for line in table(tmp_path, 1, runs).groups[-1]] == [["head-only", "ours"]]
    assert [g[0][0] for g in table(tmp_path, 6, runs).groups] == [*paper().blocks[6][None], "L-16-previous"]


def test_another_backbones_scores_do_not_stand_beside_the_papers(tmp_path):
    """Neither its values, nor rows that were not run, unless somebody asks."""
    runs = [*seeds("m-idpg-phm", "CR", [92, 94], command=made.MINILM), made.run("lora", "CR", command=made.MINILM)]
    found = table(tmp_path, 1, runs, Choice(tasks=("CR",)))
    assert found.header == ["method", "CR", "Avg"] and found.names == 1
    assert found.lines == [["m-idpg-phm", "93.0±1.4", "93.0"], ["lora", "80.0 (n=1)", "80.0"]]
    assert any("the paper's values are of RoBERTa-large" in note and "--paper" in note for note in found.notes)
    assert found.notes[0].startswith("scores: mean") and not any("printed values" in note for note in found.notes)
    asked = table(tmp_path, 1, runs, Choice(tasks=("CR",), rows=("efl", "lora")))
    assert asked.lines == [["efl", "missing", "missing"], ["lora", "80.0", "80.0"]]
    voting = table(tmp_path, 1, runs, Choice(tasks=("CR",)), voting=True)
    assert [line[:2] for line in voting.groups[0]] == [["m-idpg-phm", "ours"], ["m-idpg-phm", "voting"]]
    both = table(tmp_path, 1, runs, Choice(tasks=("CR",), beside_paper=True))
    assert cells(both, "m-idpg-phm", "difference")["CR"] == "-0.2" and both.header[1] == "values"
    assert not any("--paper" in note for note in both.notes)
    mixed = [*runs, made.run("m-idpg-phm", "MR")]
    assert "values" not in table(tmp_path, 1, mixed).header
    few = table(tmp_path, 3, [made.run("efl", "CR", setting="few-shot", k=500, command=made.MINILM)])
    assert [line[:3] for line in few.lines] == [["500", "efl", "missing"]] and few.header[:2] == ["K", "method"]


def test_table_3_has_a_block_for_each_k(tmp_path):
    few = {"setting": "few-shot", "k": 500}
    runs = [*seeds("efl", "CR", [90, 92], **few), made.run("adapter", "CR", **few), made.run("efl", "CR", test=1)]
    found = table(tmp_path, 3, runs)
    assert found.header[:3] == ["K", "method", "values"]
    assert cells(found, "500", "efl", "ours")["CR"] == "91.0±1.4"
    assert cells(found, "500", "efl", "difference")["CR"] == "+0.1"
    assert cells(found, "100", "efl", "ours")["CR"] == "missing"
    assert cells(found, "500", "adapter", "ours")["CR"] == "80.0 (n=1)"
    assert "(n=...): fewer seeds; adapter on CR with K = 500 without 2" in found.notes
    assert list(dict.fromkeys(line[0] for line in found.lines)) == ["100", "500", "1000"]
    runs.append(made.run("efl", "CR", setting="few-shot", k=16, test=70))
    assert {line[0] for line in table(tmp_path, 3, runs, Choice(k=500)).lines} == {"500"}
    own = table(tmp_path, 3, runs, Choice(k=16))
    assert [line[:3] for line in own.lines] == [["16", "efl", "ours"]] and cells(own, "16", "efl", "ours")[
        "CR"
    ] == "70.0"


def test_table_7_has_averages_and_votes(tmp_path):
    runs = []
    for task, right in (("CR", [1, 1, 0, 0]), ("MR", [0, 1, 1, 0])):
        for seed, said in enumerate(([1, 1, 0, 1], [1, 0, 0, 0], [1, 1, 1, 0])):  # the majority: 1, 1, 0, 0
            runs.append(made.save_predictions(tmp_path, made.run("phm", task, seed, test=60 + seed), said, right))
    found = table(tmp_path, 7, runs, Choice(tasks=("CR", "MR")))
    assert found.header == ["method", "values", "Avg", "Voting"]
    assert cells(found, "phm", "ours") == {"method": "phm", "values": "ours", "Avg": "61.0", "Voting": "75.0"}
    assert cells(found, "phm", "paper")["Avg"] == "-"  # printed over ten tasks only
    assert cells(table(tmp_path, 7, runs), "phm", "paper")["Voting"] == "86.9"
    voting = table(tmp_path, 1, [{**run, "row": "efl"} for run in runs], voting=True)
    assert cells(voting, "efl", "voting")["CR"] == "100.0"
    assert cells(voting, "efl", "voting")["MR"] == "50.0"
    assert cells(voting, "efl", "voting")["RTE"] == "missing"


def test_rows_that_are_asked_for_are_all_that_is_shown(tmp_path):
    runs = [made.run(row, "CR") for row in ("efl", "adapter", "mine")]
    found = table(tmp_path, 1, runs, Choice(rows=("mine", "compacter", "efl")))
    assert [group[0][0] for group in found.groups] == ["efl", "compacter", "mine"]
    assert cells(found, "compacter", "ours")["CR"] == "missing"
    of_k = table(tmp_path, 3, [made.run("efl", "CR", setting="few-shot", k=100)], Choice(rows=("efl",)))
    assert [group[0][:2] for group in of_k.groups] == [["100", "efl"], ["500", "efl"], ["1000", "efl"]]
    counted = count_table(Results(tmp_path, tuple(runs)), Choice(rows=("adapter",)))
    assert [line[0] for line in counted.lines] == ["adapter"]


def test_seeds_that_are_asked_for(tmp_path):
    """Rows of the same seeds can be compared; the rate is the one that these seeds' dev prefers."""
    runs = [*seeds("efl", "CR", [90, 92, 10]), *seeds("adapter", "CR", [80, 84]), made.run("adapter", "CR", 1, 9.0, 70)]
    found = table(tmp_path, 1, runs, Choice(seeds=(1, 2)))
    assert cells(found, "efl", "ours")["CR"] == "91.0±1.4" and cells(found, "adapter", "ours")["CR"] == "82.0±2.8"
    assert any("over seeds 1, 2," in note for note in found.notes) and not any("(n=" in note for note in found.notes)
    with_one_never_run = table(tmp_path, 1, runs, Choice(seeds=(1, 7)))
    assert cells(with_one_never_run, "efl", "ours")["CR"] == "90.0 (n=1)"
    assert "(n=...): fewer seeds; efl, adapter on CR without 7" in with_one_never_run.notes
    with pytest.raises(InputError, match="no finished full run for this with --seeds 7 8: run it first"):
        table(tmp_path, 1, runs, Choice(seeds=(7, 8)))


def test_significance_is_a_last_column(tmp_path):
    runs = [*seeds("efl", "CR", [11, 22, 33]), *seeds("adapter", "CR", [10, 20, 30]), made.run("compacter", "MR")]
    found = table(tmp_path, 1, runs, significance=["adapter"])
    assert found.header[-1] == "minus adapter"
    assert cells(found, "efl", "ours")["minus adapter"] == "+2.0 (p=0.074, n=3)"
    assert cells(found, "efl", "paper")["minus adapter"] == ""
    assert cells(found, "adapter", "ours")["minus adapter"] == "-"
    assert cells(found, "compacter", "ours")["minus adapter"] == "- (n=0)"
    assert cells(found, "fine-tuning", "ours")["minus adapter"] == "missing"
    ranked = table(tmp_path, 1, runs, significance=["adapter"], how=Significance("wilcoxon"))
    assert cells(ranked, "efl", "ours")["minus adapter"] == "+2.0 (p=0.250, n=3)"
    assert any("two-sided Wilcoxon signed-rank test" in note for note in ranked.notes)
    by_task = table(tmp_path, 1, runs, significance=["adapter"], how=Significance(over="tasks"))
    assert cells(by_task, "efl", "ours")["minus adapter"] == "+2.0 (p=-, n=1)"
    assert any("over the n tasks, of each the mean over the seeds that both have" in note for note in by_task.notes)
    with pytest.raises(InputError, match="--significance adaptor.*did you mean adapter"):
        table(tmp_path, 1, runs, significance=["adaptor"])


def test_significance_against_several_rows(tmp_path):
    runs = [
        *seeds("efl", "CR", [11, 22, 33]),
        *seeds("adapter", "CR", [10, 20, 30]),
        *seeds("compacter", "CR", [1, 2, 4]),
    ]
    found = table(tmp_path, 1, runs, significance=["adapter", "efl"])
    assert found.header[-2:] == ["minus adapter", "minus efl"]
    assert [cells(found, "efl", "ours")[name] for name in found.header[-2:]] == ["+2.0 (p=0.074, n=3)", "-"]
    assert [cells(found, "adapter", "ours")[name] for name in found.header[-2:]] == ["-", "-2.0 (p=0.074, n=3)"]
    alone = [table(tmp_path, 1, runs, significance=[row]) for row in ("adapter", "efl")]
    assert [cells(each, "compacter", "ours")[each.header[-1]] for each in alone] == [
        cells(found, "compacter", "ours")[name] for name in found.header[-2:]
    ]
    assert any("p of a two-sided paired t-test over them" in note for note in found.notes)


def test_significance_is_corrected_for_the_rows_that_are_shown_and_of_each_k_alone(tmp_path):
    """p is 0.035 in each pair: too much for two of them, and not for the only one of K = 500."""
    few = [
        run
        for k, rows in ((100, ("efl", "compacter", "adapter")), (500, ("efl", "adapter")))
        for row, tests in (("efl", [12, 23, 34]), ("compacter", [14, 23, 32]), ("adapter", [10, 20, 30]))
        if row in rows
        for run in seeds(row, "CR", tests, setting="few-shot", k=k)
    ]
    both = table(tmp_path, 3, few, significance=["adapter"])
    shown = {(line[0], line[1]): line[-1] for line in both.lines if "p=" in line[-1]}
    assert shown == {
        ("100", "efl"): "+3.0 (p=0.035*, n=3)",
        ("100", "compacter"): "+3.0 (p=0.035*, n=3)",
        ("500", "efl"): "+3.0 (p=0.035**, n=3)",
    }
    assert "**: also corrected for all rows of the column with the same K (Holm)" in "\n".join(both.notes)
    alone = table(tmp_path, 3, few, Choice(rows=("efl", "adapter"), k=100), significance=["adapter"])
    assert [line[-1] for line in alone.lines if "p=" in line[-1]] == ["+3.0 (p=0.035**, n=3)"]
    assert "**: also corrected for all rows of the column (Holm)" in "\n".join(alone.notes)


def test_the_overview_lists_what_there_is(tmp_path):
    few = {"setting": "few-shot", "k": 100, "lr": 1e-4}
    runs = [made.run("a", "CR"), made.run("a", "RTE", 2), made.failed("a", "RTE"), made.run("a", "CR", **few)]
    found = overview(Results(tmp_path, tuple(runs)))
    assert found.title.endswith("4 runs, 3 finished, 1 failed")
    assert [line[:2] for line in found.lines] == [["full", "-"], ["few-shot", "100"]]
    line = dict(zip(found.header, found.lines[0]))
    assert (line["tasks"], line["positions"], line["seeds"]) == ("CR, RTE", "0, 1", "1, 2")
    assert (line["finished"], line["failed"], line["supplementary"]) == ("2", "1", "-")
    assert found.notes == ["1 failed: out of memory"]


def test_a_report_needs_no_predictions_unless_it_votes(tmp_path):
    runs = [made.save_predictions(tmp_path, made.run("efl", "CR"), [1], [1])]
    shutil.rmtree(tmp_path / "runs")
    assert cells(table(tmp_path, 1, runs), "efl", "ours")["CR"] == "80.0"
