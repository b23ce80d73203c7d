"""Short examples of five tasks: which are drawn, and what becomes of them."""

from preprocess.data_folder import DataFolder, check_split
from run_scripts import short_tasks
from run_scripts.short_tasks import Size, main, splits


def write(folder, train, valid):
    folder.mkdir(parents=True)
    for split, lines in (("train", train), ("valid", valid)):
        (folder / f"{split}.tsv").write_text("\n".join(lines))  # without its last line end
    return folder


def test_examples_are_short_enough_drawn_once_and_always_the_same(tmp_path):
    long = "1\t" + " ".join(["w"] * 4) + "\tw w"
    folder = write(tmp_path / "RTE", [long, *(f"0\ttrain {i}\tb" for i in range(9))], [long, "0\tvalid 0\tb"])
    found = splits(folder, Size(words=5, train=6, valid=3, pooled=True))
    assert {name: len(lines) for name, lines in found.items()} == {"train": 6, "valid": 3}
    assert len({*found["train"], *found["valid"]}) == 9 and f"{long}\n" not in {*found["train"], *found["valid"]}
    assert found["valid"] == ["0\ttrain 6\tb\n", "0\ttrain 8\tb\n", "0\tvalid 0\tb\n"]  # as ever
    apart = splits(folder, Size(words=5, train=3, valid=1))
    assert all(split in line for split, lines in apart.items() for line in lines)


def test_folders_for_training(tmp_path, monkeypatch):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "a", "0", "1", "."]
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    monkeypatch.setattr(short_tasks, "SIZES", {"MR": Size(3, 4, 2), "STS-B": Size(6, 3, 2, pooled=True)})
    write(tmp_path / "MR", ["1\tgood film", "0\tbad film"] * 3, ["1\ta good film"] * 2 + ["0\tbad"] * 2)
    write(tmp_path / "STS-B", ["0.5\tgood film\tbad film"] * 4, ["1.0\tfilm\ta film"] * 2)
    main([str(tmp_path), "--out", str(tmp_path / "out"), "--bpe", "bert", "--vocab", str(tmp_path)])
    reviews, pairs = (DataFolder(tmp_path / "out" / f"{name}-bin") for name in ("MR", "STS-B"))
    assert [check_split(reviews, split) for split in ("train", "valid")] == [4, 2]
    assert [check_split(pairs, split) for split in ("train", "valid")] == [3, 2]
    assert pairs.regression and list(reviews.label_names) == ["0", "1"]


def test_large_tests_read_one_file_for_both_and_a_folder_in_lower_case(tmp_path, monkeypatch):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nw\n0\n1\n")
    sizes = {"MPQA": Size(9, 4, 2, pooled=True), "MRPC-accuracy": Size(9, 2, 1)}
    monkeypatch.setattr(short_tasks, "LARGE_TESTS", sizes)
    (tmp_path / "mpqa").mkdir()
    (tmp_path / "mpqa" / "all.tsv").write_text("".join(f"{n % 2}\tw{' w' * n}\n" for n in range(6)))
    drawn = splits(tmp_path / "mpqa", Size(9, 4, 2))  # those of one file are not drawn twice
    assert len({*drawn["train"], *drawn["valid"]}) == 6
    write(tmp_path / "MRPC", ["1\tw\tw w"] * 2, ["0\tw\tw"])
    main([str(tmp_path), "--out", str(tmp_path / "out"), "--bpe", "bert", "--vocab", str(tmp_path), "--large-tests"])
    phrases, pairs = (DataFolder(tmp_path / "out" / f"{name}-bin") for name in ("MPQA", "MRPC-accuracy"))
    assert [check_split(phrases, split) for split in ("train", "valid")] == [4, 2]
    assert [check_split(pairs, split) for split in ("train", "valid")] == [2, 1] and len(pairs.inputs) == 2
