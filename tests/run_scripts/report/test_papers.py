"""paper_values.yaml of the papers besides IDPG: against their text, their own averages, and our counts."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from fairseq_idpg.models.architectures import SIZES
from preprocess.tasks import TASKS
from run_scripts.report.costs import counted
from run_scripts.report.papers import papers
from run_scripts.run.experiment import ARROW
from run_scripts.run.metrics import ACC_AND_MACRO_F1, METRICS
from tests.folders import ROOT

TEXTS = {"idspam": ROOT.parent / "shared" / "papers" / "idspam_paper.txt"}
ROWS = [
    (name, arch, row)
    for name, table in papers().tables.items()
    for arch, rows in table.blocks.items()
    for row in rows
    if rows[row].mean
]
AVERAGED = [place for place in ROWS if papers().tables[place[0]].blocks[place[1]][place[2]].avg]
SCORES = {ACC_AND_MACRO_F1} | {part for metric in METRICS for part in (metric, *metric.split("_and_"))}


def test_all_are_there():
    assert [name for name in papers().tables if name.startswith("idspam")] == [
        *("idspam-2", "idspam-3", "idspam-4", "idspam-5", "idspam-6", "idspam-11")
    ]
    assert {name for name in papers().costs if name.startswith("idspam")} == {"idspam-12", "idspam-14", "idspam-15"}
    assert "idspam-2" in papers().figures
    assert [len(rows) for rows in papers().tables["idspam-2"].blocks.values()] == [8, 8]


@pytest.mark.parametrize("name", [*papers().tables, *papers().figures])
def test_columns_are_tasks_of_ours_by_metrics_that_records_have(name):
    spec = papers().tables.get(name) or papers().figures[name]
    for column in spec.columns:
        assert set(column.split(ARROW)) <= TASKS.keys()
    assert spec.metrics.keys() == set(spec.columns)
    assert {m for m in spec.metrics.values() if m not in {task.metric for task in TASKS.values()}} <= SCORES


@pytest.mark.parametrize(("name", "arch", "row"), ROWS)
def test_every_row_has_all_its_values(name, arch, row):
    spec, printed = papers().tables[name], papers().tables[name].blocks[arch][row]
    assert arch in SIZES and printed.mean.keys() == set(spec.columns) and printed.std.keys() <= set(spec.columns)


@pytest.mark.parametrize(("name", "arch", "row"), AVERAGED)
def test_printed_means_are_those_of_the_values(name, arch, row):
    printed = papers().tables[name].blocks[arch][row]
    exact = sum(Decimal(str(value)) for value in printed.mean.values()) / len(printed.mean)
    assert abs(Decimal(str(printed.avg)) - exact) <= Decimal("0.05")


def test_id_spam_says_by_what_it_scores():
    tables = papers().tables
    for name in ("idspam-2", "idspam-3"):
        by_task = tables[name].metrics
        assert {task for task, metric in by_task.items() if metric == ACC_AND_MACRO_F1} == {"MRPC", "QQP"}
        assert {metric for task, metric in by_task.items() if task not in ("MRPC", "QQP")} == {"accuracy"}
    for name in ("idspam-6", "idspam-11"):
        assert set(tables[name].metrics.values()) == {ACC_AND_MACRO_F1}
    assert (tables["idspam-6"].k, tables["idspam-11"].k) == (None, 100)


OTHERS = {name: table for name, table in papers().tables.items() if not name.startswith("idspam")}
SLIDES = [(name, row) for name, table in OTHERS.items() if table.beside for row in table.blocks["roberta_idpg_base"]]


def test_ept_and_the_slides_print_nothing_that_stands_beside_with_a_difference():
    assert len(OTHERS) == 5 and len(SLIDES) == 17
    assert not any(row.mean for table in OTHERS.values() for rows in table.blocks.values() for row in rows.values())
    by_task = papers().tables["ept-1"].metrics
    assert (by_task["CoLA"], by_task["MRPC"], by_task["MultiRC"]) == ("mcc", "accuracy", "f1a")


@pytest.mark.parametrize(("name", "row"), SLIDES)
def test_texts_are_those_of_the_slides(name, row):
    path = ROOT.parent / "shared" / "papers" / "continuous_prompting_slides.txt"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    share, *scores = papers().tables[name].blocks["roberta_idpg_base"][row].texts.values()
    text = re.sub(r"[$*]|</?i>", "", path.read_text(encoding="utf-8"))
    lines = [[cell.replace(" = ", "=") for cell in line.split("\t")] for line in text.splitlines()]
    first, comma, rest = row.partition(",")
    with_share = f"{first} ({share}){comma}{rest}"
    assert [row, share, *scores] in lines or [with_share, *scores] in lines


def numbers(text: str) -> list[str]:
    return re.findall(r"\d+(?:\.\d+)?", text)


@pytest.fixture(scope="module")
def text() -> str:
    if not TEXTS["idspam"].exists():
        pytest.skip(f"{TEXTS['idspam']} is not there")
    return TEXTS["idspam"].read_text(encoding="utf-8")


def rows_before(text: str, caption: str) -> list[str]:
    """The lines of a table, which stand above its caption."""
    return text[: text.index(f"\n{caption}:")].splitlines()[-30:]


@pytest.mark.parametrize(("name", "arch", "row"), [place for place in ROWS if place[0] != "idspam-11"])
def test_values_are_those_of_the_text(text, name, arch, row):
    printed = papers().tables[name].blocks[arch][row]
    lines = rows_before(text, f"Table {name.split('-')[1]}")
    if len(papers().tables[name].blocks) > 1:  # RoBERTa-base above, RoBERTa-large below
        middle = next(i for i, line in enumerate(lines) if "LARGE" in line)
        lines = lines[:middle] if arch.endswith("base") else lines[middle:]
    plain = [re.sub(r"[<*_{}>]|i>|/i|\(ours\)", " ", line).split("\t") for line in lines]
    found = [cells[1:] for cells in plain if cells[0].replace("i ", "").strip() == printed.label][-1]
    expected = [
        [value, *([printed.std[column]] if column in printed.std else [])] for column, value in printed.mean.items()
    ]
    expected += [[printed.avg]] if printed.avg else []
    assert [list(map(float, numbers(cell))) for cell in found] == expected


def test_table_11_is_that_of_the_text(text):
    spec = papers().tables["idspam-11"]
    for label, row in (("Fine-Tuning", "fine-tuning"), ("LPT", "lpt"), ("<i>ID-SPAM</i>", "id-spam")):
        for column, value in spec.blocks["roberta_idpg_large"][row].mean.items():
            assert "\t".join([*column.split(ARROW), label, f"{value}"]) in text.replace("*", "")


def test_counts_and_seconds_are_those_of_the_text(text):
    for row in papers().costs["idspam-12"].values["counts"].values():
        for arch in ("base", "large"):
            assert f"{row[f'roberta_idpg_{arch}']:,}" in text
    times = papers().costs["idspam-14"].values
    for task in times["columns"]:
        for row, label in (("lpt", "LPT"), ("lora", "LoRA"), ("id-spam", "<i>ID-SPAM</i>")):
            cells = (task, label, times["training"][row][task], times["prediction"][row][task])
            assert "\t".join(map(str, cells)) in text
    seconds = papers().costs["idspam-15"].values
    for row, label in (("fine-tuning", "Fine Tuning"), ("lpt", "LPT"), ("id-spam", "<i>ID-SPAM</i>")):
        cells = [f"{seconds['convergence'][row][task]}s" for task in seconds["columns"]]
        assert "\t".join([label, *cells]) in text


@pytest.mark.parametrize("arch", ["roberta_idpg_base", "roberta_idpg_large"])
def test_table_12_is_what_modules_of_these_rows_have(arch):
    """But for LoRA, whose printed counts fit no rank."""
    for name, row in papers().costs["idspam-12"].values["counts"].items():
        ours = counted(arch, row["method"], row.get("options", {}))
        assert (ours == row[arch]) == (name != "lora")
