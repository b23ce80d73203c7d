"""The files of the benchmarks, beside what others have submitted."""

from __future__ import annotations

from preprocess.tasks import TASKS, TEST_SETS
from run_scripts.submit.rules import BENCHMARKS

# Lines with the header: of a submission, huggingface.co/Avelina/lovelace-medium-alpha1-dph at c951445, and where that
# does not show them, the "wc -l *.tsv" in public instructions for submitting.
LINES = {
    **{"AX.tsv": 1105, "CoLA.tsv": 1064, "MNLI-mm.tsv": 9848, "MNLI-m.tsv": 9797, "MRPC.tsv": 1726, "QNLI.tsv": 5464},
    **{"QQP.tsv": 390_966, "RTE.tsv": 3001, "SST-2.tsv": 1822, "STS-B.tsv": 1380, "WNLI.tsv": 147},
}
SUPER_GLUE = "BoolQ CB COPA MultiRC ReCoRD RTE WiC WSC AX-b AX-g"


def test_files_of_glue():
    assert {sheet.file: sheet.examples + 1 for sheet in BENCHMARKS["glue"].sheets} == LINES


def test_files_of_super_glue():
    sheets = BENCHMARKS["superglue"].sheets
    assert [sheet.file for sheet in sheets] == [f"{name}.jsonl" for name in SUPER_GLUE.split()]


def test_a_model_answers_what_has_its_labels():
    for sheet in (sheet for benchmark in BENCHMARKS.values() for sheet in benchmark.sheets):
        of_set = {**TASKS, **TEST_SETS}[sheet.data or sheet.of]
        assert sheet.split in of_set.files and of_set.number
        assert sorted(of_set.labels) == sorted(sheet.task.labels)


def test_labels_as_the_sites_want_them():
    labels = {task: set(TASKS[task].labels) for task in (*BENCHMARKS["glue"].tasks, *BENCHMARKS["superglue"].tasks)}
    entailment, numbers, truth = {"entailment", "not_entailment"}, {"0", "1"}, {"true", "false"}
    three = {"entailment", "neutral", "contradiction"}
    assert labels == {
        **{"CoLA": numbers, "SST-2": numbers, "MRPC": numbers, "QQP": numbers, "WNLI": numbers, "STS-B": set()},
        **{"MNLI": three, "QNLI": entailment, "RTE": entailment, "CB": three},
        **{"BoolQ": truth, "WiC": truth, "MultiRC": numbers},
        **{"COPA": numbers, "ReCoRD": numbers, "WSC": truth},
    }
