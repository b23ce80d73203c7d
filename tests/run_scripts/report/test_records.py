"""Results that are damaged, old, or edited by hand: one line that names the file and the run."""

from __future__ import annotations

import json
import re

import pytest

from preprocess.errors import InputError
from run_scripts.publish import main as publish
from run_scripts.report.__main__ import main
from run_scripts.report.records import read_results
from run_scripts.sweep import __main__ as sweep

from . import made

NAN = float("nan")
PARTS = {name: {"accuracy": 70.0, "f1": 80.0, "acc_and_f1": 75.0} for name in ("dev", "test")}
DAMAGED = [  # would make a wrong number, or none
    *(("dev", value) for value in ("abc", NAN, None, True, 10**400)),
    *(("test", 0.75), ("seed", 1.5), ("lr", 0), ("status", None), ("k", 100)),  # 0.75: not what "scores" says
    *(("task", ["MRPC"]), ("task", "CRR"), ("row", "a\nb"), ("setting", "half"), ("selection", "none")),
    *(("metric", "bleu"), ("position", "0"), ("trainable", "many"), ("backbone", {}), ("seconds_per_update", "1")),
    *(("dev_curve", [[1]]), ("dev_curve", [[1, NAN]])),
    *(("scores", {"dev": {"f1": 101.0}}), ("transfer", {"QQP": {"metric": "accuracy", "scores": {}, "test": 1}})),
]


@pytest.mark.parametrize(("key", "value"), DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_value_is_named(tmp_path, key, value):
    record = made.run("adapter", "MRPC", dev=75.0, test=75.0, scores=PARTS)
    assert read_results(made.write(tmp_path / "whole", [record])).runs
    with pytest.raises(InputError, match=rf"results.jsonl.*{record['run']}.*{key}"):
        made.report(tmp_path, [made.run("adapter", "MR"), {**record, key: value}])
    if key in ("row", "task", "seed", "lr", "selection", "setting"):
        gone = {name: value for name, value in made.failed("adapter", "CR", 2).items() if name != key}
        with pytest.raises(InputError, match=key):  # a failed run knows what it was
            made.report(tmp_path, [made.run("adapter", "CR"), gone])


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\0\0", b"null\n", b'{"run": 5}\n', b"[" * 100000 + b"\n"])
def test_files_of_something_else(tmp_path, content):
    """A sweep says it too, and leaves the file as it is."""
    path = tmp_path / "results.jsonl"
    path.write_bytes(content)
    for reader in (read_results, lambda folder: sweep.missing({}, folder)):
        with pytest.raises(InputError, match="results.jsonl line 1"):
            reader(tmp_path)
    assert path.read_bytes() == content


def test_a_failed_run_may_know_the_path_of_its_backbone_alone(tmp_path):
    gone = made.failed("a", "CR", 2, backbone="/models/x.pt", position=None)
    found = made.report(tmp_path, [made.run("a", "CR"), gone], "--table 1 --backbone ab12")
    assert "failed runs, left out: 1 (a on CR 1)" in found.notes[-1]


def test_a_backbone_trained_for_others_is_of_no_table(tmp_path, capsys):
    """The split that such a run reports has chosen its checkpoint, though its record says clean, as others do."""
    lone = made.run("s-idpg-phm", "MNLI", supplementary=True)
    made.write(tmp_path, [lone])
    with pytest.raises(SystemExit, match="no finished full run"):
        main([str(tmp_path), "--table", "methods", "--tasks", "MNLI"])
    made.write(tmp_path, [made.run("s-idpg-phm", "MNLI", 2, test=70.0), made.run("s-idpg-phm", "CR", 2)])
    main([str(tmp_path), "--table", "methods", "--tasks", "MNLI"])
    assert re.search(r"^s-idpg-phm +70\.0 ", capsys.readouterr().out, re.MULTILINE)
    main([str(tmp_path)])
    assert "1 of supplementary training, which are of no table: s-idpg-phm" in capsys.readouterr().out
    publish([str(tmp_path), "--out", str(tmp_path / "out.jsonl")])
    assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[-1])["run"] == lone["run"]
