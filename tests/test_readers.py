"""Damaged files: every reader gives the answer of the undamaged file or raises InputError; nothing else, and soon.

Where a format has no checksum, other bytes may be other data: there any answer counts that the reader takes for valid.
Many more, by hand: ``FUZZ_EXAMPLES=5000 python -m pytest tests/test_readers.py -k checkpoint --hypothesis-seed=1``
"""

import argparse
import atexit
import contextlib
import copy
import functools
import gzip
import io
import json
import os
import resource
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
from fairseq import tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from checkpoints.convert_hf import convert as convert_hf
from checkpoints.convert_released import convert as convert_released
from fairseq_idpg import load
from fairseq_idpg.errors import InputError
from fairseq_idpg.export import export
from fairseq_idpg.inference.folder import load_on_folder, predict_split
from fairseq_idpg.representations.cache import RepresentationCache
from fairseq_idpg.representations.states import StateCache
from fairseq_idpg.representations.stored import load_vectors, vectors_width
from fairseq_idpg.saving import backbone_file
from fairseq_idpg.saving.backbone_file import read_backbone
from fairseq_idpg.saving.reading import load_state
from fairseq_idpg.saving.tensors import FINGERPRINT, with_progress_checksums
from fairseq_idpg.tasks.folder import preprocess_facts
from preprocess import cli
from preprocess.checksums import content_digest
from preprocess.data_folder import DataFolder, check_split
from preprocess.encoders import load_encoder
from preprocess.glove import read_vectors
from tests.checkpoints.hf_folders import build as write_hugging_face
from tests.checkpoints.test_convert_released import write_released
from tests.folders import training_arguments
from tests.helpers import ends_soon
from tests.inference.conftest import REGRESSION, WORDS, make_folder, texts, vocab_and_backbone
from tests.inference.saved import write_checkpoint
from tests.representations import test_cache as caches
from tests.run_scripts.tiny import World
from tests.saving.test_old_checkpoints import BACKBONE, CHECKPOINT, DATA

FUZZ = os.environ.get("FUZZ_EXAMPLES")
MEMORY = 2 << 30  # bytes that a reader may take: a damaged length must not fill the machine
ROW = ("sentence1", "sentence2", "label")


@functools.cache
def home() -> Path:
    made = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, made)
    return made


@functools.cache
def world() -> Path:
    """Undamaged files: a folder for each of READERS, and what these files refer to."""
    place = vocab_and_backbone(home())
    for name in READERS:
        (place / name).mkdir(exist_ok=True)
    for kind in ("pairs", "scores"):
        shutil.copytree(make_folder(place, kind), place / kind, dirs_exist_ok=True)
    checkpoint, backbone = place / "checkpoint" / "run.pt", place / "backbone" / "model.pt"
    method = ["--method", "m-idpg-phm", "--prompt-length", 3]
    state = torch.load(write_checkpoint(checkpoint, place / "pairs-bin", backbone, *method, without=""))
    for name in ("checkpoint", "resumed checkpoint", "legacy checkpoint"):
        zipped = not name.startswith("legacy")
        torch.save(with_progress_checksums(state), place / name / "run.pt", _use_new_zipfile_serialization=zipped)
    export(str(checkpoint), str(place / "exported" / "folder"))
    tiny = World(place / "tiny")
    shutil.copy(tiny.backbone, place / "new backbone")
    write_released(place / "released" / "model.pt", tiny.backbone)
    shutil.copy(CHECKPOINT, place / "old checkpoint" / "old.pt")
    shutil.copytree(tiny.data / "RTE-bin", place / "plain folder", dirs_exist_ok=True)
    for name, fill in (("representations", representations), ("states", states), ("note", note)):
        fill(place / name)
    shutil.copytree(place / "vocab", place / "vocabulary", dirs_exist_ok=True)
    write_hugging_face(place / "Hugging Face", "bert", weights="bin")
    write_vectors(place)
    write_texts(place)
    return place


def write_vectors(place: Path) -> None:
    """Word vectors in each format, and their means beside a data folder."""
    lines = "".join(f"{word} {len(word)} 0.5 -1e-3\n" for word in WORDS).encode()
    (place / "vectors" / "v.txt").write_bytes(lines)
    (place / "vectors gz" / "v.gz").write_bytes(gzip.compress(lines))
    with zipfile.ZipFile(place / "vectors zip" / "v.zip", "w") as archive:
        archive.writestr("v.txt", lines)
    np.save(place / "vectors npy" / "v.npy", np.arange(24.0).reshape(8, 3))
    pyarrow.parquet.write_table(pyarrow.table({"word": WORDS}), place / "vectors npy" / "v.parquet")
    shutil.copytree(place / "pairs-bin", place / "means", dirs_exist_ok=True)
    cli.run(["glove", "--vectors", f"{place}/vectors/v.txt", "--data", f"{place}/means", "--vocab", f"{place}/vocab"])


def write_texts(place: Path) -> None:
    pairs = [(*pair, ("entailment", "not_entailment")[i % 2]) for i, pair in enumerate(texts(12, 2, 0))]
    glue = "".join("\t".join([str(i), *row]) + "\n" for i, row in enumerate(pairs))
    (place / "GLUE" / "RTE").mkdir()
    for name in ("train", "dev"):
        (place / "GLUE" / "RTE" / f"{name}.tsv").write_text("index\tsentence1\tsentence2\tlabel\n" + glue)
    (place / "tsv" / "t").write_text("".join("\t".join(row) + "\n" for row in [ROW, *pairs]))
    (place / "csv" / "t").write_text("".join('"{}","{}",{}\n'.format(*row) for row in [ROW, *pairs]))
    (place / "jsonl" / "t.jsonl").write_text("".join(json.dumps(dict(zip(ROW, row))) + "\n" for row in pairs))
    (place / "tsv gz" / "t.gz").write_bytes(gzip.compress((place / "tsv" / "t").read_bytes()))
    with zipfile.ZipFile(place / "GLUE zip" / "RTE.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in (place / "GLUE" / "RTE").iterdir():
            archive.write(file, f"RTE/{file.name}")


def predict(checkpoint: Path, **where: Path) -> Any:
    return load(checkpoint, device="cpu", **where).predict(texts(5, 2, 0))


def predict_split_of_old(folder: Path) -> Any:
    found = load_on_folder(str(folder / "old.pt"), str(DATA), cpu=True, backbone=str(BACKBONE))
    return predict_split(*found, "valid").lines_by_row([])


def resume(folder: Path) -> Any:
    state = load_state(str(folder / "run.pt"), "--restore-file", builds=False)
    return state["extra_state"], state["optimizer_history"]


@functools.cache
def parsed(*more: object) -> Any:
    return convert_namespace_to_omegaconf(training_arguments(*more))


def begin(folder: Path) -> Any:
    """The backbone that a training begins with."""
    cfg = copy.deepcopy(parsed())
    cfg.task.data, cfg.model.backbone = str(home() / "tiny" / "data" / "RTE-bin"), str(folder / "model.pt")
    return tasks.setup_task(cfg.task).build_model(cfg.model).state_dict()[FINGERPRINT]


def examples(folder: Path, *more: object) -> Any:
    """All that a training reads of a data folder."""
    cfg = copy.deepcopy(parsed(*more))
    cfg.task.data = str(folder)
    task = tasks.setup_task(cfg.task)
    read = [list(task.load_dataset(split)) for split in ("train", "valid")]
    return task.source_dictionary.symbols, preprocess_facts(str(folder)), read


def representations(folder: Path) -> Any:
    cache = RepresentationCache(str(folder), caches.key())
    cache.fill(caches.encode, caches.batches())
    return cache.rows(caches.EVERYTHING)


def states(folder: Path) -> Any:
    lengths = np.array([3, 4, 16])
    cache = StateCache(str(folder), caches.key(kind="states"), lengths, 1, False)
    cache.fill(lambda index: caches.TRUE, iter([np.arange(3)]))
    return cache.batch(np.arange(3), 16)


def note(folder: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(backbone_file.VARIABLE, str(folder))
        patch.setattr(backbone_file, "SETTLED", 0)
        return read_backbone(str(home() / "backbone" / "model.pt")).fingerprint()


def preprocess(*arguments: object) -> Any:
    """What is made of raw text, checked; after an error, nothing is there."""
    with tempfile.TemporaryDirectory() as out:
        try:
            data = DataFolder(cli.main([*map(str, arguments), "--vocab", f"{home()}/vocab", "--out", out]))
        except InputError:
            assert not os.listdir(out)
            raise
        return [check_split(data, split) for split in data.splits], content_digest(data.path)


def own_data(kind: str, file: Path) -> Any:
    return preprocess("x", f"--from-{kind}", f"train={file}", "--text-columns", *ROW[:2], "--label-column", ROW[2])


def convert(folder: Path) -> Any:
    with tempfile.TemporaryDirectory() as out:
        return convert_hf(folder, Path(out, "made"))["model"]


SAFE = {  # damage of any kind is found, or does not matter
    "checkpoint": lambda folder: predict(folder / "run.pt"),
    "resumed checkpoint": resume,
    "exported": lambda folder: predict(folder / "folder"),
    "backbone": lambda folder: predict(home() / "checkpoint" / "run.pt", backbone=folder / "model.pt"),
    "pairs": examples,
    "scores": lambda folder: examples(folder, *REGRESSION),
    "means": lambda folder: load_vectors(str(folder), "valid", vectors_width(str(folder), None)).vectors.tolist(),
    "representations": representations,
    "states": states,
    "note": note,
}
CHECKED = {  # damaged bytes are found; other values come with another checksum
    "old checkpoint": predict_split_of_old,
    "new backbone": begin,
    "vectors gz": lambda folder: read_vectors(folder / "v.gz", WORDS),
    "vectors zip": lambda folder: read_vectors(folder / "v.zip", WORDS),
    "tsv gz": lambda folder: own_data("tsv", folder / "t.gz"),
    "GLUE zip": lambda folder: preprocess("RTE", "--raw", folder),
}
READERS = {
    **SAFE,
    **CHECKED,
    "legacy checkpoint": lambda folder: predict(folder / "run.pt"),
    "released": lambda folder: convert_released(folder / "model.pt"),
    "Hugging Face": convert,
    "plain folder": examples,
    "vectors": lambda folder: read_vectors(folder / "v.txt", WORDS),
    "vectors npy": lambda folder: read_vectors(folder, WORDS),
    "tsv": lambda folder: own_data("tsv", folder / "t"),
    "csv": lambda folder: own_data("csv", folder / "t"),
    "jsonl": lambda folder: own_data("jsonl", folder / "t.jsonl"),
    "GLUE": lambda folder: preprocess("RTE", "--raw", folder),
    "vocabulary": lambda folder: load_encoder("gpt2", folder).encode(["red cat", "\xe9\0"]),
}
CODE = "open('ran', 'w')"
STRANGE = (None, "text", "", -1, 2**70, 1e300, float("nan"), [], [[]], {}, {"a": 1}, ["a"], True, CODE, f"[{CODE}]")
PIECES = st.sampled_from([b"\0", b"\xff", b"\t", b"\n", b"\r", b'"', b"\xef\xbb\xbf", b"9"]) | st.binary(min_size=1)
BYTES = {
    "flipped": lambda data, at, size, piece: data[:at] + bytes([data[at] ^ 1 << size % 8]) + data[at + 1 :],
    "cut": lambda data, at, size, piece: data[:at],
    "inserted": lambda data, at, size, piece: data[:at] + piece + data[at:],
    "repeated": lambda data, at, size, piece: data[: at + size] + data[at:],
    "removed": lambda data, at, size, piece: data[:at] + data[at + size :],
    "zeroed": lambda data, at, size, piece: data[:at] + bytes(len(data[at : at + size])) + data[at + size :],
}


def replaced(path: Path, at: int, value: Any) -> bool:
    """Replace one value in a file whose format has some, or return False."""
    kind, data = ".pt" if path.name == "pytorch_model.bin" else path.suffix, path.read_bytes()
    if kind == ".pt":
        tree = [torch.load(path, weights_only=False)]
    elif kind in (".json", ".jsonl"):
        tree = list(map(json.loads, data.splitlines() if kind == ".jsonl" else [data]))
    else:
        return False
    places = list(values(tree))
    parent, key = places[at % len(places)]
    parent[key] = value
    if kind == ".pt":
        torch.save(tree[0], path, _use_new_zipfile_serialization=data.startswith(b"PK"))
    else:
        path.write_text("\n".join(map(json.dumps, tree)))
    return True


def values(tree: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
        yield tree, key
        inner = vars(value) if isinstance(value, argparse.Namespace) else value
        if isinstance(inner, (dict, list)):
            yield from values(inner)


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """What is within prints nothing, ends soon and takes no more than ``MEMORY``."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, limits[1]))
    try:
        with ends_soon(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def answer(reader: str, folder: Path) -> str:
    torch.manual_seed(0)
    with bounded():
        return repr(READERS[reader](folder))


@functools.cache
def expected(reader: str) -> str:
    with tempfile.TemporaryDirectory() as place:
        return answer(reader, Path(shutil.copytree(world() / reader, Path(place, reader))))


@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=int(FUZZ or 25), derandomize=not FUZZ, deadline=None)
@given(
    file=st.integers(0, 99),
    how=st.sampled_from([*BYTES, "value"]),
    at=st.integers(-400, 400) | st.integers(0, 1 << 20),
    size=st.integers(1, 64),
    piece=PIECES,
    value=st.sampled_from(STRANGE),
)
@example(file=0, how="flipped", at=-30, size=1, piece=b"", value=None)  # a digit in a note of a backbone
@example(file=2, how="inserted", at=0, size=1, piece=b"\x80", value=None)  # a vocabulary that is not UTF-8
def test_damage(reader, file, how, at, size, piece, value):
    whole = expected(reader)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(shutil.copytree(world() / reader, Path(place, reader)))
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
        path = files[file % len(files)]
        if how != "value" or not replaced(path, at, value):
            data, how = path.read_bytes(), "flipped" if how == "value" else how
            path.write_bytes(BYTES[how](data, at % len(data), size, piece))
        before = {*folder.rglob("*")}
        try:
            found = answer(reader, folder)
        except InputError as error:
            assert any(name in str(error) for name in ("--", path.name, path.parent.name))
            assert all(path.suffix == ".lock" for path in {*folder.rglob("*")} - before)
        else:
            assert found == whole or reader not in SAFE and (how == "value" or reader not in CHECKED)
    assert not os.path.exists("ran")
