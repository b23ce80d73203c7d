"""The sweeps of the papers besides IDPG: the runs that each lists, at the paper's sizes, rates and epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_idpg.methods.base import Geometry
from fairseq_idpg.methods.registry import find_preset
from fairseq_idpg.models.prepare import check_effects
from preprocess.tasks import TASKS
from run_scripts.report.papers import VALUES, papers
from run_scripts.run.transfer import continued
from run_scripts.sweep.__main__ import name_of
from run_scripts.sweep.config import read_sweep
from run_scripts.sweep.plan import experiments
from tests.folders import ROOT
from tests.run_scripts.sweep.test_configs import parsed

CONFIGS = ROOT / "run_scripts" / "configs"
FILES = sorted(path for path in CONFIGS.glob("*/*.yaml") if path.name != VALUES)
GLUE = ["MNLI", "QNLI", "SST-2", "MRPC", "RTE", "QQP"]
SUPERGLUE = ["CB", "COPA", "MultiRC", "BoolQ"]
GRID = [1e-3, 5e-4, 1e-4, 5e-5, 1e-5]  # ID-SPAM, Table 7
PROMPTS = ["prompt-tuning", "p-tuning", "smop", "lpt", "dept", "id-spam"]
ALL = ["fine-tuning", "lora", *PROMPTS]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder in which every path of the sweeps exists."""
    for task in TASKS:
        (tmp_path / "data" / f"{task}-bin").mkdir(parents=True)
    for size in ("base", "large"):
        (tmp_path / "checkpoints" / f"roberta.{size}").mkdir(parents=True)
        (tmp_path / "checkpoints" / f"roberta.{size}" / "model.pt").touch()
    monkeypatch.chdir(tmp_path)


def read(name):
    return read_sweep(CONFIGS / f"{name}.yaml")


def runs(name):
    return experiments(read(name), {})


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_row_has_options_of_its_method(path):
    sweep = read_sweep(path)
    for row in sweep.rows:
        args = parsed(row, sweep)
        method = find_preset(args.method).build(args, Geometry.of(args))
        check_effects(args, args, method)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_the_file_names_the_commands_that_sweep_and_report_it(path):
    text, name = path.read_text(encoding="utf-8"), name_of(path)
    assert f"python -m run_scripts.sweep run_scripts/configs/{name}.yaml\n" in text
    report = text.split(f"python -m run_scripts.report results/{name} --")[1].split("\n")[0]
    what, product = report.split()
    known = {"table": [*papers().tables, *papers().costs], "figure": [*papers().figures]}
    assert product in known[what]


def test_results_are_named_as_the_configuration():
    assert name_of(CONFIGS / "idspam" / "table2.yaml") == Path("idspam/table2")
    assert name_of(CONFIGS / "table1.yaml") == name_of(Path("table1.yaml")) == Path("table1")


# --- ID-SPAM -------------------------------------------------------------------------------------

ID_SPAM = {  # name: (size, tasks, rows, runs): 5 rates, of whole models 2, and 3 seeds for each task and row
    "table2": ("large", GLUE, ALL, 6 * (7 * 5 + 2) * 3),
    "table2-base": ("base", GLUE, ALL, 6 * (7 * 5 + 2) * 3),
    "table3": ("large", ["MRPC", "RTE", "QQP"], ["mean-pooling", "id-spam"], 3 * 2 * 5 * 3),
    "table4": ("base", SUPERGLUE, PROMPTS, 4 * 6 * 5 * 3),
    "table5": ("large", SUPERGLUE, PROMPTS, 4 * 6 * 5 * 3),
    "table6": ("large", ["QQP", "MRPC", "SST-2", "IMDB"], ALL, 4 * (7 * 5 + 2) * 3),
    "table11": ("large", ["MRPC", "QQP"], ["fine-tuning", "lpt", "id-spam"], 2 * (2 * 5 + 2) * 3),
    "table14": ("large", ["BoolQ", "WiC"], ["lpt", "lora", "id-spam"], 2 * 3),
    "table15": ("large", GLUE, ["fine-tuning", "lpt", "id-spam"], 6 * (2 * 5 + 2)),
    "figure2": ("large", ["MRPC", "RTE"], None, 2 * (24 + 23) * 5 * 3),
}


def test_all_of_id_spam_are_there():
    assert {path.stem for path in FILES if path.parent.name == "idspam"} == ID_SPAM.keys()


@pytest.mark.parametrize("name", list(ID_SPAM))
def test_runs_of_id_spam(files, name):
    size, tasks, rows, count = ID_SPAM[name]
    sweep, found = read(f"idspam/{name}"), runs(f"idspam/{name}")
    assert len(found) == len(set(found)) == count
    assert sweep.tasks == tasks and (rows is None or [row.label for row in sweep.rows] == rows)
    assert {run.arch for run in found} == {f"roberta_idpg_{size}"}
    assert {Path(run.backbone).parent.name for run in found} == {f"roberta.{size}"}
    assert {run.batch_size for run in found} == {32} and {run.prompt_position for run in found} == {0}
    if name == "table14":  # seconds of each example: neither epochs nor rates matter
        assert {run.max_update for run in found} == {500} and {run.seed for run in found} == {1}
        return
    assert {(run.max_epoch, run.warm_up, run.max_update) for run in found} == {(30, 0.06, None)}
    assert {run.seed for run in found} == ({1} if name == "table15" else {1, 2, 3})
    assert sorted({run.lr for run in found if run.method != "fine-tuning"}, reverse=True) == GRID
    assert {run.lr for run in found if run.method == "fine-tuning"} <= {5e-5, 1e-5}


NUMBERS = {"table2": 2, "table2-base": 2, **{f"table{number}": number for number in (3, 4, 5, 6, 11)}}


@pytest.mark.parametrize(("name", "table"), list(NUMBERS.items()))
def test_rows_of_id_spam_are_those_of_its_tables(name, table):
    sweep, printed = read(f"idspam/{name}"), papers().tables[f"idspam-{table}"]
    assert [row.label for row in sweep.rows] == list(printed.blocks[sweep.arch])


def test_sizes_that_id_spam_states():
    sweep = read("idspam/table2")
    args = {row.label: parsed(row, sweep) for row in sweep.rows}
    assert {args[name].prompt_length for name in ("prompt-tuning", "p-tuning", "lpt", "dept")} == {10}
    assert args["dept"].words_rank == 45 and str(args["p-tuning"].prompt_reparameterization) == "mlp"
    base = read("idspam/table2-base")
    assert [(row.label, row.method, row.options) for row in base.rows] == [
        (row.label, row.method, row.options) for row in sweep.rows
    ]


def test_layers_of_figure_2(files):
    found = {run.row: run.options[run.options.index("--prompt-layers") + 1] for run in runs("idspam/figure2")}
    parts = {row: papers().figures["idspam-2"].parts(row) for row in found}
    assert {number for line, number in parts.values() if line == "id-spam"} == set(range(24))
    assert {number for line, number in parts.values() if line == "lpt"} == set(range(1, 24))
    assert all(found[row] == (str(number) if number else "first") for row, (_, number) in parts.items())
    lpt = [run.options for run in runs("idspam/figure2") if run.row == "lpt-m7"]
    assert "--generator-hidden-size 256" in " ".join(lpt[0]) and "--prompt-length 10" in " ".join(lpt[0])


def test_which_models_answer_which_tasks(files):
    found = {(run.task, run.eval_tasks) for run in runs("idspam/table6")}
    assert found == {("QQP", ("MRPC",)), ("MRPC", ("QQP",)), ("SST-2", ("IMDB",)), ("IMDB", ("SST-2",))}
    assert [*papers().tables["idspam-6"].columns] == ["QQP → MRPC", "MRPC → QQP", "SST-2 → IMDB", "IMDB → SST-2"]


def test_few_shot_transfer_goes_on_from_each_run(files, monkeypatch):
    monkeypatch.setattr("run_scripts.run.experiment.backbone_digest", lambda path: "ab" * 32)
    sweep, sources = read("idspam/table11"), runs("idspam/table11")
    further = list(continued(sources, sweep.eval_k))
    assert len(further) == len(sources) and {run.k for run in further} == {100}
    assert {(run.source_task, run.task) for run in further} == {("MRPC", "QQP"), ("QQP", "MRPC")}
    assert {run.source_run for run in further} == {run.run for run in sources}
