"""Archives, labels, splits and tokens of the quick start."""

from __future__ import annotations

import pytest

from preprocess.errors import InputError
from run_scripts.quickstart import data
from run_scripts.quickstart.data import Example

SIZES = {"train": 50, "valid": 10, "test": 20}
EXAMPLES = [Example(i % 2, f"sentence {i}") for i in range(100)]


def test_reads_reviews_out_of_nested_archives(reviews_archive, reviews_text):
    assert data.read_reviews(reviews_archive) == reviews_text


def test_other_package_is_named_in_the_error(tmp_path, reviews_archive, monkeypatch):
    monkeypatch.setattr(data, "REVIEWS_FILE", "hutto_ICWSM_2014/absent.txt")
    with pytest.raises(InputError, match="has no hutto_ICWSM_2014/absent.txt"):
        data.read_reviews(reviews_archive)


def test_unpacks_only_the_model_files(tmp_path, model_archive):
    target = tmp_path / "minilm" / "hf"
    data.unpack_model(model_archive, target)
    assert sorted(p.name for p in target.iterdir()) == sorted(data.MODEL_FILES)
    assert (target / "config.json").read_text() == "content of config.json"
    assert not list(tmp_path.rglob("outside.txt"))


def test_wrong_archive_is_refused(reviews_archive):
    with pytest.raises(InputError, match="sha256"):
        data.check_archive(reviews_archive, "0" * 64)
    with pytest.raises(InputError, match="did not download absent"):
        data.check_archive(reviews_archive.with_name("absent"), "0" * 64)


def test_labels(reviews_text):
    """The sign of clear ratings; neutral and repeated sentences are dropped, spaces joined."""
    assert data.label_reviews(data.parse_reviews(reviews_text)) == [
        Example(1, "A gorgeous film."),
        Example(0, "A dull, dull film."),
        Example(0, "Not a good film!"),
        Example(1, "Good fun, [SEP] really"),
    ]


@pytest.mark.parametrize("line", ["1\t2.0", "1\tgood\ttext", "1\t2.0\ttext\tmore"])
def test_malformed_review_is_located(line):
    with pytest.raises(InputError, match="line 2: "):
        data.parse_reviews(f"1\t2.0\tfine\r\n{line}\r\n")


def test_splits_are_disjoint_and_sized():
    splits = data.split_examples(EXAMPLES, SIZES, seed=1)
    assert {name: len(split) for name, split in splits.items()} == SIZES
    texts = [example.text for split in splits.values() for example in split]
    assert len(set(texts)) == sum(SIZES.values())


def test_splits_depend_on_the_seed_only():
    assert data.split_examples(EXAMPLES, SIZES, 1) == data.split_examples(EXAMPLES, SIZES, 1)
    assert data.split_examples(EXAMPLES, SIZES, 1) != data.split_examples(EXAMPLES, SIZES, 2)


def test_test_split_stays_when_training_grows():
    small = data.split_examples(EXAMPLES, SIZES, 1)
    large = data.split_examples(EXAMPLES, {**SIZES, "train": 70}, 1)
    assert (small["test"], small["valid"]) == (large["test"], large["valid"])
    assert large["train"][:50] == small["train"]


def test_too_many_examples():
    with pytest.raises(InputError, match="--train-examples 99 .* only 100 reviews"):
        data.split_examples(EXAMPLES, {**SIZES, "train": 99}, 1)


def test_written_splits_read_back_and_repeat(tmp_path, reviews_archive):
    sizes = {"train": 2, "valid": 1, "test": 1}
    for name in ("a", "b"):
        data.make_splits(reviews_archive, tmp_path / name, sizes, seed=1)
    lines = [line for split in data.SPLITS for line in (tmp_path / "a" / f"{split}.tsv").read_text().splitlines()]
    assert sorted(line.split("\t")[1] for line in lines) == sorted(
        ["A gorgeous film.", "A dull, dull film.", "Not a good film!", "Good fun, [SEP] really"]
    )
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()
    assert "Hutto & Gilbert" in (tmp_path / "a" / "SOURCE.txt").read_text()


def test_preprocess(tmp_path, reviews_archive, tokenizer_json):
    """fairseq reads back the pieces and fixed label ids; nothing is cut or padded; "[SEP]" in a review is text."""
    from fairseq.data import Dictionary, data_utils

    data.make_splits(reviews_archive, tmp_path / "r", {"train": 2, "valid": 1, "test": 1}, seed=1)
    binary = tmp_path / "reviews-bin"
    data.preprocess(tmp_path / "r", tokenizer_json.parent, binary)
    labels = Dictionary.load(str(binary / "label" / "dict.txt"))
    assert [labels.index(label) - labels.nspecial for label in ("0", "1")] == [0, 1]
    pieces = Dictionary.load(str(binary / "input0" / "dict.txt"))
    found = {}
    for split in data.SPLITS:
        ids = data_utils.load_indexed_dataset(str(binary / "input0" / split), pieces)
        classes = data_utils.load_indexed_dataset(str(binary / "label" / split), labels)
        for row, label in zip(ids, classes):
            found[" ".join(pieces[i] for i in row)] = labels[label[0]]
    assert found == {
        "a gorgeous film . </s>": "1",
        "a dull , dull film . </s>": "0",
        "not a good film ! </s>": "0",
        "good fun , [ sep ] <unk> </s>": "1",
    }
