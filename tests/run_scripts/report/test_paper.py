"""paper_values.yaml of all papers: against their text, their own averages, and our counts."""

from decimal import Decimal

import yaml

from fairseq_idpg.methods.registry import PRESETS
from fairseq_idpg.models.config import SIZES
from preprocess.tasks import TASKS
from run_scripts.report.paper import PAPER_VALUES, papers
from run_scripts.run.experiment import ARROW
from run_scripts.run.metrics import ACC_AND_MACRO_F1, METRICS

VALUES = yaml.safe_load(PAPER_VALUES.read_text(encoding="utf-8"))
BLOCKS = {"Table 1": VALUES["table1"], "Table 6": VALUES["table6"]}
BLOCKS |= {f"K = {k}": rows for k, rows in VALUES["table3"].items()}
# Printed averages that are more than half a digit off the mean of the printed values: means of unrounded ones.
ROUNDED = {("Table 1", "m-idpg-phm"): "0.06", ("K = 100", "efl"): "-0.06"}
SCORES = {ACC_AND_MACRO_F1} | {part for metric in METRICS for part in (metric, *metric.split("_and_"))}


def off_the_mean(average: float, values) -> Decimal:
    exact = [Decimal(str(value)) for value in values]
    return Decimal(str(average)) - sum(exact) / len(exact)


def test_printed_averages_are_those_of_the_values():
    for block, row in ((block, row) for block, rows in BLOCKS.items() for row in rows):
        values = BLOCKS[block][row]
        off = off_the_mean(values["avg"], values["mean"])
        assert abs(off) <= Decimal("0.05") or str(off) == ROUNDED[block, row]
        assert len(values["mean"]) == len(values["std"]) == len(VALUES["tasks"]) == 10
    for table in papers().tables.values():
        assert table.blocks.keys() <= SIZES.keys()
        for printed in (printed for rows in table.blocks.values() for printed in rows.values() if printed.mean):
            assert not printed.avg or abs(off_the_mean(printed.avg, printed.mean.values())) <= Decimal("0.05")
            assert printed.mean.keys() == set(table.columns) >= printed.std.keys()


def test_parameters_are_what_the_count_command_prints():
    papers_counts = {name: preset.paper for name, preset in PRESETS.items() if preset.paper}
    assert {row: values["printed"] for row, values in VALUES["table2"].items()} == papers_counts


def test_columns_are_tasks_of_ours_by_metrics_that_records_have():
    known = SCORES | {task.metric for task in TASKS.values()}
    for spec in [*papers().tables.values(), *papers().figures.values()]:
        assert {task for column in spec.columns for task in column.split(ARROW)} <= TASKS.keys()
        assert spec.metrics.keys() == set(spec.columns) and {*spec.metrics.values()} <= known
