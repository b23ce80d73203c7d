"""run_scripts/configs/paper_values.yaml against the paper: its averages, its text, and our own counts."""

from __future__ import annotations

import re
from decimal import Decimal
from statistics import mean

import pytest
import yaml

from preprocess.tasks import TASKS
from run_scripts.report.paper import PAPER_VALUES, paper
from tests.folders import ROOT

VALUES = yaml.safe_load(PAPER_VALUES.read_text(encoding="utf-8"))
TEXT = ROOT.parent / "shared" / "papers" / "idpg_paper.txt"
BLOCKS = {
    "Table 1": VALUES["table1"],
    **{f"K = {k}": rows for k, rows in VALUES["table3"].items()},
    "Table 6": VALUES["table6"],
}
ROWS = [(block, row) for block, rows in BLOCKS.items() for row in rows]
# Printed averages that are more than half a digit off the mean of the printed values: means of unrounded ones.
ROUNDED = {("Table 1", "m-idpg-phm"): "0.06", ("K = 100", "efl"): "-0.06"}


@pytest.mark.parametrize("block, row", ROWS)
def test_the_printed_average_is_that_of_the_values(block, row):
    values = BLOCKS[block][row]
    exact = sum(Decimal(str(value)) for value in values["mean"]) / len(values["mean"])
    off = Decimal(str(values["avg"])) - exact
    if (block, row) in ROUNDED:
        assert off == Decimal(ROUNDED[block, row])
    else:
        assert abs(off) <= Decimal("0.05")


@pytest.mark.parametrize("block, row", ROWS)
def test_every_row_has_ten_values(block, row):
    assert len(BLOCKS[block][row]["mean"]) == len(BLOCKS[block][row]["std"]) == len(VALUES["tasks"]) == 10


def test_rows_and_tasks():
    assert [len(rows) for rows in BLOCKS.values()] == [12, 8, 8, 8, 8]
    assert set(VALUES["tasks"]) <= TASKS.keys()
    assert len(VALUES["table2"]) == 11 and len(VALUES["table7"]) == 4
    assert VALUES["prompt_lengths"].keys() <= VALUES["table1"].keys()


def test_some_values_by_hand():
    read = paper()
    main = read.blocks[1][None]
    assert main["fine-tuning"].mean["STS-B"] == 92.2
    assert (main["prompt-tuning-134"].mean["MPQA"], main["prompt-tuning-134"].std["MPQA"]) == (65.7, 19)
    assert (main["p-tuning-v2"].mean["RTE"], main["p-tuning-v2"].std["RTE"]) == (78.4, 4.3)
    assert main["m-idpg-phm"].mean["MRPC"] == 92.3
    assert read.blocks[3][500]["efl"].mean["RTE"] == 57.5
    assert read.blocks[3][1000]["m-idpg-phm"].avg == 87.8
    assert read.blocks[6][None]["S-256-layer0"].std["RTE"] == 8.0
    assert read.blocks[6][None]["M-16-previous"].mean["QQP"] == 87.1
    assert read.blocks[7][None]["phm-residual-layernorm"].voting == 81.2
    assert read.counts["compacter"].printed == "149K"


def test_the_average_of_a_part_of_the_tasks():
    row = paper().blocks[1][None]["m-idpg-phm"]
    assert row.average(VALUES["tasks"][::-1]) == 91.9
    assert row.average(["CR", "RTE"]) == mean([93.2, 83.5])
    assert paper().blocks[7][None]["phm"].average(["CR"]) is None


@pytest.mark.parametrize("row", VALUES["table2"])
def test_parameters_are_what_is_printed(row):
    """K is 1,024 and M 1,024 K, but for the backbone."""
    values = VALUES["table2"][row]
    number, unit = re.fullmatch(r"([\d.]+)([KM])", values["printed"]).groups()
    size = 10**6 if row == "fine-tuning" else {"K": 1024, "M": 1024**2}[unit]
    assert values["parameters"] == int(Decimal(number) * size)


def test_table_2_is_that_of_the_count_command():
    from fairseq_idpg.methods.registry import PRESETS

    papers = {name: preset.paper for name, preset in PRESETS.items() if preset.paper}
    assert {row: values["printed"] for row, values in VALUES["table2"].items()} == papers


def numbers(line: str) -> list[str]:
    return re.findall(r"\d+\.\d+|\d+", line)


@pytest.fixture(scope="module")
def text() -> list[str]:
    if not TEXT.exists():
        pytest.skip(f"{TEXT} is not there")
    return TEXT.read_text(encoding="utf-8").splitlines()


def after(text: list[str], *starts: str) -> list[str]:
    """The lines below the first that begins with each of ``starts`` in turn."""
    for start in starts:
        text = text[next(i for i, line in enumerate(text) if line.strip().startswith(start)) + 1 :]
    return text


def line_of(text: list[str], label: str) -> str:
    """What follows the label in the first line that has it and then a number."""
    found = next(line for line in text if re.match(rf"{re.escape(label)} \d", line.strip()))
    return found.strip()[len(label) :]


def printed(values: list[float], line: str) -> list[str]:
    """The values as a line prints them: 19 for 19.0."""
    return [f"{value:.1f}" if f"{value:.1f}" in numbers(line) else f"{value:g}" for value in values]


PLACES = {
    "Table 1": lambda text, row: line_of(after(text, "Table 1:", "Method"), row["label"]),
    **{
        f"K = {k}": lambda text, row, k=k: line_of(after(text, "Table 3:", f"K = {k}"), row["label"])
        for k in (100, 500)
    },
    "K = 1000": lambda text, row: line_of(after(text, "Table 3:", "K = 1000"), row["label"]),
}


@pytest.mark.parametrize("block, row", [place for place in ROWS if place[0] in PLACES])
def test_tables_1_and_3_are_those_of_the_papers_text(text, block, row):
    values = BLOCKS[block][row]
    line = PLACES[block](text, values)
    both = [value for pair in zip(values["mean"], values["std"]) for value in pair]
    assert numbers(line) == printed([*both, values["avg"]], line)


@pytest.mark.parametrize("row", VALUES["table6"])
def test_table_6_is_that_of_the_papers_text(text, row):
    sharing, size, source = row.split("-")
    start = {"layer0": "Input: Layer 0", "previous": "Input: Previous Layer"}[source]
    line = line_of(after(text, "Table 6:", start), f"{sharing} version {size}")
    values = VALUES["table6"][row]
    both = [value for pair in zip(values["mean"], values["std"]) for value in pair]
    assert numbers(line) == printed([*both, values["avg"]], line)
    assert VALUES["table6"][row]["label"].startswith(f"{sharing} version, m = {size}, input: {source[:5]}")


def test_tables_2_and_7_are_those_of_the_papers_text(text):
    above_table_2 = text[: len(text) - len(after(text, "Table 2:"))]
    for values in VALUES["table2"].values():
        lines = [line for line in above_table_2 if line.startswith(f"{values['label']} ")]
        assert any(line.endswith(f" {values['printed']}") for line in lines), values
    below_architecture = after(text, "Architecture Avg Voting")
    for values in VALUES["table7"].values():
        assert numbers(line_of(below_architecture, values["label"])) == [str(values["avg"]), str(values["voting"])]
