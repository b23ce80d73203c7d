"""The table of transfer: which run's score stands for a pair of tasks, and that no other table takes such runs."""

from __future__ import annotations

import pytest

from preprocess.errors import InputError
from run_scripts.report.runs import read_results
from run_scripts.report.scope import Choice
from run_scripts.report.tables import SCORE_TABLES, overview, score_table
from run_scripts.report.transfer import transfer_table

from . import made


def answered(row, seed, lr, dev, accuracy, **more):
    """A run on MRPC with what its model scores on QQP."""
    scores = {"accuracy": accuracy, "f1": 0.0, "acc_and_f1": accuracy / 2, "macro_f1": 40.0}
    scores["acc_and_macro_f1"] = (accuracy + 40) / 2
    found = {"QQP": {"metric": "acc_and_f1", "scores": scores, "test": scores["acc_and_f1"]}}
    return made.run(row, "MRPC", seed, lr, dev, 99.0, transfer=found, source_task=None, **more)


def continued(row, seed, lr, dev, test, **more):
    return made.run(row, "QQP", seed, lr, dev, test, source_task="MRPC", k=8, setting="few-shot", **more)


@pytest.fixture
def results(tmp_path):
    runs = [answered("id-spam", 1, 1e-3, 70, 60.0), answered("id-spam", 2, 1e-3, 72, 64.0)]
    runs += [answered("id-spam", seed, 1e-4, 60, 90.0) for seed in (1, 2)]  # better there, but not on its own dev
    runs += [continued("id-spam", 1, 1e-3, 50, 30.0), continued("id-spam", 1, 1e-4, 55, 33.0)]
    runs += [answered("lpt-npg", 1, 1e-3, 70, 50.0), made.failed("lpt-npg", "MRPC", 2)]
    return read_results(made.write(tmp_path, runs))


def lines(table):
    return {tuple(line[:3]): line[3:] for line in table.lines}


def test_the_learning_rate_is_that_of_the_first_tasks_dev(results):
    found = transfer_table(results, Choice())
    assert found.header[3:] == ["test", "accuracy", "macro F1", "mean of both", "lr"]
    assert lines(found) == {
        ("MRPC → QQP", "-", "id-spam"): ["31.0±1.4", "62.0", "40.0", "51.0", "0.001"],
        ("MRPC → QQP", "-", "lpt-npg"): ["25.0 (n=1)", "50.0", "40.0", "45.0", "0.001"],
        ("MRPC → QQP", "8", "id-spam"): ["33.0 (n=1)", "missing", "missing", "missing", "0.0001"],
    }
    said = "\n".join(found.notes)
    assert "metric: accuracy; QQP: mean of accuracy and F1" in said and "over seeds 1, 2" in said
    assert "(n=...): fewer seeds; id-spam on MRPC → QQP with K = 8 without 2" in said


def test_a_rate_at_which_the_first_training_diverged_is_out(tmp_path):
    """As in the table of the first task; both rates have as many models left."""
    runs = [answered("id-spam", 1, 1e-3, 70, 60.0), answered("id-spam", 2, 1e-4, 60, 90.0)]
    gone = made.failed("id-spam", "MRPC", 2, lr=1e-3, reason="diverged")
    found = transfer_table(read_results(made.write(tmp_path, [*runs, gone])), Choice())
    assert lines(found)["MRPC → QQP", "-", "id-spam"] == ["45.0 (n=1)", "90.0", "40.0", "65.0", "0.0001"]


def test_no_other_table_has_runs_that_go_on(results):
    assert len(results.runs) == 6 and len(results.continued) == 2
    table = score_table(SCORE_TABLES[1], results, Choice(tasks=("MRPC",)))
    assert {cell for line in table.lines for cell in line if cell.startswith("99")} == {
        "99.0±0.0",
        "99.0 (n=1)",
        "99.0",
    }
    assert "QQP" not in str(overview(results).lines)
    with pytest.raises(InputError, match="holds no finished few-shot run"):
        score_table(SCORE_TABLES[3], results, Choice(tasks=("QQP",)))


def test_tasks_and_rows_that_are_asked_for(results):
    assert set(lines(transfer_table(results, Choice(rows=("lpt-npg",), tasks=("QQP", "MRPC"))))) == {
        ("MRPC → QQP", "-", "lpt-npg")
    }
    for choice, said in (
        (Choice(tasks=("MRPC", "CR")), "no model that answered another task"),
        (Choice(rows=("x",)), "x"),
    ):
        with pytest.raises(InputError, match=said):
            transfer_table(results, choice)


@pytest.mark.parametrize(
    "transfer", [3, {"NO": {}}, {"QQP": {"metric": "accuracy", "scores": {}, "test": 1}}, {"QQP": {"scores": 1}}]
)
def test_damaged_scores(tmp_path, transfer):
    with pytest.raises(InputError, match="transfer .* is no mapping of tasks to scores"):
        read_results(made.write(tmp_path, [made.run("id-spam", "MRPC", transfer=transfer)]))


def test_missing_seeds_of_every_pair_are_told(tmp_path):
    other = {"MRPC": {"metric": "acc_and_f1", "scores": {"accuracy": 70.0}, "test": 70.0}}
    runs = [answered("id-spam", 1, 1e-3, 70, 60.0)]
    runs += [made.run("id-spam", "QQP", seed, transfer=other, source_task=None) for seed in (1, 2)]
    found = transfer_table(read_results(made.write(tmp_path, runs)), Choice())
    assert lines(found)["MRPC → QQP", "-", "id-spam"][0] == "30.0 (n=1)"
    assert "(n=...): fewer seeds; id-spam on MRPC → QQP without 2" in found.notes


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"selection": "paper"}, "more than one selection: clean, paper; give --selection"),
        ({"protocol": 2}, "protocol 1 and 2"),
        ({"backbone": {"path": "x/y.pt", "sha256": "cd" * 32}}, "more than one backbone"),
    ],
)
def test_pairs_of_other_kinds_are_not_mixed(tmp_path, other, said):
    found = {"MRPC": {"metric": "acc_and_f1", "scores": {}, "test": 70.0}}
    runs = [answered("a", 1, 1e-3, 70, 60.0), made.run("a", "QQP", transfer=found, source_task=None, **other)]
    with pytest.raises(InputError, match=said):
        transfer_table(read_results(made.write(tmp_path, runs)), Choice())


def test_options_and_selection_are_told(tmp_path):
    runs = [answered("a", 1, 1e-3, 70, 60.0, selection="paper", given_options=["--dropout", "0"])]
    notes = transfer_table(read_results(made.write(tmp_path, runs)), Choice()).notes
    assert "options besides the paper's: --dropout 0" in notes
    assert any(note.startswith("setting full; selection paper: ") for note in notes)


def on_data(row, seed, tested, source="MRPC", **more):
    """A run on a task whose model answered RTE in a folder with this fingerprint."""
    found = {"RTE": {"metric": "accuracy", "scores": {"accuracy": 60.0}, "test": 60.0, "data": tested * 64}}
    return made.run(row, source, seed, transfer=found, read_sha256="a" * 64, source_task=None, **more)


def test_models_that_answered_other_data(tmp_path):
    """Of one row they have no mean; rows stand beside each other, and the table says so."""
    runs = [on_data("a", 1, "1"), on_data("b", 1, "1"), on_data("b", 2, "2")]
    with pytest.raises(InputError, match="are both b on RTE, and differ in tested data 1{16} and 2{16}: remove"):
        transfer_table(read_results(made.write(tmp_path / "a_row", runs)), Choice())
    runs[-1] = on_data("c", 1, "2")
    runs += [made.run("a", "RTE", source_task="MRPC", k=8, setting="few-shot", read_sha256="2" * 64)]
    notes = transfer_table(read_results(made.write(tmp_path / "rows", runs)), Choice()).notes
    said = "11111111 of a, b on MRPC → RTE; 22222222 of a on MRPC → RTE with K = 8; c on MRPC → RTE"
    assert f"not the same data for all runs of a task: {said}" in notes


def test_a_mean_without_one_of_the_seeds_is_missing(tmp_path):
    runs = [answered("a", 1, 1e-3, 70, 60.0), answered("a", 2, 1e-3, 70, 64.0)]
    del runs[1]["transfer"]["QQP"]["scores"]["macro_f1"]
    found = transfer_table(read_results(made.write(tmp_path, runs)), Choice())
    assert lines(found)["MRPC → QQP", "-", "a"] == ["31.0±1.4", "62.0", "missing", "51.0", "0.001"]


def test_both_tasks_of_a_pair_must_be_asked_for(tmp_path):
    results = read_results(made.write(tmp_path, [answered("a", 1, 1e-3, 70, 60.0)]))
    with pytest.raises(InputError, match="no model that answered another task"):
        transfer_table(results, Choice(tasks=("QQP", "CR")))


def test_models_of_few_examples_are_in_no_line_of_whole_ones(tmp_path):
    few = answered("a", 1, 1e-3, 70, 60.0, k=16, setting="few-shot")
    with pytest.raises(InputError, match="no model that answered another task"):
        transfer_table(read_results(made.write(tmp_path / "few", [few])), Choice())


def test_lines_go_from_none_to_the_most_examples(tmp_path):
    runs = [made.run("a", "QQP", 1, source_task="MRPC", k=k, setting="few-shot") for k in (100, 8)]
    runs.append(answered("a", 1, 1e-3, 70, 60.0))
    found = transfer_table(read_results(made.write(tmp_path, runs)), Choice())
    assert [line[1] for line in found.lines] == ["-", "8", "100"]
