"""Helpers of the tests of ``python -m preprocess``: a small GPT-2 vocabulary and runs in this process."""

import json
import sys
import types
from collections.abc import Iterable, Sequence
from pathlib import Path

from preprocess import cli
from preprocess.data_folder import DataFolder
from preprocess.encoders import load_encoder
from preprocess.encoders.hugging_face import BYTES


def write_vocab(folder: Path, merges: Iterable[tuple[str, str]] = ()) -> Path:
    """GPT-2's bytes and what is merged of them, numbered as they come."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = [*BYTES, *map("".join, merges)]
    lines = ["#version: 0.2", *map(" ".join, merges)]
    (folder / "encoder.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}), encoding="utf-8")
    (folder / "vocab.bpe").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "dict.txt").write_text("".join(f"{i} 1\n" for i in range(len(pieces))), encoding="utf-8")
    return folder


def run(arguments: Sequence[object]) -> int:
    """The status of ``python -m preprocess ARGUMENTS``; the line of an error goes to stderr."""
    try:
        cli.run([str(argument) for argument in arguments])
    except SystemExit as stopped:
        if not isinstance(stopped.code, str):
            raise
        print(stopped.code, file=sys.stderr)
        return 1
    return 0


def make_folder(place: Path, name: str, splits: dict[str, Sequence[Sequence[str]]], *options: object) -> Path:
    """A binarized folder: rows of one or two sentences and a label behind them."""
    for split, rows in splits.items():
        text = "".join("\t".join(row) + "\n" for row in rows)
        (place / f"{name}-{split}.tsv").write_text(text, encoding="utf-8")
        columns = range(1, len(rows[0]) + 1)
    files = [f"{split}={place / name}-{split}.tsv" for split in splits]
    layout = ["--no-header", "--text-columns", *columns[:-1], "--label-column", columns[-1]]
    assert run([name, "--from-tsv", *files, *layout, "--out", place, *options]) == 0
    return place / f"{name}-bin"


class Commands:
    """Runs in a folder of its own: ``ok`` and ``fails`` give the produced folder and the error line."""

    def __init__(self, tmp_path: Path, capsys):
        self.capsys = capsys
        self.raw = tmp_path / "raw"
        self.out = tmp_path / "out"
        self.vocab = write_vocab(tmp_path / "vocab")
        self.raw.mkdir()

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.raw / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    def run(self, *arguments, vocab: Path | None = None) -> int:
        return run([*arguments, "--out", self.out, "--vocab", vocab or self.vocab])

    def ok(self, *arguments, folder: str | None = None) -> DataFolder:
        assert self.run(*arguments) == 0, self.capsys.readouterr().err
        return DataFolder(self.out / (folder or f"{arguments[0]}-bin"))

    def own(self, name: str, content: str | bytes, *options) -> DataFolder:
        """The folder of one file of one's own, of the kind that its name says: the training split."""
        return self.ok("x", f"--from-{name.split('.')[1]}", f"train={self.write(name, content)}", *options)

    def fails(self, *arguments, **more) -> str:
        """The one line of an error, which leaves nothing behind."""
        assert self.run(*arguments, **more) == 1
        error = self.capsys.readouterr().err
        assert error.startswith("preprocess: ") and error.count("\n") == 1, error
        assert not self.out.exists() or not list(self.out.iterdir())
        return error

    def texts(self, data: DataFolder, split: str, part: str = "input0") -> list[str]:
        rows = data.rows(part, split)
        return load_encoder("gpt2", self.vocab).decode([rows[i][:-1] for i in range(len(rows))])

    def labels(self, data: DataFolder, split: str) -> list[str]:
        return [data.label_names[code] for code in data.classes(split)]


def install_hub(monkeypatch, load_dataset, version="4.0.0"):
    """In the place of the package `datasets`."""
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(__version__=version, load_dataset=load_dataset))


class FakeDataset(list):
    column_names = ["text", "label"]
    _fingerprint = "abc"
