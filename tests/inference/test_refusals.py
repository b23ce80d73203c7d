"""What is refused: in one line that names the option, the file or the line, and before anything is written."""

import pytest
import torch

from fairseq_idpg import load
from fairseq_idpg.errors import InputError
from fairseq_idpg.predict import main
from tests.inference.conftest import inputs

TEXTS = {"x.txt": "red cat\n", "long.txt": f"red cat\n{'cat ' * 40}\n", "pair.jsonl": '["a", "b"]\n', "x.json": "[]\n"}
COMMANDS = [  # of predict: what is given, what the line names
    ("--path SINGLES --text long.txt", "long.txt line 2"),
    ("--path SINGLES --text pair.jsonl", "pair.jsonl line 1"),
    ("--path SINGLES --text no.txt", "no.txt"),
    ("--path SINGLES --text x.json", "--jsonl"),
    ("--path SINGLES --text x.txt --out o.txt", "--out o.txt"),
    ("--path SINGLES --text pair.jsonl --out pair.jsonl", "--text"),
    ("--path SINGLES --text x.txt --out SINGLES --format csv", "--path"),
    ("--path SINGLES --text x.txt --out BACKBONE --format csv", "backbone"),
    ("--path SINGLES --text x.txt --out ENCODER --format csv", "encoder"),
    ("--path no.pt --text x.txt", "--path no.pt"),
    ("--path PAIRS --text x.txt", "pair"),
    ("--path SINGLES --text x.txt --fp16", "--fp16"),
    ("--path a=SINGLES a=SINGLES --text x.txt", "NAME=SINGLES"),
    ("--path SINGLES", "--text"),
    ("FOLDER --path SINGLES", "--out"),
    ("FOLDER --path SINGLES --out FOLDER/predictions.tsv", "--out"),
    ("FOLDER --path SINGLES --out BACKBONE --split valid", "backbone"),
    ("FOLDER --path SINGLES --out o.tsv --backbone no.pt", "no.pt"),
    ("FOLDER --path SINGLES --out o.tsv --split no", "no"),
    ("FOLDER --path SINGLES PAIRS --out o.tsv", "--path"),
    ("FOLDER --path SINGLES --out o.tsv --split valid --choose", "--choose"),
    ("FOLDER --path SINGLES --out o.tsv --split valid --int8 --representation-cache c", "--int8 and --repr"),
]


@pytest.mark.parametrize("given, named", COMMANDS)
def test_of_the_command(given, named, idpg, folders, place, tmp_path, monkeypatch):
    files = {"SINGLES": idpg("singles"), "PAIRS": idpg("pairs"), "FOLDER": folders["singles"]}
    files |= {"BACKBONE": place / "backbone" / "model.pt", "ENCODER": place / "vocab" / "vocab.bpe"}
    before = [path.read_bytes() for path in files.values() if path.is_file()]
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    for name, path in files.items():
        given, named = given.replace(name, str(path)), named.replace(name, str(path))
    with pytest.raises(SystemExit) as ended:
        main([*given.split(), "--cpu"])
    assert named in str(ended.value.code) and "\n" not in str(ended.value.code)
    assert {path.name for path in tmp_path.iterdir()} == TEXTS.keys()
    assert [path.read_bytes() for path in files.values() if path.is_file()] == before


class Table(list):
    """As a data frame, which is iterated over by the names of its columns."""

    columns = ("sentence",)


@pytest.mark.parametrize(
    "kind, given, named",
    [
        ("singles", "red cat", "'red cat'"),
        ("singles", Table(["sentence"]), "list of texts"),
        ("singles", ["red", ("red", "cat")], "input 2"),
        ("singles", [{"sentence": "red cat"}], "input 1"),  # whose key would be read
        ("singles", ["red", " \t"], "input 2"),
        ("singles", ["red", "cat " * 40], "truncate"),
    ],
)
def test_in_python(kind, given, named, idpg):
    for model in (load(idpg(kind), device="cpu"), load({"own": idpg(kind)}, device="cpu")):
        with pytest.raises(InputError, match=named):
            model.predict(given)


def test_a_device_that_is_not_there(idpg):
    with pytest.raises(InputError, match="`device` is 'nowhere' .*: give 'cpu'"):
        load(idpg("singles"), device="nowhere")


def test_in_training_mode_nothing_is_answered(idpg):
    """Dropout would change answers; of a shared backbone those of all tasks."""
    many = load({"one": idpg("singles"), "other": idpg("singles")}, device="cpu")
    texts = inputs("singles")[:3]
    expected = many.predict(texts)
    many["one"].model.train()
    for ask in (many.predict, lambda texts: many.predict(texts, "other"), many["other"].predict):
        with pytest.raises(InputError, match="training mode"):
            ask(texts)
    many["one"].model.eval()
    assert many.predict(texts) == expected


def test_a_prediction_that_is_not_finite(idpg):
    many = load({"one": idpg("singles"), "other": idpg("singles")}, device="cpu")
    many["other"].head.out_proj.bias.data.fill_(torch.nan)
    for ask in (many.predict, many["other"].predict):
        with pytest.raises(InputError, match="input 1 is not finite"):
            ask(inputs("singles")[:1])
    assert len(many.predict(inputs("singles"), "one")) == 16
