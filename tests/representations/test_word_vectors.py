"""--representation glove: rows of DATA/glove in the batch, and what is refused."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fairseq_idpg.errors import InputError
from fairseq_idpg.representations.kinds import GLOVE
from fairseq_idpg.representations.stored import load_vectors, stored_representations, vectors_width
from preprocess.data_folder import DataFolder, token_digests
from preprocess.glove import write_facts
from tests.folders import write_folder
from tests.tasks.test_dataset import make_task

WIDTH = 12


def write_vectors(folder: Path, width: int = WIDTH) -> dict[str, np.ndarray]:
    """As python -m preprocess glove leaves them."""
    data = DataFolder(folder)
    draw = np.random.RandomState(0)
    rows = {split: draw.randn(len(data.rows("input0", split)), width).astype(np.float32) for split in data.splits}
    (folder / "glove").mkdir(exist_ok=True)
    for split, vectors in rows.items():
        np.save(folder / "glove" / f"{split}.npy", vectors)
    digests = {name: digest for split in data.splits for name, digest in token_digests(data, split).items()}
    write_facts(folder / "glove", {"dim": width, "sha256": digests})
    return rows


def reads_word_vectors(width: int) -> SimpleNamespace:
    """What is asked of a model with --representation glove."""
    method, args = SimpleNamespace(representation=GLOVE), SimpleNamespace(representation_width=width)
    return SimpleNamespace(method=method, args=args)


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "data")


def test_every_example_brings_its_row(folder):
    rows = write_vectors(folder)
    task = make_task(folder, swap_pairs="append")
    task.stored = stored_representations(task.cfg, reads_word_vectors(WIDTH))
    dataset = task.load_dataset("train")
    order = [3, 0, 24 + 3, 47]  # exchanged pairs have the row of their pair
    batch = dataset.collater([dataset[i] for i in order])["net_input"]["representation"]
    assert torch.equal(batch, torch.from_numpy(rows["train"][[3, 0, 3, 23]]))
    plain = make_task(folder).load_dataset("valid")
    assert "representation" not in plain.collater([plain[0]])["net_input"]


def test_shards_bring_their_rows(tmp_path):
    """fairseq reads train, train1, ... as one training set: its examples are numbered through."""
    folder = write_folder(tmp_path / "data", splits={"train": 24, "train1": 13, "valid": 13})
    rows = write_vectors(folder)
    task = make_task(folder)
    task.stored = stored_representations(task.cfg, reads_word_vectors(WIDTH))
    dataset = task.load_dataset("train", combine=True)
    batch = dataset.collater([dataset[i] for i in (24, 3, 36)])["net_input"]["representation"]
    assert torch.equal(batch, torch.from_numpy(np.stack([rows["train1"][0], rows["train"][3], rows["train1"][12]])))
    assert len(load_vectors(str(folder), "train", WIDTH).vectors) == 24
    (folder / "glove" / "train1.npy").unlink()
    with pytest.raises(InputError, match="train1.npy"):
        load_vectors(str(folder), "train", WIDTH, combine=True)


def test_width_is_the_folders(folder):
    with pytest.raises(InputError, match="glove.json .*python -m preprocess glove"):
        vectors_width(str(folder), 0)
    write_vectors(folder)
    assert vectors_width(str(folder), None) == WIDTH
    with pytest.raises(InputError, match="glove/valid.npy .* --representation-width"):
        load_vectors(str(folder), "valid", vectors_width(str(folder), 300))


@pytest.mark.parametrize("file", ["glove/valid.npy", "glove/glove.json", "input0/valid.bin"])
def test_files_that_are_damaged_or_do_not_fit(folder, file):
    write_vectors(folder)
    assert load_vectors(str(folder), "valid", WIDTH).vectors.shape == (13, WIDTH)
    content = (folder / file).read_bytes()
    (folder / file).write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
    with pytest.raises(InputError, match=file.replace("input0/valid.bin", "valid.npy")):
        load_vectors(str(folder), "valid", WIDTH)
