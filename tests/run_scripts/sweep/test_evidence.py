"""The sweeps whose records are published: what is asked of them, and the script that starts them in their order."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from fairseq_idpg.methods.base import Geometry
from fairseq_idpg.methods.registry import find_preset
from fairseq_idpg.models.prepare import check_method_effects
from preprocess.tasks import TASKS
from run_scripts.report.__main__ import parser
from run_scripts.run.command import learning_rates
from run_scripts.sweep.choosing import by_cell, rates_of
from run_scripts.sweep.config import read_sweep
from run_scripts.sweep.plan import experiments
from tests.folders import ROOT
from tests.run_scripts.sweep.test_configs import parsed

FILES = {path.stem: path for path in (ROOT / "run_scripts" / "configs" / "evidence").glob("*.yaml")}
RUNS = {  # of the seed that chooses, and of the others
    "few-shot": (2 * 5 * 5 * 2, 2 * 5 * 5 * 4),
    "few-shot-more": (2 * 5 * (8 * 2 + 3), 2 * 5 * 9 * 4),
    "k1000": (2 * (3 * 2 + 3), 2 * 4 * 2),
    "full": (2 * (3 * 2 + 3), 2 * 4 * 2),
    "position": ((5 + 3) * 2 * 2, (5 + 3) * 2 * 2),
    "length": (3 * 3 * 2, 3 * 3 * 2),
    "sharing": (6 * 2, 6 * 2),
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder in which every path of the sweeps exists."""
    for task in TASKS:
        (tmp_path / "data" / "short" / f"{task}-bin").mkdir(parents=True)
    (tmp_path / "quickstart" / "reviews-bin").mkdir(parents=True)
    (tmp_path / "quickstart" / "backbone").mkdir()
    (tmp_path / "quickstart" / "backbone" / "model.pt").touch()
    monkeypatch.chdir(tmp_path)


def test_all_are_counted():
    assert FILES.keys() == RUNS.keys()


@pytest.mark.parametrize("name", list(RUNS))
def test_runs(files, name):
    sweep = read_sweep(FILES[name])
    rates = rates_of(sweep, experiments(sweep, {}))
    first, later = RUNS[name]
    cells = len(by_cell(rates.first))
    assert len(rates.first) == first and cells * (len(sweep.seeds) - 1) == later
    assert sweep.lr_seeds == [1] and sweep.selection == "clean"
    assert {run.prompt_position for run in rates.first} == ({0, 1, 2, 3, 4} if name == "position" else {0})
    assert (sweep.batch_size, sweep.max_epoch, sweep.max_update) == (None, None, None)  # as in the paper
    for row in sweep.rows:
        args = parsed(row, sweep)
        args.representation_width = 50 if args.method == "m-idpg-phm-glove" else None
        check_method_effects(args, find_preset(args.method).build(args, Geometry.of(args)))


def test_the_few_shot_rows_read_the_last_states(files):
    """M(x) in every layer, as the authors' few-shot scripts; the first K and the first seed come first."""
    found = rates_of(sweep := read_sweep(FILES["few-shot"]), experiments(sweep, {})).first
    inputs = {run.row: run.options[run.options.index("--representation") + 1] for run in found if "idpg" in run.row}
    assert inputs == {"m-idpg-phm": "backbone", "m-idpg-phm-mean": "mean-pooled"}
    assert [run.k for run in found] == [100] * 50 + [500] * 50
    assert {run.dev_examples for run in found} == {None}  # 1,000, or what is left


def test_both_few_shot_files_are_one_table(files):
    few, more = (read_sweep(FILES[name]) for name in ("few-shot", "few-shot-more"))
    for name in ("data", "tasks", "k", "lrs", "seeds", "lr_seeds", "options", "backbone", "dev_examples"):
        assert getattr(few, name) == getattr(more, name)
    assert not {row.label for row in few.rows} & {row.label for row in more.rows}


def test_generators_share_what_their_names_say():
    sweep = read_sweep(FILES["sharing"])
    for row in sweep.rows:
        sharing, hidden, source = row.label.split("-")
        args = parsed(row, sweep)
        assert (str(args.generator_sharing), args.generator_hidden_size) == (sharing, int(hidden))
        assert str(args.representation) == {"layer0": "backbone", "previous": "previous-layer"}[source]


@pytest.mark.parametrize("path", FILES.values(), ids=list(FILES))
def test_the_file_names_commands_that_exist(path):
    text = re.sub(r" \\\n# +", " ", path.read_text(encoding="utf-8"))
    assert f"python -m run_scripts.sweep run_scripts/configs/evidence/{path.name}" in text
    for arguments in re.findall(r"python -m run_scripts\.report (.*)", text):
        assert parser().parse_args(arguments.split()).results.parts[:2] == ("results", "evidence")


def said(*arguments, status=0):
    done = subprocess.run(["bash", "run_scripts/evidence.sh", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return (done.stdout if status == 0 else done.stderr).splitlines()


@pytest.mark.parametrize("backbone", ["minilm", "roberta-large"])
def test_the_script_names_the_commands_of_every_part(backbone):
    commands = said("--print", backbone)
    swept = [re.search(r"configs/evidence/([\w-]+)\.yaml", command)[1] for command in commands if ".sweep " in command]
    assert swept == ["few-shot", "few-shot-more", "k1000", "full", "position", "length", "sharing"]
    assert all(
        ("arch=roberta_idpg_large" in command) == (backbone == "roberta-large")
        for command in commands
        if ".sweep " in command
    )
    published = re.findall(r"--out run_scripts/results/(\S+)\.jsonl", "\n".join(commands))
    assert published == [
        f"{backbone}-{name}" for name in ("few-shot", "few-shot", "k1000", "full", "position", "length", "sharing")
    ]


def test_the_script_has_the_papers_settings_for_the_papers_backbone(files):
    """Its learning rates, generators and numbers of examples to choose with, which MiniLM's sweeps have changed."""
    for task in TASKS:
        Path(f"data/{task}-bin").mkdir()
    for name in ("roberta.large", "roberta.large.mnli"):
        Path("checkpoints", name).mkdir(parents=True)
        Path("checkpoints", name, "model.pt").touch()
    for command in said("--print", "roberta-large"):
        if ".sweep " in command:
            words = shlex.split(command)
            runs = experiments(read_sweep(ROOT / words[3], words[words.index("--set") + 1 :]), {})
            for cell, of_cell in by_cell(runs).items():
                assert {run.lr for run in of_cell} == {*learning_rates(cell)}
                assert "--fp16" in cell.options and "--phm-n" not in cell.options and cell.dev_examples is None
                assert (".mnli/" in cell.backbone) == (cell.k is not None)


def test_the_script_takes_parts_and_options_of_the_sweep():
    first, second = said("--print", "minilm", "k1000", "--jobs", "2")
    assert first.endswith(
        "-m run_scripts.sweep run_scripts/configs/evidence/k1000.yaml --results results/evidence/minilm-k1000 --jobs 2"
    )
    assert second.endswith(
        "-m run_scripts.publish results/evidence/minilm-k1000 --out run_scripts/results/minilm-k1000.jsonl"
    )
    dry = said("--print", "minilm", "k1000", "sharing", "--dry-run")
    assert len(dry) == 2 and all(command.endswith("--dry-run") for command in dry)


def test_the_script_prints_words_as_a_shell_takes_them():
    words = ["--set", "rows=[{name: it's}]", "data='R&D (new)'", "arch=$HOME", "*", ""]
    assert shlex.split(said("--print", "minilm", "k1000", *words)[0])[-len(words) :] == words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "evidence.sh: name a backbone: minilm or roberta-large"),
        (["bert"], "evidence.sh: bert is no backbone: name minilm or roberta-large"),
        (
            ["minilm", "all"],
            "evidence.sh: part all is unknown: few-shot few-shot-more k1000 full position length sharing",
        ),
    ],
)
def test_what_the_script_refuses(arguments, message):
    assert said(*arguments, status=1) == [message]
