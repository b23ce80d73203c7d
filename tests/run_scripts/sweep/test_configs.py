"""The sweeps that are shipped: their runs, and the tables of the papers that they make."""

import hashlib
import json
import re
from dataclasses import fields
from itertools import islice
from pathlib import Path

import pytest

from fairseq_idpg.methods.base import Geometry
from fairseq_idpg.methods.registry import PRESETS, find_preset
from fairseq_idpg.models.config import fill_method_options
from fairseq_idpg.models.prepare import check_method_effects
from preprocess.tasks import TASKS, own_task
from run_scripts.report.paper import paper, papers
from run_scripts.run import experiment
from run_scripts.run.experiment import Experiment, continued
from run_scripts.run.options import flags
from run_scripts.run.preflight import parse
from run_scripts.sweep import plan
from run_scripts.sweep.config import read_sweep
from run_scripts.sweep.plan import experiments, first_stage, rates_of
from tests.folders import ROOT

CONFIGS = ROOT / "run_scripts" / "configs"
FILES = {
    str(path.relative_to(CONFIGS).with_suffix("")): path
    for path in sorted(CONFIGS.rglob("*.yaml"))
    if path.stem != "paper_values"
}
# File: runs of supplementary training, runs on the tasks, of them those that wait for a learning rate, runs that go on
# with examples of another task, and a digest of the identities of every seventh. A sweep that has begun finds its runs
# by these: another digest disowns them.
PLANNED = """
ept/figure5+ 0 189 0 0 f2fbe6d1ecbe | ept/figure5 0 630 0 0 fef8a08f6817
ept/table1+ 0 315 0 0 309f528d8da4 | ept/table1 0 1050 0 0 900a06c9f6a9 | ept/table2+ 0 162 0 0 3f31893ccdca
ept/table2 0 540 0 0 479c194c1903 | evidence/few-shot-more 0 950 760 0 ad3ba0e5f773
evidence/few-shot 0 500 400 0 7aae2bc08773 | evidence/full 0 54 36 0 798e701109b2
evidence/k1000 0 54 36 0 4bc3ca052d16 | evidence/length 0 54 36 0 764a254d2bb9
evidence/position 0 96 64 0 22ea3b419ad6 | evidence/sharing 0 36 24 0 2983400863c0
evidence/tests 0 450 300 0 bebafc231a1d | evidence/tests-k500 0 630 180 0 9c1c7107883b
evidence/tests-more 0 1005 670 0 8d2a1a815408 | figure7 10 3200 0 0 3d5765858513 | figure9 0 4000 0 0 e4865ed4f177
glue 0 108 0 0 deb9ea272636 | idspam/figure2 0 1410 0 0 c323ab63ff83
idspam/table11 0 72 0 72 20a30ba9e131 | idspam/table14 0 6 0 0 94b7e36e6b29
idspam/table15 0 72 0 0 973ec65d9484 | idspam/table2-base 0 666 0 0 c9b1d69a656c
idspam/table2 0 666 0 0 b29997f92467 | idspam/table3 0 90 0 0 24fd71119292 | idspam/table4 0 360 0 0 5f757a8dc2d8
idspam/table5 0 360 0 0 b5e480180089 | idspam/table6 0 444 0 0 056dc9abc141 | methods-long 0 10 0 0 5a40e42fb751
methods 0 290 0 0 f7298c8be2f1 | short 0 180 0 0 83e5e7c4e4c1 | slides/composition 0 30 0 0 3aa4622a7792
slides/parallel 0 30 0 0 336f7ad0dc7e | slides/places 0 42 0 0 1a476a412968 | smoke 0 12 0 0 928b8a38b4d4
table1 0 2300 0 0 7cc0eb939efe | table3 0 4650 0 0 97f1b067e9ce | table6 0 3600 0 0 bcc7a80f8e1e
table7 0 800 0 0 a83c1e5c9482 | topics 0 12 0 0 5550d9b97e41
"""
ONE = r"(\S+) (\d+) (\d+) (\d+) (\d+) (\w+)"
PLANS = {name: [*map(int, counts), digest] for name, *counts, digest in re.findall(ONE, PLANNED)}

LARGE = ["tasks=[MNLI,QQP,QNLI]", "max_update=300000"]  # what EPT's files say of tasks with many examples: NAME+


def read(name):
    return read_sweep(FILES[name.rstrip("+")], LARGE if name.endswith("+") else ())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Every path of the sweeps exists, and counts by its name."""
    place = tmp_path_factory.mktemp("files")
    for task in (*TASKS, "MRPC-accuracy", "topics"):
        for parent in ("data", "data/short", "data/tests", "efl"):
            (place / parent / f"{task}-bin").mkdir(parents=True)
    (place / "quickstart" / "reviews-bin").mkdir(parents=True)
    models = [f"checkpoints/roberta.{name}/model.pt" for name in ("base", "large", "large.mnli")]
    for name in (*models, "quickstart/backbone/model.pt"):
        (place / name).parent.mkdir(parents=True)
        (place / name).touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(experiment, "backbone_digest", lambda path: str(Path(path).relative_to(place)))
        patch.setattr(experiment, "folder_digest", lambda path, vectors: f"{Path(path).relative_to(place)} {vectors}")
        patch.setattr(experiment, "file_digest", str)
        patch.setattr(experiment, "own_facts", lambda task, data, metric: own_task(task, True, metric or "accuracy"))
        patch.setattr(plan, "rates_near", lambda place, runs: {plan.cell_of(run): [1e-2, 3e-3, 1e-3] for run in runs})
        patch.setattr(experiment, "_digests", lambda option, paths: paths)
        yield place


@pytest.mark.parametrize("name", sorted({*FILES, *PLANS}))
def test_runs(files, name):
    sweep = read(name)
    first, runs = first_stage(sweep).values(), experiments(sweep, {})
    later, further = rates_of(sweep, runs).later, list(continued(runs, sweep.eval_k))
    assert len(set(runs)) == len(runs)
    digest = hashlib.sha256()
    for run in islice([*first, *runs, *further], 0, None, 7):
        digest.update(f"{run.run} {run}\n".encode())
    found = [len(first), len(runs), len(later), len(further), digest.hexdigest()[:12]]
    assert found == PLANS[name]


def test_published_records_are_runs_of_today(monkeypatch):
    """Records of this protocol whose options name no files: each has the identity that its experiment would get."""
    names, found, same = {item.name for item in fields(Experiment)}, 0, 0
    for path in sorted((ROOT / "run_scripts" / "results").glob("minilm-*.jsonl")):
        for record in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            known = {name: value for name, value in record.items() if name in names}
            options = tuple(record.get("given_options", ()))
            run = Experiment(**{**known, "backbone": "", "data": "", "options": options})
            digest = record.get("read_sha256", record["data_sha256"])
            monkeypatch.setattr(experiment, "backbone_digest", lambda path, of=record: of["backbone"]["sha256"])
            monkeypatch.setattr(experiment, "folder_digest", lambda path, vectors, of=digest: of)
            found, same = found + 1, same + (run.run == record["run"])
    assert found - same == 112 and same >= 1029  # the others name files


def build(words, arch):
    """Builds the method of ``--method WORDS``, which refuses options without effect."""
    start = ["fairseq-train", "data", "--user-dir", str(ROOT / "fairseq_idpg"), "--arch", arch]
    args = parse([*start, "--task", "sentence_prediction_idpg", "--method", *words])
    fill_method_options(args)
    if "glove" in args.method:
        args.representation_width = 300
    check_method_effects(args, find_preset(args.method).build(args, Geometry.of(args)))


@pytest.mark.parametrize("name", FILES)
def test_every_row_has_options_of_its_method(name):
    sweep = read(name)
    for row in sweep.rows:
        build([row.method, *flags({**sweep.options, **row.options})], sweep.arch)


PAGE = (ROOT / "run_scripts" / "ROWS.md").read_text(encoding="utf-8")
ROWS = re.findall(r"`([^`]+)`", "".join(re.findall(r"^\|.*\| (.+) \|$", PAGE, re.MULTILINE)))  # their last column
OF_PAPERS = sorted({row for row in ROWS if row.split()[0].split("+")[0] in PRESETS})


@pytest.mark.parametrize("row", OF_PAPERS)
def test_the_rows_on_the_page_are_methods_with_their_options(row):
    build(row.split(), "roberta_idpg_large")


# --- tables of the papers --------------------------------------------------------------------------------------------

TABLES = [f"idspam/{name}" for name in ("table2", "table2-base", *(f"table{number}" for number in (3, 4, 5, 6, 11)))]
TABLES += ["ept/table1", "ept/table2", *(f"slides/{name}" for name in ("parallel", "places", "composition"))]


@pytest.mark.parametrize("name", ["table1", "table3", "table6", "table7", *TABLES])
def test_rows_of_the_papers_tables(name):
    sweep = read(name)
    folder, _, table = name.removesuffix("-base").rpartition("/")
    if folder:
        printed = [papers().tables[f"{folder}-{table.removeprefix('table')}"].blocks[sweep.arch]]
    else:
        printed = list(paper().blocks[int(table.removeprefix("table"))].values())
        assert tuple(sweep.tasks) == paper().tasks and sweep.seeds == [1, 2, 3, 4, 5]
        assert (sweep.batch_size, sweep.max_epoch, sweep.max_update) == (None, None, None)
    assert [[row.label for row in sweep.rows]] * len(printed) == [list(block) for block in printed]
