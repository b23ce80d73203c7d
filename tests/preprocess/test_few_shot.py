"""Few-shot copies: which examples a seed chooses, what is written, and what is refused."""

import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_idpg.representations.stored import load_vectors
from preprocess.data_folder import DataFolder
from preprocess.errors import InputError
from preprocess.few_shot import few_shot, select_rows
from tests.folders import write_folder
from tests.preprocess.commands import run
from tests.representations.test_word_vectors import write_vectors

TRAIN, VALID, CLASSES = 40, 7, 3
SPLITS = {"train": TRAIN, "valid": VALID}
KINDS = {"pairs": {"classes": CLASSES}, "scores": {"pairs": False, "regression": True}}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    root = tmp_path_factory.mktemp("sources")
    return {
        kind: DataFolder(write_folder(root / f"{kind}-bin", splits=SPLITS, **options))
        for kind, options in KINDS.items()
    }


def contents(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def columns_of(data, split):
    labels = data.targets(split) if data.regression else data.classes(split).tolist()
    rows = [data.rows(part, split) for part in data.inputs]
    return [*([part[i].tolist() for i in range(len(part))] for part in rows), labels]


def command(source, out, *options, task="task"):
    return run(["few-shot", task, "--data", source.path, "--out", out, *options])


@settings(max_examples=40)
@given(st.integers(1, TRAIN // 2), st.integers(1, TRAIN // 2), st.integers(0, 2**32 - 1))
def test_disjoint_of_the_right_size_and_nested(sources, k, dev, seed):
    train, valid = select_rows(sources["pairs"], k, dev, seed, False)
    assert (len(train), len(valid)) == (k, dev)
    assert len({*train.tolist(), *valid.tolist()}) == k + dev
    largest, same_valid = select_rows(sources["pairs"], TRAIN - dev, dev, seed, False)
    assert same_valid.tolist() == valid.tolist()
    assert largest[:k].tolist() == train.tolist()


@settings(max_examples=40)
@given(st.integers(1, TRAIN // CLASSES), st.integers(1, TRAIN - 1), st.integers(0, 1000))
def test_per_class(sources, k, dev, seed):
    source = sources["pairs"]
    classes, valid = source.classes("train"), np.random.RandomState(seed).permutation(TRAIN)[:dev]
    fewest = np.bincount(np.delete(classes, valid), minlength=CLASSES).min()
    if fewest < k:
        with pytest.raises(InputError, match=f"has {fewest} training examples of class .*--k can be {fewest} at most"):
            select_rows(source, k, dev, seed, True)
        return
    train, chosen_valid = select_rows(source, k, dev, seed, True)
    assert chosen_valid.tolist() == valid.tolist() and not set(train) & set(valid)
    assert np.bincount(classes[train]).tolist() == [k] * CLASSES
    assert k == 1 or set(select_rows(source, k - 1, dev, seed, True)[0]) < set(train)


def test_rows_are_the_same_on_every_machine(sources):
    """Frozen: other rows would silently change every few-shot result."""
    train, valid = select_rows(sources["pairs"], 8, 5, 1, False)
    assert valid.tolist() == [2, 31, 3, 21, 27]
    assert train.tolist() == [29, 22, 39, 19, 26, 32, 17, 30]
    assert select_rows(sources["pairs"], 2, 5, 1, True)[0].tolist() == [29, 22, 39, 19, 26, 30]


@pytest.mark.parametrize("kind", KINDS)
def test_folder_holds_the_chosen_rows(sources, tmp_path, kind):
    source = DataFolder(shutil.copytree(sources[kind].path, tmp_path / "source"))
    (source.path / "preprocess.json").write_text('{"bpe": "gpt2", "vocab": "/x"}')
    few_shot(source, 6, 4, 3, False, tmp_path / "few-bin")
    made = DataFolder(tmp_path / "few-bin")
    train, valid = select_rows(source, 6, 4, 3, False)
    for split, rows in (("train", train), ("valid", valid)):
        everything = columns_of(source, "train")
        assert columns_of(made, split) == [[column[row] for row in rows] for column in everything]
    assert columns_of(made, "test") == columns_of(source, "valid")
    assert (made.symbols, made.label_names) == (source.symbols, source.label_names)
    assert made.facts() == source.facts()  # which name the encoder
    record = json.loads((made.path / "few_shot.json").read_text())
    assert (record["train_rows"], record["valid_rows"]) == (train.tolist(), valid.tolist())


def test_word_vectors_follow_their_examples(tmp_path):
    data = DataFolder(write_folder(tmp_path / "pairs-bin", splits=SPLITS))
    vectors = write_vectors(data.path, width=3)
    few_shot(data, 10, 5, 1, False, tmp_path / "few")
    rows = select_rows(data, 10, 5, 1, False)
    for split, expected in zip(("train", "valid", "test"), [*(vectors["train"][of] for of in rows), vectors["valid"]]):
        found = load_vectors(str(tmp_path / "few"), split, 3)
        assert np.array_equal(found.rows(np.arange(len(expected))), expected)


def test_command_writes_a_folder_for_each_size_and_seed(sources, tmp_path, capsys):
    for out in ("a", "b"):
        assert command(sources["pairs"], tmp_path / out, "--k", 3, 5, "--seed", 1, 2, 2, "--dev", 6) == 0
    made = [f"task-K{k}-seed{seed}-bin" for k in (3, 5) for seed in (1, 2)]
    assert capsys.readouterr().out.startswith(f"{tmp_path}/a/{made[0]}: train 3, valid 6, test {VALID} examples\n")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == made
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert command(sources["pairs"], tmp_path / "c", "--k", 3, "--dev", 6, task="../x") == 1
    assert not (tmp_path / "c").exists()


def in_shards(folder):
    for file in [*folder.glob("*/train.*")]:
        shutil.copyfile(file, file.with_name(f"train1{file.suffix}"))


@pytest.mark.parametrize(
    ("kind", "change", "options", "named"),
    [
        ("pairs", None, ["--k", 3, 35], "40 at most"),
        ("scores", None, ["--k", 3, "--per-class"], "--per-class"),
        ("pairs", lambda folder: (folder / "label" / "train.idx").unlink(), ["--k", 2], "labels of train"),
        ("pairs", in_shards, ["--k", 3], "train, train1"),
    ],
)
def test_refused_before_anything_is_written(sources, tmp_path, capsys, kind, change, options, named):
    source = DataFolder(shutil.copytree(sources[kind].path, tmp_path / "data-bin"))
    if change:
        change(source.path)
    assert command(source, tmp_path / "out", *options, "--dev", 6) == 1
    error = capsys.readouterr().err
    assert named in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_what_is_there_stays(sources, tmp_path, capsys):
    """The folder to sample from, also with --overwrite; another one, without it."""
    source = DataFolder(write_folder(tmp_path / "task-K2-seed1-bin", splits=SPLITS))
    before = contents(tmp_path)
    assert command(source, tmp_path, "--k", 2, "--seed", 1, "--dev", 6, "--overwrite") == 1
    assert "--out" in capsys.readouterr().err
    assert command(sources["pairs"], tmp_path, "--k", 3, 2, "--dev", 6) == 1
    assert "task-K2-seed1-bin" in capsys.readouterr().err and contents(tmp_path) == before


def test_from_raw_files(commands, capsys):
    """The same folders as from the binarized ones, which are gone afterwards; exchanged pairs would be in both sets."""
    for file in ("train", "dev"):
        lines = "".join(f"{i}\ta{i}\tb b{i}\t{'not_' * (i % 2)}entailment\n" for i in range(15))
        commands.write(f"RTE/{file}.tsv", "index\tsentence1\tsentence2\tlabel\n" + lines)
    raw = ["--raw", commands.raw, "--vocab", commands.vocab]

    def sample(place, *source):
        return run(["few-shot", "RTE", "--out", commands.out / place, "--k", 5, "--dev", 8, "--seed", 3, *source])

    assert sample("a", "--data", commands.ok("RTE", "--raw", commands.raw).path) == sample("b", *raw) == 0
    assert contents(commands.out / "a") == contents(commands.out / "b")
    exchanged = commands.ok("RTE", "--raw", commands.raw, "--swap-pairs", "append", "--overwrite")
    assert sample("c", "--data", exchanged.path) == 1 and "--swap-pairs append" in capsys.readouterr().err
