"""The sweeps of the papers besides IDPG: the runs that each lists, at the paper's sizes, rates and epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_idpg.methods.base import Geometry
from fairseq_idpg.methods.registry import find_preset
from fairseq_idpg.models.prepare import check_method_effects
from preprocess.tasks import TASKS
from run_scripts.report.paper import VALUES, papers
from run_scripts.run.transfer import continued
from run_scripts.sweep.__main__ import name_of
from run_scripts.sweep.config import read_sweep
from run_scripts.sweep.plan import experiments
from tests.folders import ROOT
from tests.run_scripts.sweep.test_configs import parsed

CONFIGS = ROOT / "run_scripts" / "configs"
FILES = sorted(path for path in CONFIGS.glob("*/*.yaml") if path.name != VALUES and path.parent.name != "evidence")
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
        check_method_effects(args, method)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_the_file_names_the_commands_that_sweep_and_report_it(path):
    text, name = path.read_text(encoding="utf-8"), name_of(path)
    into = name.with_name(name.name.removesuffix("-large"))
    assert f"python -m run_scripts.sweep run_scripts/configs/{name}.yaml" in text
    assert (f"--results results/{into}\n" in text) == (into != name)
    report = text.split(f"python -m run_scripts.report results/{into} --")[1].split("\n")[0]
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
    assert args["dept"].words_rank == 45 and str(args["p-tuning"].prompt_reparameterization) == "deep-mlp"
    base = read("idspam/table2-base")
    assert [(row.label, row.method, sizes_of(row)) for row in base.rows] == [
        (row.label, row.method, sizes_of(row)) for row in sweep.rows
    ]


def sizes_of(row):
    """All options but the one that is the model's width."""
    return {name: value for name, value in row.options.items() if name != "reparameterization-hidden-size"}


@pytest.mark.parametrize("name", ["table2", "table2-base", "table4", "table5", "table6"])
def test_the_network_of_p_tuning_is_as_wide_as_the_model(name):
    sweep = read(f"idspam/{name}")
    (row,) = [row for row in sweep.rows if row.label == "p-tuning"]
    assert row.options["reparameterization-hidden-size"] == parsed(row, sweep).encoder_embed_dim


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


# --- EPT -----------------------------------------------------------------------------------------

LARGE = ["MNLI", "QQP", "QNLI"]  # more than 100,000 training examples
SMALL = ["SST-2", "STS-B", "MRPC", "RTE", "CoLA", "MultiRC", "BoolQ", "WiC", "WSC", "CB"]
PEFT = ["fine-tuning", "adapter", "adapter-drop", "adamix", "bitfit", "lora"]
EPT = {  # name: rows, and rates of a row and task: the prompts' 3, IDPG's 4, of whole models 3
    "table1": ([*PEFT, "pt", "dept", "dpt", "ept"], 3 + 5 * 4 + 4 * 3),
    "table2": (["pt", "PD", "PD+PF", "PD+MS", "PF+MS", "ept"], 6 * 3),
    "figure5": ([f"ept-N{number}" for number in range(2, 9)], 7 * 3),
}


def test_all_of_ept_and_the_slides_are_there():
    named = {path.stem for path in FILES if path.parent.name == "ept"}
    assert named == {*EPT, *(f"{name}-large" for name in EPT)}
    assert {path.stem for path in FILES if path.parent.name == "slides"} == SLIDES.keys()


@pytest.mark.parametrize("size", ["", "-large"])
@pytest.mark.parametrize("name", list(EPT))
def test_runs_of_ept(files, name, size):
    rows, rates = EPT[name]
    found, sweep = runs(f"ept/{name}{size}"), read(f"ept/{name}{size}")
    tasks = LARGE if size else SMALL
    assert sweep.tasks == tasks and [row.label for row in sweep.rows] == rows
    assert len(found) == len(set(found)) == len(tasks) * rates * 3
    assert {run.arch for run in found} == {"roberta_idpg_base"} and {run.batch_size for run in found} == {16}
    assert {(run.max_update, run.max_epoch) for run in found} == {(300_000 if size else 30_000, None)}
    assert {run.lr for run in found if "grouped_adam" in run.options} == {0.3, 0.4, 0.5}
    assert {run.row for run in found if "grouped_adam" not in run.options} == set(rows) & set(PEFT)
    assert all("--validate-interval-updates 1000" in " ".join(run.options) for run in found)


def test_both_parts_of_ept_have_the_same_rows():
    for name in EPT:
        small, large = read(f"ept/{name}"), read(f"ept/{name}-large")
        assert small.rows == large.rows and small.options == large.options and small.seeds == large.seeds
    assert {*LARGE, *SMALL} == set(papers().tables["ept-1"].columns) == set(papers().figures["ept-5"].columns)
    for table in ("1", "2"):
        assert EPT[f"table{table}"][0] == list(papers().tables[f"ept-{table}"].blocks["roberta_idpg_base"])


def test_what_ept_states_of_itself():
    """60 rows, M = 256, rank 30, 4 spaces, a long prompt of 100; parameters as prompt tuning's once they are folded."""
    args = {row.label: parsed(row, read("ept/table2")) for row in read("ept/table2").rows}
    whole = args["ept"]
    assert (whole.prompt_length, whole.words_length, whole.words_rank) == (60, 256, 30)
    assert (whole.ept_experts, whole.ept_init_length, str(whole.prompt_init)) == (4, 100, "vocabulary")
    variants = {name: found for name, found in args.items() if name != "pt"}
    parts = ("ept_decomposition", "ept_fusion", "ept_experts")
    assert {name: tuple(str(getattr(found, part)) for part in parts) for name, found in variants.items()} == {
        "PD": ("true", "none", "0"),
        "PD+PF": ("true", "lowrank", "0"),
        "PD+MS": ("true", "none", "4"),
        "PF+MS": ("false", "printed", "4"),
        "ept": ("true", "lowrank", "4"),
    }
    assert (args["pt"].method, args["pt"].prompt_length) == ("prompt-tuning-100", 100)
    for name, found in args.items():
        state = find_preset(found.method).build(found, Geometry.of(found)).state_dict()
        assert sum(value.numel() for key, value in state.items() if "reparameterization" not in key) == 76_800, name
    spaces = read("ept/figure5")
    assert [parsed(row, spaces).ept_experts for row in spaces.rows] == list(range(2, 9))
    assert {str(parsed(row, spaces).ept_fusion) for row in spaces.rows} == {"none"}


# --- slides --------------------------------------------------------------------------------------

SLIDES = {"parallel": 5, "places": 7, "composition": 5}


@pytest.mark.parametrize("name", list(SLIDES))
def test_runs_of_the_slides(files, name):
    sweep, found = read(f"slides/{name}"), runs(f"slides/{name}")
    assert [row.label for row in sweep.rows] == list(papers().tables[f"slides-{name}"].blocks["roberta_idpg_base"])
    assert len(found) == SLIDES[name] * 2 * 3 and sweep.tasks == ["MNLI", "SST-2"]
    assert {(run.arch, run.lr, run.batch_size, run.max_epoch, run.warm_up) for run in found} == {
        ("roberta_idpg_base", 1e-4, 32, 10, 0.06)
    }
    assert {parsed(row, sweep).clip_norm for row in sweep.rows} == {1.0}  # of the released script, with the rest


def test_what_the_slides_call_their_rows():
    """r or l, where and whether behind or beside, as the name says."""
    places = {"attn": "attention", "ffn": "ffn"}
    for name in ("parallel", "places"):
        sweep = read(f"slides/{name}")
        for row in sweep.rows:
            args, size = parsed(row, sweep), int(row.label.split("=")[1])
            if row.label.startswith("Prefix"):
                assert (args.method, args.prompt_length) == ("prefix-tuning", size)
                assert args.reparameterization_hidden_size == 800  # of the released scripts
                continue
            assert args.adapter_hidden_size == size
            if row.label.startswith("MH"):
                assert args.method == "adapter-multihead-parallel"
                continue
            assert str(args.adapter_place) == places[row.label.split("(")[1].split(")")[0]]
            assert str(args.adapter_reads) == ("output" if row.label.startswith("SA") else "input")
    sweep = read("slides/composition")
    args = {row.label: parsed(row, sweep) for row in sweep.rows}
    for label, scale in (("LoRA, s=4", 4), ("LoRA, s=1", 1)):
        assert args[label].lora_alpha / args[label].lora_rank == scale and args[label].lora_dropout == 0.1
    assert [str(args[label].adapter_scale) for label in ("PA", "Scaled PA, s=4", "Scaled PA, trainable s")] == [
        *("1", "4", "learned")
    ]
