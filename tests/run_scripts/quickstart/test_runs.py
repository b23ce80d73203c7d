"""Training runs of the quick start: logs, resuming, results. No training here."""

from __future__ import annotations

import json
import shlex
import zipfile
from pathlib import Path

import pytest

from preprocess.errors import InputError
from run_scripts.quickstart import __main__ as quickstart
from run_scripts.quickstart import runs as quickstart_runs
from run_scripts.quickstart.files import read_json, write_json
from run_scripts.quickstart.runs import (
    HYPERS,
    Hyper,
    Run,
    Watcher,
    finish_run,
    parse_line,
    prepare,
    read_epochs,
    read_parameter_counts,
    repair_last,
    train_command,
)
from tests.folders import write_backbone

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
        STAMP + "train_inner | " + json.dumps(inner),
        STAMP + 'fairseq_cli.train | begin validation on "valid" subset',
        STAMP + "valid | " + json.dumps(valid),
        STAMP + "train | " + json.dumps(train),
    ]


def test_parse_line():
    assert parse_line("Traceback") == ("", "Traceback", None)
    assert parse_line(STAMP + "fairseq_cli.train | {'_name': None}")[2] is None
    assert parse_line(STAMP + 'test | {"test_accuracy": "81.2"}')[2] == {"test_accuracy": "81.2"}


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
    assert epochs[2]["valid_accuracy"] == 70.5
    assert "epoch 2/2  loss 0.650  valid accuracy 70.5%  1.0 s" in capsys.readouterr().out


def test_epochs_of_an_interrupted_run(tmp_path):
    path = tmp_path / "epochs.jsonl"
    path.write_text('{"epoch": 1, "x": 1}\n{"epoch": 1, "x": 2}\n{"epo')
    assert read_epochs(path) == {1: {"epoch": 1, "x": 2}}
    assert read_epochs(tmp_path / "absent") == {}


def test_read_parameter_counts(tmp_path):
    line = (
        "method m-idpg-phm: 170,642 trainable of 22,736,018 parameters (0.751%): "
        "method 22,032 (0.098% of the backbone), head 148,610, backbone 22,565,376 frozen\n"
    )
    log = tmp_path / "train.log"
    log.write_text("before\n" + STAMP + "fairseq_idpg.models.prepare | " + line + "after\n")
    assert read_parameter_counts(log) == (22032, 22565376)
    log.write_text("nothing\n")
    with pytest.raises(InputError, match="no line"):
        read_parameter_counts(log)


def checkpoint(path, content):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", content)
    return path


def test_cut_short_checkpoint_is_replaced_by_its_source(tmp_path):
    best = checkpoint(tmp_path / "checkpoint_best.pt", "new" * 100)
    last = tmp_path / "checkpoint_last.pt"
    last.write_bytes(best.read_bytes()[:50])
    repair_last(tmp_path)
    assert last.read_bytes() == best.read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_whole_checkpoint_stays_and_hopeless_one_goes(tmp_path):
    checkpoint(tmp_path / "checkpoint_best.pt", "old")
    last = checkpoint(tmp_path / "checkpoint_last.pt", "newer")
    before = last.read_bytes()
    repair_last(tmp_path)
    assert last.read_bytes() == before
    for name in ("checkpoint_best.pt", "checkpoint_last.pt"):
        (tmp_path / name).write_bytes(b"PK cut")
    repair_last(tmp_path)
    assert not last.exists()


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
    best = checkpoint(run.folder / "checkpoint_best.pt", "damaged")
    checkpoint(run.folder / "checkpoint_last.pt", "x")
    (run.folder / "epochs.jsonl").write_text('{"epoch": 2, "train_seconds": 3.0}\n')
    (run.folder / "train.log").write_text("method a: method 5 (1% of the backbone), backbone 100\n")
    called = []

    def run_logged(command, log, on_line):
        called.append(command[0].rsplit("/", 1)[-1])
        on_line(STAMP + 'test | {"test_accuracy": "66.7"}')

    monkeypatch.setattr(quickstart_runs, "run_logged", run_logged)
    with pytest.raises(InputError, match=f"{best} is gone or damaged: remove {run.folder}, "):
        finish_run(run, 64)
    write_backbone(best)
    row = finish_run(run, 64)
    assert called == ["fairseq-validate"]
    size = (run.folder / "checkpoint_best.pt").stat().st_size
    assert row == {
        "method": "head-only",
        "accuracy": 66.7,
        "trainable": 5,
        "backbone_params": 100,
        "seconds_per_epoch": 3.0,
        "checkpoint_bytes": size,
    }
    assert read_json(run.folder / "result.json") == row


def test_train_command(tmp_path):
    command = train_command(make_run(tmp_path, hyper=Hyper(5e-4, 3, ("--clip-norm", "1"))))
    for pair in (("--lr", "0.0005"), ("--max-epoch", "3"), ("--clip-norm", "1")):
        assert command[command.index(pair[0]) + 1] == pair[1]
    assert "--cpu" in command
    assert "--cpu" not in train_command(make_run(tmp_path)._replace(cpu=False))


@pytest.fixture
def exported(tmp_path, monkeypatch):
    """The commands that make folders to share; none is run."""
    found = []

    def run_logged(command, log, on_line):
        found.append(command)
        Path(command[4]).mkdir(exist_ok=True)

    monkeypatch.setattr(quickstart, "run_logged", run_logged)
    return found


def test_the_best_is_shared_once(tmp_path, exported):
    args = quickstart.parse_args(["--out", str(tmp_path)])
    rows = [{**ROW, "method": "fine-tuning", "accuracy": 99.0}, ROW, {**ROW, "method": "head-only", "accuracy": 80.0}]
    for _ in range(2):
        assert quickstart.share_best(args, rows) == tmp_path / "share"
    run = tmp_path / "runs" / "m-idpg-phm"
    assert len(exported) == 1 and exported[0][3:] == [
        str(run / "checkpoint_best.pt"),
        str(tmp_path / "share"),
        "--overwrite",
    ]
    assert read_json(run / "record.json")["scores"] == {"test": {"accuracy": 81.25}}
    quickstart.share_best(args, [{**ROW, "accuracy": 90.0}])
    assert len(exported) == 2
    assert quickstart.share_best(args, rows[:1]) is None


def test_the_two_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    python, shell = quickstart.commands(tmp_path / "my share")
    assert (
        shlex.split(python)[2] == 'from fairseq_idpg import load; print(load("my share").predict(["a gorgeous film"]))'
    )
    assert shell == "echo a gorgeous film | python -m fairseq_idpg.predict --path 'my share' --text -"


def test_table():
    table = quickstart.format_table([ROW, {**ROW, "method": "head-only", "trainable": 0}])
    header, rule, first, second = table.split("\n")
    assert header.split("  ")[0].strip() == "method"
    assert first.split() == ["m-idpg-phm", "81.2%", "22,032", "0.10%", "12.3", "2.1", "MB"]
    assert second.split()[:4] == ["head-only", "81.2%", "0", "0.00%"]
    assert len({len(line) for line in (header, rule, first, second)}) == 1


def test_results_fields():
    lines = quickstart.results_text([dict(reversed(list(ROW.items())))]).splitlines()
    assert len(lines) == 1
    assert list(json.loads(lines[0]).items()) == list(ROW.items())


def test_arguments(tmp_path, monkeypatch):
    args = quickstart.parse_args([])
    assert args.methods == list(HYPERS)
    monkeypatch.chdir(tmp_path)
    args = quickstart.parse_args(["--out", "x", "--methods", "a", "a", "b", "--max-epoch", "1"])
    assert (args.out, args.methods, args.max_epoch) == ((tmp_path / "x").resolve(), ["a", "b"], 1)


@pytest.mark.parametrize(
    "wrong",
    [["--train-examples", "0"], ["--methods", "../x"], ["--seed", "one"], ["--lr", "0"], ["--lr", "nan"]],
)
def test_wrong_arguments_are_named(wrong, capsys):
    with pytest.raises(SystemExit):
        quickstart.parse_args(wrong)
    error = capsys.readouterr().err.splitlines()[-1]
    assert wrong[0] in error and wrong[1] in error


def test_failure_is_one_line(tmp_path, monkeypatch, capsys):
    def fail(args):
        raise InputError("--x 3: too large")

    monkeypatch.setattr(quickstart, "run", fail)
    with pytest.raises(SystemExit, match="^quickstart: error: --x 3: too large$"):
        quickstart.main(["--out", str(tmp_path)])


def test_interruption_is_one_line(tmp_path, monkeypatch, capsys):
    def stop(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(quickstart, "run", stop)
    assert quickstart.main(["--out", str(tmp_path)]) == 130
    assert "interrupted" in capsys.readouterr().err
