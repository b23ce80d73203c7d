"""paper_values.yaml of all papers: against their text, their own averages, and our counts."""

from __future__ import annotations

import re
from decimal import Decimal
from statistics import mean

import pytest
import yaml

from fairseq_idpg.models.architectures import SIZES
from preprocess.tasks import TASKS
from run_scripts.report.paper import PAPER_VALUES, paper, papers
from run_scripts.run.experiment import ARROW
from run_scripts.run.metrics import ACC_AND_MACRO_F1, METRICS
from tests.folders import ROOT

VALUES = yaml.safe_load(PAPER_VALUES.read_text(encoding="utf-8"))
BLOCKS = {
    "Table 1": VALUES["table1"],
    **{f"K = {k}": rows for k, rows in VALUES["table3"].items()},
    "Table 6": VALUES["table6"],
}
ROWS = [(block, row) for block, rows in BLOCKS.items() for row in rows]
# Printed averages that are more than half a digit off the mean of the printed values: means of unrounded ones.
ROUNDED = {("Table 1", "m-idpg-phm"): "0.06", ("K = 100", "efl"): "-0.06"}
OTHERS = [
    (name, arch, row)
    for name, table in papers().tables.items()
    for arch, rows in table.blocks.items()
    for row in rows
    if rows[row].mean
]
SCORES = {ACC_AND_MACRO_F1} | {part for metric in METRICS for part in (metric, *metric.split("_and_"))}
SLIDES = [
    (name, row) for name, table in papers().tables.items() if table.beside for row in table.blocks["roberta_idpg_base"]
]


def off_the_mean(average: float, values) -> Decimal:
    exact = [Decimal(str(value)) for value in values]
    return Decimal(str(average)) - sum(exact) / len(exact)


def test_printed_averages_are_those_of_the_values():
    for block, row in ROWS:
        values = BLOCKS[block][row]
        off = off_the_mean(values["avg"], values["mean"])
        assert off == Decimal(ROUNDED.get((block, row), off)) and (
            (block, row) in ROUNDED or abs(off) <= Decimal("0.05")
        )
        assert len(values["mean"]) == len(values["std"]) == len(VALUES["tasks"]) == 10
    for name, arch, row in OTHERS:
        printed = papers().tables[name].blocks[arch][row]
        assert not printed.avg or abs(off_the_mean(printed.avg, printed.mean.values())) <= Decimal("0.05")
        assert arch in SIZES and printed.mean.keys() == set(papers().tables[name].columns) >= printed.std.keys()


def test_rows_and_tasks():
    assert [len(rows) for rows in BLOCKS.values()] == [12, 8, 8, 8, 8]
    assert set(VALUES["tasks"]) <= TASKS.keys()
    assert len(VALUES["table2"]) == 11 and len(VALUES["table7"]) == 4
    assert VALUES["prompt_lengths"].keys() <= VALUES["table1"].keys()
    ours = [name for name in papers().tables if name.startswith("idspam")]
    assert ours == ["idspam-2", "idspam-3", "idspam-4", "idspam-5", "idspam-6", "idspam-11"]
    assert {name for name in papers().costs if name.startswith("idspam")} == {"idspam-12", "idspam-14", "idspam-15"}
    assert [len(rows) for rows in papers().tables["idspam-2"].blocks.values()] == [8, 8] and len(SLIDES) == 17


def test_some_values_by_hand():
    full, read = paper().blocks[1][None], paper()
    assert (full["prompt-tuning-134"].mean["MPQA"], full["prompt-tuning-134"].std["MPQA"]) == (65.7, 19)
    assert (full["p-tuning-v2"].mean["RTE"], full["p-tuning-v2"].std["RTE"]) == (78.4, 4.3)
    assert full["m-idpg-phm"].mean["MRPC"] == 92.3
    assert read.blocks[3][500]["efl"].mean["RTE"] == 57.5 and read.blocks[3][1000]["m-idpg-phm"].avg == 87.8
    assert read.blocks[6][None]["S-256-layer0"].std["RTE"] == 8.0
    assert read.blocks[6][None]["M-16-previous"].mean["QQP"] == 87.1
    assert read.blocks[7][None]["phm-residual-layernorm"].voting == 81.2
    assert read.counts["compacter"].printed == "149K"


def test_the_average_of_a_part_of_the_tasks():
    row = paper().blocks[1][None]["m-idpg-phm"]
    assert row.average(VALUES["tasks"][::-1], VALUES["tasks"]) == 91.9
    assert row.average(["CR", "RTE"], VALUES["tasks"]) == mean([93.2, 83.5])
    assert paper().blocks[7][None]["phm"].average(["CR"], VALUES["tasks"]) is None


def test_parameters_are_what_is_printed():
    """K is 1,024 and M 1,024 K, but for the backbone; the count command prints the same."""
    from fairseq_idpg.methods.registry import PRESETS

    for row, values in VALUES["table2"].items():
        number, unit = re.fullmatch(r"([\d.]+)([KM])", values["printed"]).groups()
        size = 10**6 if row == "fine-tuning" else {"K": 1024, "M": 1024**2}[unit]
        assert values["parameters"] == int(Decimal(number) * size)
    papers_counts = {name: preset.paper for name, preset in PRESETS.items() if preset.paper}
    assert {row: values["printed"] for row, values in VALUES["table2"].items()} == papers_counts


@pytest.mark.parametrize("name", [*papers().tables, *papers().figures])
def test_columns_are_tasks_of_ours_by_metrics_that_records_have(name):
    spec = papers().tables.get(name) or papers().figures[name]
    assert {task for column in spec.columns for task in column.split(ARROW)} <= TASKS.keys()
    assert spec.metrics.keys() == set(spec.columns)
    assert {m for m in spec.metrics.values() if m not in {task.metric for task in TASKS.values()}} <= SCORES


def test_by_what_the_papers_score():
    tables = papers().tables
    for name in ("idspam-2", "idspam-3"):
        metrics = tables[name].metrics
        assert {task for task, metric in metrics.items() if metric == ACC_AND_MACRO_F1} == {"MRPC", "QQP"}
        assert {metric for task, metric in metrics.items() if task not in ("MRPC", "QQP")} == {"accuracy"}
    for name, k in (("idspam-6", None), ("idspam-11", 100)):
        assert (set(tables[name].metrics.values()), tables[name].k) == ({ACC_AND_MACRO_F1}, k)
    assert [tables["ept-1"].metrics[task] for task in ("CoLA", "MRPC", "MultiRC")] == ["mcc", "accuracy", "f1a"]


# --- against the texts of the papers, where they lie beside the repository -----------------------


def read_text(name: str) -> str:
    path = ROOT.parent / "shared" / "papers" / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path.read_text(encoding="utf-8")


def numbers(line: str) -> list[str]:
    return re.findall(r"\d+(?:\.\d+)?", line)


def after(text: list[str], *starts: str) -> list[str]:
    """The lines below the first that begins with each of ``starts`` in turn."""
    for start in starts:
        text = text[next(i for i, line in enumerate(text) if line.strip().startswith(start)) + 1 :]
    return text


def line_of(text: list[str], label: str) -> str:
    """What follows the label in the first line that has it and then a number."""
    found = next(line for line in text if re.match(rf"{re.escape(label)} \d", line.strip()))
    return found.strip()[len(label) :]


def printed_as(values: list[float], line: str) -> list[str]:
    """The values as a line prints them: 19 for 19.0."""
    return [f"{value:.1f}" if f"{value:.1f}" in numbers(line) else f"{value:g}" for value in values]


def place(text: list[str], block: str, row: str) -> str:
    """The line of the paper's text that has a row."""
    if block == "Table 6":
        sharing, size, source = row.split("-")
        start = {"layer0": "Input: Layer 0", "previous": "Input: Previous Layer"}[source]
        return line_of(after(text, "Table 6:", start), f"{sharing} version {size}")
    starts = ("Table 1:", "Method") if block == "Table 1" else ("Table 3:", block)
    return line_of(after(text, *starts), BLOCKS[block][row]["label"])


def test_the_tables_of_idpg_are_those_of_its_text():
    text = read_text("idpg_paper.txt").splitlines()
    for block, row in ROWS:
        values, line = BLOCKS[block][row], place(text, block, row)
        both = [value for pair in zip(values["mean"], values["std"]) for value in pair]
        assert numbers(line) == printed_as([*both, values["avg"]], line), (block, row)
    above_table_2 = text[: len(text) - len(after(text, "Table 2:"))]
    for values in VALUES["table2"].values():
        lines = [line for line in above_table_2 if line.startswith(f"{values['label']} ")]
        assert any(line.endswith(f" {values['printed']}") for line in lines), values
    for values in VALUES["table7"].values():
        line = line_of(after(text, "Architecture Avg Voting"), values["label"])
        assert numbers(line) == [str(values["avg"]), str(values["voting"])]


def test_texts_are_those_of_the_slides():
    text = re.sub(r"[$*]|</?i>", "", read_text("continuous_prompting_slides.txt"))
    lines = [[cell.replace(" = ", "=") for cell in line.split("\t")] for line in text.splitlines()]
    for name, row in SLIDES:
        share, *scores = papers().tables[name].blocks["roberta_idpg_base"][row].texts.values()
        first, comma, rest = row.partition(",")
        assert [row, share, *scores] in lines or [f"{first} ({share}){comma}{rest}", *scores] in lines, row


def test_the_tables_of_id_spam_are_those_of_its_text():
    text = read_text("idspam_paper.txt")
    for name, arch, row in OTHERS:
        printed, blocks = papers().tables[name].blocks[arch][row], papers().tables[name].blocks
        if name == "idspam-11":
            continue
        lines = text[: text.index(f"\nTable {name.split('-')[1]}:")].splitlines()[-30:]  # a table is above its caption
        if len(blocks) > 1:  # RoBERTa-base above, RoBERTa-large below
            middle = next(i for i, line in enumerate(lines) if "LARGE" in line)
            lines = lines[:middle] if arch.endswith("base") else lines[middle:]
        plain = [re.sub(r"[<*_{}>]|i>|/i|\(ours\)", " ", line).split("\t") for line in lines]
        found = [cells[1:] for cells in plain if cells[0].replace("i ", "").strip() == printed.label][-1]
        expected = [
            [value, *([printed.std[task]] if task in printed.std else [])] for task, value in printed.mean.items()
        ]
        expected += [[printed.avg]] if printed.avg else []
        assert [list(map(float, numbers(cell))) for cell in found] == expected, (name, row)
    for label, row in (("Fine-Tuning", "fine-tuning"), ("LPT", "lpt"), ("<i>ID-SPAM</i>", "id-spam")):
        for column, value in papers().tables["idspam-11"].blocks["roberta_idpg_large"][row].mean.items():
            assert "\t".join([*column.split(ARROW), label, f"{value}"]) in text.replace("*", "")


def test_counts_and_seconds_are_those_of_the_text():
    text, costs = read_text("idspam_paper.txt"), papers().costs
    for row in costs["idspam-12"].values["counts"].values():
        for arch in ("base", "large"):
            assert f"{row[f'roberta_idpg_{arch}']:,}" in text
    times = costs["idspam-14"].values
    for task in times["columns"]:
        for row, label in (("lpt", "LPT"), ("lora", "LoRA"), ("id-spam", "<i>ID-SPAM</i>")):
            cells = (task, label, times["training"][row][task], times["prediction"][row][task])
            assert "\t".join(map(str, cells)) in text
    seconds = costs["idspam-15"].values
    for row, label in (("fine-tuning", "Fine Tuning"), ("lpt", "LPT"), ("id-spam", "<i>ID-SPAM</i>")):
        cells = [f"{seconds['convergence'][row][task]}s" for task in seconds["columns"]]
        assert "\t".join([label, *cells]) in text
