"""The quick start without its downloads and trainings: reviews, steps, one run."""

from __future__ import annotations

import io
import tarfile

import pytest

from preprocess.errors import InputError
from run_scripts.quickstart import __main__ as quickstart
from run_scripts.quickstart import data
from run_scripts.quickstart import runs as quickstart_runs
from run_scripts.quickstart.data import Example
from run_scripts.quickstart.runs import (
    Hyper,
    Run,
    finish_run,
    is_done,
    prepare,
    read_json,
    record_of,
    run_step,
    write_json,
)
from run_scripts.run.records import held
from tests.folders import write_backbone

# --- reviews ---------------------------------------------------------------------------------------------------------

REVIEWS = [
    (2.5, "A gorgeous film."),
    (-3.0, "A dull, dull film."),
    (0.2, "It is a film."),
    (3.0, "It is a gorgeous film" + ", gorgeous" * data.MAX_WORDS),
    (2.0, "A gorgeous film."),
    (-1.0, "Not a good film!"),
    (1.0, "Good fun,  [SEP] really"),
]
LABELLED = [(1, "A gorgeous film."), (0, "A dull, dull film."), (0, "Not a good film!"), (1, "Good fun, [SEP] really")]
SIZES = {"train": 50, "valid": 10, "test": 20}
EXAMPLES = [Example(i % 2, f"sentence {i}") for i in range(100)]


def pack(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def test_reviews_out_of_nested_archives(tmp_path):
    """The sign of clear ratings; neutral and repeated sentences are dropped, spaces joined."""
    text = "".join(f"{i}\t{rating}\t{text}\r\n" for i, (rating, text) in enumerate(REVIEWS, start=1))
    archive = tmp_path / data.REVIEWS_ARCHIVE
    archive.write_bytes(pack({data.REVIEWS_TAR: pack({data.REVIEWS_FILE: text.encode()})}))
    for name in ("a", "b"):
        data.make_splits(archive, tmp_path / name, {"train": 2, "valid": 1, "test": 1}, seed=1)
    lines = [line for split in data.SPLITS for line in (tmp_path / "a" / f"{split}.tsv").read_text().splitlines()]
    assert sorted(lines) == sorted(f"{label}\t{text}" for label, text in LABELLED)
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()
    assert "Hutto & Gilbert" in (tmp_path / "a" / "SOURCE.txt").read_text()
    with pytest.raises(InputError, match="sha256"):
        data.check_archive(archive, "0" * 64)


def test_splits():
    """Disjoint and sized; those of test and valid stay when training grows."""
    splits = data.split_examples(EXAMPLES, SIZES, seed=1)
    assert {name: len(split) for name, split in splits.items()} == SIZES
    assert len({example.text for split in splits.values() for example in split}) == sum(SIZES.values())
    assert splits == data.split_examples(EXAMPLES, SIZES, 1) != data.split_examples(EXAMPLES, SIZES, 2)
    large = data.split_examples(EXAMPLES, {**SIZES, "train": 70}, 1)
    assert (splits["test"], splits["valid"]) == (large["test"], large["valid"])
    assert large["train"][:50] == splits["train"]


# --- steps and children ----------------------------------------------------------------------------------------------


def test_step_runs_again_only_for_other_settings(tmp_path):
    product, built = tmp_path / "product", []

    def build():
        built.append(1)
        product.write_text("made")

    for settings, expected in (({"n": 1}, 1), ({"n": 1}, 1), ({"n": 2}, 2), ({"n": 2}, 2)):
        run_step("step", product, settings, build)
        assert len(built) == expected
    product.unlink()
    run_step("step", product, {"n": 2}, build)
    assert len(built) == 3


def test_interrupted_step_is_not_done(tmp_path):
    product = tmp_path / "product"

    def build():
        product.write_text("half")
        raise KeyboardInterrupt

    write_json(record_of(product), {"n": 1})
    product.write_text("whole")
    assert is_done(product, {"n": 1})
    with pytest.raises(KeyboardInterrupt):
        run_step("step", product, {"n": 2}, build)
    assert not is_done(product, {"n": 1}) and not is_done(product, {"n": 2})


def test_one_quick_start_per_folder(tmp_path):
    with held(tmp_path / "out"), pytest.raises(SystemExit, match=f"{tmp_path / 'out'}"):
        quickstart.main(["--out", str(tmp_path / "out")])


# --- one run ---------------------------------------------------------------------------------------------------------

STAMP = "2026-01-01 00:00:00 | INFO | "


def make_run(out, **changes) -> Run:
    fields = {"method": "head-only", "hyper": Hyper(1e-3, 2), "seed": 1, "data": {"n": 1}}
    return Run(out=out, cpu=True, **{**fields, **changes})


@pytest.mark.parametrize("changes", [{"hyper": Hyper(1e-4, 2)}, {"hyper": Hyper(1e-3, 3)}, {"seed": 2}, {"data": {}}])
def test_other_settings_start_afresh(tmp_path, changes):
    run = make_run(tmp_path)
    prepare(run)
    (run.folder / "epochs.jsonl").write_text("kept")
    prepare(run)
    assert (run.folder / "epochs.jsonl").exists()
    prepare(make_run(tmp_path, **changes))
    assert not (run.folder / "epochs.jsonl").exists()


def test_finished_training_is_only_tested(tmp_path, monkeypatch):
    run = make_run(tmp_path)
    prepare(run)
    best = write_backbone(run.folder / "checkpoint_best.pt")
    write_backbone(run.folder / "checkpoint_last.pt")
    (run.folder / "epochs.jsonl").write_text('{"epoch": 1, "trai\n{"epoch": 2, "train_seconds": 3.0}\n')  # torn
    counts = "method m-idpg-phm: 170,642 trainable of 22,736,018 parameters (0.751%): method 22,032 (0.098% of the "
    counts += "backbone), head 148,610, backbone 22,565,376 frozen\n"
    (run.folder / "train.log").write_text(f"before\n{STAMP}fairseq_idpg.models.prepare | {counts}after\n")
    called = []

    def run_logged(command, log, on_line):
        called.append(command[0].rsplit("/", 1)[-1])
        on_line(STAMP + 'test | {"test_accuracy": "66.7"}')

    monkeypatch.setattr(quickstart_runs, "run_logged", run_logged)
    row = finish_run(run, 64)
    assert called == ["fairseq-validate"]
    facts = {"trainable": 22032, "backbone_params": 22565376, "seconds_per_epoch": 3.0}
    assert row == {"method": "head-only", "accuracy": 66.7, **facts, "checkpoint_bytes": best.stat().st_size}
    assert read_json(run.folder / "result.json") == row
