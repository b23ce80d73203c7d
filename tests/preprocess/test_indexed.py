"""The binary format against fairseq's own builder and reader."""

import numpy as np
import torch
from fairseq.data import Dictionary, indexed_dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from preprocess.data_folder import DataFolder
from preprocess.dictionary import by_frequency, label_dictionary, read_dictionary
from preprocess.indexed import IndexedRows, IndexedWriter
from tests.folders import write_folder

ROWS = st.lists(st.lists(st.integers(0, 65000), min_size=1, max_size=6), max_size=8)


@settings(max_examples=60)
@given(ROWS, st.integers(0, 8), st.sampled_from([100, 65499, 65500, 250002]))
def test_same_bytes_as_fairseq(tmp_path_factory, rows, cut, vocabulary):
    folder = tmp_path_factory.mktemp("indexed")
    with IndexedWriter(folder / "ours", vocabulary) as writer:
        for part in (rows[:cut], rows[cut:]):
            ids = np.asarray([number for row in part for number in row], np.int64)
            writer.write(ids, np.asarray([len(row) for row in part], np.int64))
    builder = indexed_dataset.make_builder(str(folder / "theirs.bin"), impl="mmap", vocab_size=vocabulary)
    for row in rows:
        builder.add_item(torch.tensor(row, dtype=torch.int32))
    builder.finalize(str(folder / "theirs.idx"))
    for end in ("bin", "idx"):
        assert (folder / f"ours.{end}").read_bytes() == (folder / f"theirs.{end}").read_bytes()
    found = IndexedRows(folder / "ours")
    assert [found[i].tolist() for i in range(len(found))] == rows


def test_label_dictionary_as_fairseq_saves_it(tmp_path):
    symbols, counts = Dictionary(), {"neutral": 3, "entailment": 5, "contradiction": 3}
    for label, count in counts.items():
        symbols.add_symbol(label, n=count)
    symbols.finalize(padding_factor=8)
    symbols.save(str(tmp_path / "dict.txt"))
    order = by_frequency(counts)
    assert (tmp_path / "dict.txt").read_text() == label_dictionary(order, [counts[name] for name in order])


def test_dictionary_as_fairseq_reads_it(tmp_path):
    path = tmp_path / "dict.txt"
    path.write_text("the 5\n, 4\n\u00a0x 3\n## 0\n", encoding="utf-8")
    assert read_dictionary(path) == Dictionary.load(str(path)).symbols


def test_a_folder_that_fairseq_made(tmp_path):
    splits = {"dev": 1, "valid": 3, "train": 4, "test": 1, "valid1": 2}
    data = DataFolder(write_folder(tmp_path / "data", splits=splits))
    assert data.splits == ["train", "valid", "valid1", "test", "dev"] and data.inputs == ("input0", "input1")
    assert data.classes("train").tolist() == [0, 1, 0, 1] and data.label_names == ["0", "1"]
