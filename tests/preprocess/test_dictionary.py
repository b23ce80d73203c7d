"""A dictionary that was read before is read again where the file has changed."""

from __future__ import annotations

from preprocess.dictionary import SPECIAL, read_dictionary


def test_a_changed_file_is_read(tmp_path):
    path = tmp_path / "dict.txt"
    path.write_text("a 1\nb 1\n")
    first = read_dictionary(path)
    first.append("of the caller")
    assert read_dictionary(path) == [*SPECIAL, "a", "b"]
    path.write_text("a 1\nc 1\n")
    assert read_dictionary(path) == [*SPECIAL, "a", "c"]
