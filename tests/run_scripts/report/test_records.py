"""Results that are damaged, old, or edited by hand: one line that names the file and the run."""

import re

import pytest

from preprocess.errors import InputError
from run_scripts.report.__main__ import main
from run_scripts.report.records import read_results
from run_scripts.sweep import jobs

from . import made

NAN = float("nan")
PARTS = {name: {"accuracy": 70.0, "f1": 80.0, "acc_and_f1": 75.0} for name in ("dev", "test")}
DAMAGED = [  # would make a wrong number, or none
    *(("dev", value) for value in (NAN, None, 10**400)),
    *(("test", 0.75), ("seed", 1.5), ("lr", 0), ("k", 100)),  # 0.75: not what "scores" says
    *(("task", "CRR"), ("row", "a\nb"), ("selection", "none"), ("metric", "bleu"), ("backbone", {})),
    *(("dev_curve", [[1, NAN]]), ("scores", {"dev": {"f1": 101.0}})),
]


@pytest.mark.parametrize(("key", "value"), DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_value_is_named(tmp_path, key, value):
    record = made.run("adapter", "MRPC", dev=75.0, test=75.0, scores=PARTS)
    assert read_results(made.write(tmp_path / "whole", [record])).runs
    with pytest.raises(InputError, match=rf"results.jsonl.*{record['run']}.*{key}"):
        made.report(tmp_path, [made.run("adapter", "MR"), {**record, key: value}])


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\0\0", b"null\n", b'{"run": 5}\n', b"[" * 100000 + b"\n"])
def test_files_of_something_else(tmp_path, content):
    """A sweep says it too, and leaves the file as it is."""
    path = tmp_path / "results.jsonl"
    path.write_bytes(content)
    for reader in (read_results, lambda folder: jobs.missing({}, folder)):
        with pytest.raises(InputError, match="results.jsonl line 1"):
            reader(tmp_path)
    assert path.read_bytes() == content


def test_a_backbone_trained_for_others_is_of_no_table(tmp_path, capsys):
    """The split that such a run reports has chosen its checkpoint, though its record says clean, as others do."""
    lone = made.run("s-idpg-phm", "MNLI", supplementary=True)
    made.write(tmp_path, [lone, made.run("s-idpg-phm", "MNLI", 2, test=70.0)])
    main([str(tmp_path), "--table", "methods", "--tasks", "MNLI"])
    assert re.search(r"^s-idpg-phm +70\.0 ", capsys.readouterr().out, re.MULTILINE)
    main([str(tmp_path)])  # the overview
    said = capsys.readouterr().out
    assert "2 runs, 2 finished" in said and "1 of supplementary training, which are of no table: s-idpg-phm" in said
