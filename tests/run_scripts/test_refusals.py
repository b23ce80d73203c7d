"""Slips of a user: one line names what is wrong, before the first run starts, and nothing is written."""

import shutil

import pytest

from run_scripts import train
from run_scripts.sweep import __main__ as sweep
from tests.folders import renamed, write_backbone, write_folder
from tests.run_scripts.tiny import FLAGS, IDPG, OPTIONS

WITHOUT_LAYERS = {name: value for name, value in OPTIONS.items() if name != "encoder-layers"}
KEYS = [  # keys of a sweep's file, what its line names
    # keys and values
    ({"taks": ["RTE"]}, "taks is unknown: did you mean tasks?"),
    ({"tasks": ["RTEE"]}, "RTEE-bin does not exist: did you mean RTE?"),
    ({"rows": ["m-idpg-pmh"]}, "m-idpg-pmh is unknown: did you mean m-idpg-phm?"),
    ({"rows": [IDPG, IDPG]}, "two are called m-idpg-phm"),
    ({"positions": [[0, 1]]}, "m-idpg-phm: [a, b] needs supplementary training"),
    # options of fairseq-train
    ({"options": {"dropout": False}}, "dropout"),  # as if it were left out
    ({"options": {**OPTIONS, "dropuot": 0}}, "--dropuot is unknown to fairseq-train: did you mean --dropout?"),
    ({"options": {**OPTIONS, "dropout": "much"}}, "--dropout"),
    ({"rows": [{**IDPG, "options": {"phm-n": 5}}]}, "--phm-n 5"),
    ({"arch": "roberta_idpg_large", "options": WITHOUT_LAYERS}, "arch: roberta_idpg)"),
    ({"options": {**OPTIONS, "validate-interval": 3}}, "--validate-interval 3"),  # of 2 epochs
    ({"options": {**OPTIONS, "lr-scheduler": "inverse_sqrt"}, "warm_up": 0.1}, "warm_up 0.1"),
    ({"selection": "paper"}, "dev_examples (--dev) has no effect"),
    ({"tasks": ["CR"], "rows": ["efl"]}, "--method efl needs pairs"),
    # other tasks
    ({"eval_tasks": ["CR"]}, "eval_tasks CR"),
    # files and folders
    ({"data": "no"}, "no/RTE-bin does not exist"),
    ({"backbone": "no.pt"}, "no.pt does not exist"),
    ({"k": [40]}, "24 training examples"),
    ({"dev_examples": 30}, "has 24 training examples"),
    ({"data": {"RTE": "data/STS-B-bin"}}, "data/STS-B-bin"),
]


@pytest.fixture
def refused(world, tmp_path, monkeypatch):
    """The one line of a command that is called in the folder of the world."""
    monkeypatch.chdir(world.folder)

    def call(main, *words):
        with pytest.raises(SystemExit) as raised:
            main([*map(str, words), "--results", str(tmp_path / "results")])
        assert not (tmp_path / "results").exists()
        line = str(raised.value)
        assert "\n" not in line
        return line

    return call


@pytest.fixture
def of_sweep(refused, world, tmp_path):
    return lambda *words, **keys: refused(sweep.main, world.config(tmp_path, **keys), "--dry-run", *words)


@pytest.mark.parametrize(("keys", "named"), KEYS)
def test_keys_of_a_sweep(of_sweep, keys, named):
    assert named in of_sweep(**keys)


def test_options_of_a_sweep(of_sweep):
    for words, named in ((["--set", "seeds=[1"], "seeds=[1"), (["--slurm", "time=5"], "--slurm")):
        assert named in of_sweep(*words)


def test_labels_of_a_folder_are_those_of_its_task(of_sweep, world, tmp_path):
    folder = renamed(world.data / "MRPC-bin", tmp_path / "own", {"0": "different", "1": "same"})
    assert f"data {folder}" in of_sweep(tasks=["MRPC"], data={"MRPC": str(folder)})
    data = {"MRPC": "data/MRPC-bin", "QQP": str(write_folder(tmp_path / "encoded otherwise", words=60))}
    assert data["QQP"] in of_sweep(tasks=["MRPC"], data=data, eval_tasks=["QQP"])


def test_the_name_that_a_folder_records_is_that_of_its_task(refused, world, tmp_path):
    """Its scores would be those of another data set, under the name of this one. fairseq-preprocess records none."""
    folder = shutil.copytree(world.data / "RTE-bin", tmp_path / "folder")
    config = world.config(tmp_path, data={"RTE": str(folder)})
    (folder / "preprocess.json").write_text('{"task": "rte"}')
    sweep.main([str(config), "--results", str(tmp_path / "results"), "--dry-run"])
    (folder / "preprocess.json").write_text('{"task": "MRPC"}')
    for said in (refused(sweep.main, config), refused(train.main, "RTE", *TRAINED, "--data", folder)):
        assert f"data {folder} is of MRPC" in said


def test_a_backbone_of_another_kind(of_sweep, tmp_path):
    other = write_backbone(tmp_path / "other.pt", words=60)
    assert "dictionary has 55 symbols but the backbone" in of_sweep(backbone=str(other))


def test_a_folder_without_word_vectors_or_labels(of_sweep, world, tmp_path):
    assert "glove.json" in of_sweep(rows=["m-idpg-phm-glove"])
    folder = shutil.copytree(world.data / "RTE-bin", tmp_path / "folder")
    for file in folder.glob("label/valid*"):
        file.unlink()
    assert "no labels of" in of_sweep(data={"RTE": str(folder)})


TRAINED = ["--backbone", "backbone/model.pt", "--arch", "roberta_idpg", "--phm-n", "4", *FLAGS]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["RTE", *TRAINED, "--save-dir", "x"], "--save-dir is set by --results"),
        (["RTE", *TRAINED, "--out", "backbone/model.pt"], "--out backbone/model.pt is the file of --backbone"),
        (["RTE", *TRAINED, "--out", "data/RTE-bin/x.pt"], "--out data/RTE-bin/x.pt"),
        (["MNLI", "--supplementary", *TRAINED, "--k", "8"], "--k"),
    ],
)
def test_the_command_of_a_task(refused, world, words, named):
    before = world.backbone.read_bytes()
    assert named in refused(train.main, *words)
    assert world.backbone.read_bytes() == before and not (world.data / "RTE-bin" / "x.pt").exists()
