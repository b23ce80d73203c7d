"""The task refuses a damaged folder by one line that names the file, or reads the same from it."""

from __future__ import annotations

import random
import shutil

import pytest

from fairseq_idpg.errors import InputError
from preprocess.checksums import write_checksums
from tests.folders import write_folder, write_questions
from tests.preprocess.test_validation import damage
from tests.tasks.test_dataset import make_task

KINDS = {"pairs": {}, "scores": {"regression": True, "pairs": False}}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    root = tmp_path_factory.mktemp("sources")
    splits = {"train": 9, "valid": 5}
    made = {kind: write_folder(root / kind, splits=splits, **options) for kind, options in KINDS.items()}
    for folder in made.values():
        write_checksums(folder)
    return made


def read(folder, kind):
    """The batch of all examples of each split, as lists."""
    task = make_task(folder, regression_target=kind == "scores", num_classes=1 if kind == "scores" else 2)
    found = []
    for split in ("train", "valid"):
        dataset = task.load_dataset(split, combine=split == "train")
        batch = dataset.collater([dataset[i] for i in range(len(dataset))])
        found.append([batch["net_input"]["prompted_tokens"].tolist(), batch["target"].tolist()])
    return found


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("recorded", [True, False])
def test_damaged_folders(sources, tmp_path, kind, recorded):
    expected, verdicts = read(sources[kind], kind), []
    for seed in range(100):
        draw = random.Random(f"{kind} {seed}")
        broken = shutil.copytree(sources[kind], tmp_path / str(seed))
        if not recorded:
            (broken / "sha256.txt").unlink()
        files = sorted(file for file in broken.rglob("*") if file.is_file())
        done = damage(draw, draw.choice(files), files)
        try:
            verdicts.append("identical" if read(broken, kind) == expected else "changed")
        except InputError as error:
            assert str(broken) in str(error) and "\n" not in str(error), str(error)
            verdicts.append("error")
        assert verdicts[-1] != "changed" or not recorded, (seed, done)
    assert verdicts.count("error") > 40


def test_shards_are_checked_too(tmp_path):
    """fairseq reads train, train1, ... as one training set."""
    folder = write_folder(tmp_path, pairs=False)
    for part in ("input0", "label"):
        for suffix in ("bin", "idx"):
            shutil.copy(folder / part / f"valid.{suffix}", folder / part / f"train1.{suffix}")
    path = folder / "input0" / "train1.bin"
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    assert len(make_task(folder).load_dataset("train")) == 24
    with pytest.raises(InputError, match="input0/train1.bin example 1 has the id"):
        make_task(folder).load_dataset("train", combine=True)


def test_shards_have_no_scores(tmp_path):
    """fairseq reads the file of train alone, so that to make the same folder again would not help."""
    splits = {"train": 6, "train1": 2, "valid": 6}
    folder = write_folder(tmp_path / "d", splits=splits, regression=True)
    task = make_task(folder, regression_target=True, num_classes=1)
    with pytest.raises(InputError, match="train.label has 6 labels for 8 .* not of train1: .* as train$"):
        task.load_dataset("train", combine=True)


def test_questions_are_of_one_split(tmp_path):
    folder = write_folder(tmp_path / "d", splits={"train": 6, "valid": 6, "valid1": 4})
    make_task(folder).load_dataset("valid", combine=True)
    write_questions(folder, "valid", [0, 0, 1, 1, 2, 2])
    make_task(folder).load_dataset("valid")
    with pytest.raises(
        InputError, match="--combine-valid-subsets: .*question/valid.tsv has the questions of valid alo"
    ):
        make_task(folder).load_dataset("valid", combine=True)
