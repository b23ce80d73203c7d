"""The sweeps that are shipped: the paper's rows, grids and seeds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairseq_idpg.methods.base import Geometry
from fairseq_idpg.methods.registry import PRESETS, find_preset
from fairseq_idpg.models.config import fill_method_options
from fairseq_idpg.models.prepare import check_method_effects
from preprocess.tasks import TASKS
from run_scripts.report.paper import paper
from run_scripts.run.preflight import parse
from run_scripts.sweep.config import Place, read_sweep
from run_scripts.sweep.plan import experiments, first_stage, flags
from tests.folders import ROOT

CONFIGS = sorted(path for path in (ROOT / "run_scripts" / "configs").glob("*.yaml") if path.stem != "paper_values")
SMALL = ("methods", "methods-long", "short", "smoke")
PAPER = [path for path in CONFIGS if path.stem not in SMALL]


def read(name):
    return read_sweep(ROOT / "run_scripts" / "configs" / f"{name}.yaml")


def rows_of_paper(table):
    return [list(block) for block in paper().blocks[table].values()]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder in which every path of the sweeps exists."""
    for task in TASKS:
        for parent in ("data", "data/short", "efl"):
            (tmp_path / parent / f"{task}-bin").mkdir(parents=True)
    for name in ("checkpoints/roberta.large", "checkpoints/roberta.large.mnli", "quickstart/backbone"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "model.pt").touch()
    (tmp_path / "quickstart" / "reviews-bin").mkdir()
    monkeypatch.chdir(tmp_path)


def test_all_are_there():
    papers = ["figure7", "figure9", "table1", "table3", "table6", "table7"]
    assert sorted(path.stem for path in CONFIGS) == sorted([*papers, *SMALL])


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_the_papers_tasks_and_seeds(path):
    sweep = read_sweep(path)
    assert tuple(sweep.tasks) == paper().tasks and sweep.seeds == [1, 2, 3, 4, 5]
    assert sweep.arch == "roberta_idpg_large" and sweep.selection == "clean"
    assert (sweep.batch_size, sweep.max_epoch, sweep.max_update) == (None, None, None)


@pytest.mark.parametrize(("name", "table"), [("table1", 1), ("table6", 6), ("table7", 7)])
def test_the_papers_rows(name, table):
    assert [[row.label for row in read(name).rows]] == rows_of_paper(table)


def test_table_3(files):
    sweep = read("table3")
    assert [[row.label for row in sweep.rows]] * 3 == rows_of_paper(3)
    assert sweep.k == [100, 500, 1000] == list(paper().blocks[3])
    found = experiments(sweep, {})
    assert {run.lr for run in found if run.method != "efl"} == {5e-4, 1e-4, 5e-5, 1e-5}
    assert len(found) == 10 * 3 * 5 * (7 * 4 + 3)
    assert {Path(run.backbone).parent.name for run in found} == {"roberta.large.mnli"}
    inputs = {run.method: run.options for run in found if "--representation" in run.options}
    assert inputs == {"m-idpg-phm": ("--fp16", "--representation", "backbone")}
    efl = {run.task: Path(run.data).parent.name for run in found if run.method == "efl"}
    assert efl == {task: "data" if TASKS[task].pairs else "efl" for task in sweep.tasks}


def test_table_1(files):
    found = experiments(read("table1"), {})
    assert len(found) == 10 * 5 * (10 * 4 + 2 * 3)
    assert {run.lr for run in found if run.method == "compacter"} == {5e-3, 1e-3, 5e-4, 1e-4}
    backbones = {run.row: Path(run.backbone).parent.name for run in found}
    assert backbones.pop("efl") == "roberta.large.mnli" and set(backbones.values()) == {"roberta.large"}


def test_table_6(files):
    sweep = read("table6")
    assert sweep.lrs == [1e-2, 7e-3, 5e-3, 3e-3, 1e-3, 7e-4, 5e-4, 3e-4, 1e-4]
    for row in sweep.rows:
        sharing, hidden, source = row.label.split("-")
        args = parsed(row, sweep)
        assert (str(args.generator_sharing), args.generator_hidden_size) == (sharing, int(hidden))
        assert str(args.representation) == {"layer0": "backbone", "previous": "previous-layer"}[source]


def test_table_7():
    sweep = read("table7")
    found = {row.label: parsed(row, sweep) for row in sweep.rows}
    assert {name: (args.generator_residual, args.generator_layer_norm) for name, args in found.items()} == {
        "phm": (False, False),
        "phm-residual": (True, False),
        "phm-layernorm": (False, True),
        "phm-residual-layernorm": (True, True),
    }
    assert {str(args.generator_residual_norm) for args in found.values()} == {"paper"}


def parsed(row, sweep):
    """The filled options of a row."""
    return filled([row.method, *flags({**sweep.options, **row.options})], sweep.arch)


def filled(words, arch):
    """The filled options of ``--method WORDS``."""
    start = ["fairseq-train", "data", "--user-dir", str(ROOT / "fairseq_idpg"), "--arch", arch]
    args = parse([*start, "--task", "sentence_prediction_idpg", "--method", *words])
    fill_method_options(args)
    return args


PAGE = (ROOT / "run_scripts" / "README.md").read_text(encoding="utf-8")
ROWS = re.findall(r"`([^`]+)`", "".join(re.findall(r"^\|.*\| (.+) \|$", PAGE, re.MULTILINE)))  # their last column
OF_PAPERS = [row for row in ROWS if row.split()[0].split("+")[0] in PRESETS]


def test_the_page_names_rows_by_presets():
    """What stands in their column besides are other values of an option."""
    assert len(OF_PAPERS) > 30 and set(ROWS) - set(OF_PAPERS) == {"vocabulary", "class-labels"}


@pytest.mark.parametrize("row", sorted(set(OF_PAPERS)))
def test_the_rows_of_the_papers_are_methods_with_their_options(row):
    args = filled(row.split(), "roberta_idpg_large")
    check_method_effects(args, find_preset(args.method).build(args, Geometry.of(args)))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_row_has_options_of_its_method(path):
    sweep = read_sweep(path)
    for row in sweep.rows:
        args = parsed(row, sweep)
        if args.method == "m-idpg-phm-glove":
            args.representation_width = 300
        method = find_preset(args.method).build(args, Geometry.of(args))
        check_method_effects(args, method)


def test_figure_7_has_all_positions_through_the_papers_best(files):
    sweep = read("figure7")
    best = {row.method: row.positions for row in sweep.rows}
    for method, position in (("s-idpg-phm", 0), ("prompt-tuning", 4)):
        assert {place for place in best[method] if place.supplementary == position} == {
            Place(position, downstream) for downstream in range(5)
        }
        assert {place.supplementary for place in best[method]} == set(range(5))
    assert len(first_stage(sweep)) == 10
    singles = [run for run in experiments(sweep, {}) if run.task == "CR" and run.method == "s-idpg-phm"]
    assert {(run.supplementary_position, run.prompt_position) for run in singles} == {
        *((0, position) for position in (0, 1, 4)),
        *((position, 0) for position in range(1, 5)),
    }

    pairs = [run for run in experiments(sweep, {}) if run.task == "RTE" and run.method == "s-idpg-phm"]
    assert {(run.supplementary_position, run.prompt_position) for run in pairs} == {
        *((0, position) for position in range(5)),
        *((position, 1) for position in range(1, 5)),
    }


@pytest.mark.parametrize(
    "path", [path for path in CONFIGS if path.stem not in ("figure7", "short", "methods")], ids=lambda p: p.stem
)
def test_prompts_stand_at_position_0_for_pairs_too(files, path):
    assert {run.prompt_position for run in experiments(read_sweep(path), {})} == {0}


def test_short_is_as_the_table_in_readme(files):
    """Made with position 1 for prompts of pairs and, as was then the default, batches of multiples of 8."""
    found = experiments(read("short"), {})
    positions = {(run.method in ("adapter", "fine-tuning"), run.facts.pairs, run.prompt_position) for run in found}
    assert positions == {(True, True, 0), (True, False, 0), (False, True, 1), (False, False, 0)}
    assert all(run.options[-2:] == ("--required-batch-size-multiple", "8") for run in found if "idpg" not in run.method)


def test_figure_9_has_the_papers_length_among_others(files):
    sweep = read("figure9")
    assert 5 in sweep.prompt_lengths and len(sweep.prompt_lengths) > 3
    lengths = {run.options[run.options.index("--prompt-length") + 1] for run in experiments(sweep, {})}
    assert lengths == {str(length) for length in sweep.prompt_lengths}


def test_short_and_methods_make_one_table(files):
    """Of the methods that have been run on small tasks, each once."""
    sweeps = [read(name) for name in ("short", "methods", "methods-long")]
    names = [row.method for sweep in sweeps for row in sweep.rows]
    assert len(set(names)) == len(names) >= 40 and set(names) <= PRESETS.keys()
    assert [len(experiments(sweep, {})) for sweep in sweeps] == [5 * 6 * 2 * 3, 5 * 29 * 2, 5 * 2]
    for name in ("options", "dev_examples", "max_update", "data", "backbone"):
        assert len({str(getattr(sweep, name)) for sweep in sweeps}) == 1


def test_methods_have_the_prompt_at_position_1_of_pairs_if_they_have_one_there(files):
    """No row is refused over its position, and no row that has a place among the words is left at 0."""
    found = [run for run in experiments(read("methods"), {}) if run.facts.pairs]
    assert {run.method for run in found if run.prompt_position == 1} == {
        "s-idpg-phm",
        "m-idpg-phm-glove",
        "smop",
        "p-tuning",
        "s-idpg-dnn",
        "dpt",
        "dept",
        "ept",
    }


def test_smoke_is_small(files):
    found = experiments(read("smoke"), {})
    assert len(found) == 3 * 2 * 2 and {run.max_update for run in found} == {20}
    assert {run.arch for run in found} == {"roberta_idpg_minilm"}
