"""The tables: ours, the paper's, the difference, what is missing and what is said below."""

from run_scripts.report.paper import paper

from . import made
from .made import cells, report, seeds


def test_ours_beside_the_papers_values(tmp_path):
    found = report(tmp_path, seeds("m-idpg-phm", "CR", [92, 93, 94, 95, 96, 10]), "--table 1 --seeds 1 2 3 4 5")
    lines = [cells(found, "m-idpg-phm", name) for name in ("ours", "paper", "difference")]
    assert [line["CR"] for line in lines] == ["94.0±1.6", "93.2±0.3", "+0.8"]
    assert [line["RTE"] for line in lines] == ["missing", "83.5±0.7", "-"]
    assert [line["Avg"] for line in lines] == ["missing", "91.9", "-"]


def test_the_average_is_over_all_tasks_or_over_those_asked_for(tmp_path):
    runs = [run for i, task in enumerate(made.TEN) for run in seeds("efl", task, [80 + i])]
    whole, part = report(tmp_path, runs, "--table 1"), report(tmp_path, runs, "--table 1 --tasks CR MR")
    assert [cells(whole, "efl", kind)["Avg"] for kind in ("ours", "difference")] == ["84.5", "-7.8"]
    assert part.header == ["method", "values", "CR", "MR", "Avg"]
    assert [cells(part, "efl", kind)["Avg"] for kind in ("ours", "paper")] == ["82.5", f"{(93.0 + 91.7) / 2:.1f}"]


def test_fewer_seeds_failures_and_rates_that_are_out_are_named(tmp_path):
    """Not averaged over fewer seeds in silence; a cell without another rate is missing."""
    runs = [*seeds("adapter", "CR", [80, 81], lr=5e-3, dev=90), *seeds("adapter", "CR", [70, 71, 72], lr=1e-3)]
    runs += [made.failed("adapter", "CR", 3, lr=5e-3, reason="diverged", error="NaN"), *seeds("efl", "MR", [60, 61])]
    runs += [made.failed("efl", "MR", seed, reason="out of memory") for seed in (3, 4)]
    runs += [*seeds("compacter", "CR", [90, 91, 92]), made.failed("compacter", "CR", 4)]
    found = report(tmp_path, runs, "--table 1")
    assert cells(found, "adapter", "ours")["CR"] == "71.0±1.0 (n=3)"
    assert cells(found, "compacter", "ours")["CR"] == "91.0±1.0 (n=3)"
    assert cells(found, "efl", "ours")["MR"] == "missing"
    for said in (
        "(n=...): fewer seeds; adapter, compacter on CR without 4",
        "adapter on CR, lr 0.005, seed 3: diverged; efl on MR, lr 0.001, seed 3, 4: out of memory",
        "failed runs, left out: 1 (compacter on CR 1)",
    ):
        assert said in found.notes[-1]


def test_rows_of_our_own_have_no_paper_lines_and_ablations_stay_in_their_table(tmp_path):
    runs = [made.run(row, "CR") for row in ("efl", "head-only", "M-16-previous", "L-16-previous", "phm-residual")]
    main, generators = (report(tmp_path, runs, f"--table {number}") for number in (1, 6))
    assert [group[0][0] for group in main.groups] == [*paper().blocks[1][None], "head-only"]
    assert [group[0][0] for group in generators.groups] == [*paper().blocks[6][None], "L-16-previous"]


def test_another_backbones_scores_do_not_stand_beside_the_papers(tmp_path):
    """Neither its values, nor rows that were not run, unless somebody asks."""
    runs = [*seeds("m-idpg-phm", "CR", [92, 94], arch=made.MINILM), made.run("lora", "CR", arch=made.MINILM)]
    found = report(tmp_path, runs, "--table 1 --tasks CR")
    assert found.header == ["method", "CR", "Avg"] and found.names == 1
    assert found.lines == [["m-idpg-phm", "93.0±1.4", "93.0"], ["lora", "80.0 (n=1)", "80.0"]]
    assert any("the paper's values are of RoBERTa-large" in note for note in found.more)
    both = report(tmp_path, runs, "--table 1 --tasks CR --paper")
    assert cells(both, "m-idpg-phm", "difference")["CR"] == "-0.2" and both.header[1] == "values"


def test_table_3_has_a_block_for_each_k(tmp_path):
    few = {"setting": "few-shot", "k": 500}
    runs = [*seeds("efl", "CR", [90, 92], **few), made.run("adapter", "CR", **few), made.run("efl", "CR", test=1)]
    found = report(tmp_path, runs, "--table 3")
    assert [cells(found, "500", "efl", kind)["CR"] for kind in ("ours", "difference")] == ["91.0±1.4", "+0.1"]
    assert cells(found, "100", "efl", "ours")["CR"] == "missing"
    assert list(dict.fromkeys(line[0] for line in found.lines)) == ["100", "500", "1000"]


def test_tables_have_averages_and_votes(tmp_path):
    runs = []
    for task, right in (("CR", [1, 1, 0, 0]), ("MR", [0, 1, 1, 0])):
        for seed, said in enumerate(([1, 1, 0, 1], [1, 0, 0, 0], [1, 1, 1, 0])):  # the majority: 1, 1, 0, 0
            runs.append(made.save_predictions(tmp_path, made.run("phm", task, seed, test=60 + seed), said, right))
    found = report(tmp_path, runs, "--table 7 --tasks CR MR")
    assert cells(found, "phm", "ours") == {"method": "phm", "values": "ours", "Avg": "61.0", "Voting": "75.0"}
    assert list(cells(found, "phm", "paper").values()) == ["phm", "paper", "-", "-"]  # printed over ten tasks only
    efl = [{**run, "row": "efl"} for run in runs]
    voting = cells(report(tmp_path, efl, "--table 1 --voting"), "efl", "voting")
    assert [voting[task] for task in ("CR", "MR", "RTE")] == ["100.0", "50.0", "missing"]


def test_significance_is_corrected_for_the_rows_that_are_shown_and_of_each_k_alone(tmp_path):
    """p is 0.035 in each pair: too much for two of them, and not for the only one of K = 500."""
    tests = {"efl": [12, 23, 34], "adapter": [10, 20, 30], "compacter": [14, 23, 32]}
    few = [run for row, of in tests.items() for run in seeds(row, "CR", of, setting="few-shot", k=100)]
    few += [run for row in ("efl", "adapter") for run in seeds(row, "CR", tests[row], setting="few-shot", k=500)]
    both = report(tmp_path, few, "--table 3 --significance adapter")
    one, two = "+3.0 (p=0.035**, n=3)", "+3.0 (p=0.035*, n=3)"
    found = {(line[0], line[1]): line[-1] for line in both.lines if "p=" in line[-1]}
    assert found == {("100", "efl"): two, ("100", "compacter"): two, ("500", "efl"): one}
