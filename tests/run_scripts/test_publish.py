"""Published records: what a report needs, and nothing of the machine."""

from __future__ import annotations

import json

import pytest

from run_scripts.publish import KEPT, main
from run_scripts.report.__main__ import main as report
from run_scripts.report.record_schema import NEEDED, VALUE_KINDS
from run_scripts.run.records import read_records
from tests.folders import write_folder

from .report import made

PLACE = "/home/somebody/my projects"
LOG = """=== started 2026-01-01 10:00:00 fairseq-train data
2026-01-01 10:00:01 | INFO | valid | {"epoch": 1, "valid_accuracy": "60", "valid_num_updates": "7"}
2026-01-01 10:00:02 | INFO | valid | {"epoch": 2, "valid_accuracy": "nan", "valid_num_updates": "14"}
2026-01-01 10:00:03 | INFO | valid | {"epoch": 3, "valid_accuracy": "62.5", "valid_num_updates": "21"}
=== started 2026-01-01 10:01:00 fairseq-train data
2026-01-01 10:01:03 | INFO | valid | {"epoch": 3, "valid_accuracy": "63", "valid_num_updates": "21"}
=== ended with status 0 after 5.0 s
"""


def runs():
    """As a sweep writes them, with paths wherever there may be one."""
    private = {
        "arch": "roberta_idpg_large",
        "method": "m-idpg-phm",
        "data": f"{PLACE}/CR-bin",
        "backbone": {"path": f"{PLACE}/roberta.large/model.pt", "sha256": "ab" * 32},
        "command": ["fairseq-train", f"{PLACE}/CR-bin", "--arch", "roberta_idpg_large"],
        "given_options": ["--source-prompts", f"{PLACE}/a.pt,b.pt", f"--prompt-init-from={PLACE}/c.pt"],
        "init_prompts_from": f"{PLACE}/d.pt",
        "eval_data": [f"{PLACE}/MR-bin"],
        "predictions": f"{PLACE}/predictions.npz",
        "options": {"task": {"data": PLACE}},
    }
    for seed in (1, 2, 3):
        yield made.run("m-idpg-phm", "CR", seed, test=80.1 + seed / 3, dev=80 + 0.1 * seed, **private)
        yield made.run("adapter", "CR", seed, test=81 + seed / 7, prompt_length=None, **private)
    yield made.failed("adapter", "CR", 4, **{**private, "error": f"{PLACE} is full", "reason": "diverged", "lr": 9.0})


@pytest.fixture
def results(tmp_path):
    return made.write(tmp_path / "results", runs())


def publish(results, out):
    main([str(results), "--out", str(out)])
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def test_nothing_is_private(results, tmp_path):
    found = publish(results, tmp_path / "new" / "out.jsonl")
    assert len(found) == 7 and all(set(run) <= set(KEPT) for run in found)
    text = json.dumps(found)
    assert "somebody" not in text and "/home" not in text and "is full" not in text
    options = ["--source-prompts", "my projects/a.pt,b.pt", "--prompt-init-from=my projects/c.pt"]
    assert found[0]["given_options"] == options
    assert found[0]["backbone"] == {"path": "roberta.large/model.pt", "sha256": "ab" * 32}


WHAT = (["--table", "1", "--tasks", "CR", "--significance", "adapter"], ["--table", "methods"], ["--figure", "1"], [])


@pytest.mark.parametrize("what", WHAT, ids=["table", "methods", "figure", "overview"])
def test_reports_say_the_same_of_records(results, tmp_path, capsys, monkeypatch, what):
    monkeypatch.chdir(tmp_path)
    publish(results, tmp_path / "out.jsonl")
    capsys.readouterr()
    for place in ("results", "out.jsonl"):
        report([place, *what])
    said = capsys.readouterr().out.replace("/home/somebody/", "").replace("my projects is full", "diverged")
    said = said.replace("out.jsonl", "results")
    assert "m-idpg-phm" in said and said[: len(said) // 2] == said[len(said) // 2 :]


def test_learning_rates_stay_as_they_are(tmp_path):
    """Those of a grid of equal ratios have more digits than a score is given."""
    rates = [3.1622776601683795e-05, 1.0000000000000001e-09, 1.4e-09]
    runs = [made.run("adapter", "CR", seed, lr=lr, warm_up=1 / 3) for seed, lr in enumerate(rates)]
    found = publish(made.write(tmp_path / "results", runs), tmp_path / "out.jsonl")
    assert [run["lr"] for run in found] == rates and {run["warm_up"] for run in found} == {1 / 3}


def test_what_reports_need_is_kept():
    unpublished = {"predictions", "command", "options", "error"}
    assert {name for names in NEEDED.values() for name in names} <= set(KEPT)
    assert set(VALUE_KINDS) - unpublished <= set(KEPT)


def test_runs_of_several_folders_stay_and_are_renewed(results, tmp_path):
    out = tmp_path / "out.jsonl"
    first = publish(results, out)
    more = [made.run("adapter", "MR"), {**made.run("adapter", "CR"), "run": first[0]["run"]}]
    found = publish(made.write(tmp_path / "more", more), out)
    assert len(found) == 8 and [run["run"] for run in found[:7]] == [run["run"] for run in first]
    assert found[0]["row"] == "adapter" and read_records(out) == found


def test_a_run_that_has_finished_elsewhere_stays(results, tmp_path):
    out = tmp_path / "out.jsonl"
    first, last = (publish(results, out)[i] for i in (0, -1))
    gone = {**made.failed("m-idpg-phm", "CR"), "run": first["run"]}
    done = {**made.run("adapter", "CR", 4), "run": last["run"]}
    found = publish(made.write(tmp_path / "more", [gone, done]), out)
    assert found[0] == first and found[-1]["status"] == "done" and len(found) == 7


def test_older_records_are_filled_from_logs(tmp_path):
    """The data that lies in its place now may be other data: its fingerprint would be a wrong one."""
    data = write_folder(tmp_path / "CR-bin", pairs=False)
    run = made.run("adapter", "CR", data=str(data))
    results = made.write(tmp_path / "results", [run])
    (results / "runs" / run["run"]).mkdir(parents=True)
    (results / "runs" / run["run"] / "train.log").write_text(LOG)
    (found,) = publish(results, tmp_path / "out.jsonl")
    assert found["dev_curve"] == [[7, 60.0], [21, 63.0]] and found["seconds"] == 8.0
    assert "data_sha256" not in found


def test_the_runs_of_a_sweep_stay_as_they_are(results, tmp_path):
    own, link = results / "results.jsonl", tmp_path / "link.jsonl"
    other = made.write(tmp_path / "other", [made.run("adapter", "MR")]) / "results.jsonl"
    link.symlink_to(own)
    before = [file.read_bytes() for file in (own, other)]
    for source, out in ((results, own), (own, own), (results, link)):
        with pytest.raises(SystemExit, match=f"--out {out} is the file of RESULTS, which it would replace: name ano"):
            publish(source, out)
    with pytest.raises(SystemExit, match=f"--out {other} exists, and a sweep keeps its own runs under that name: name"):
        publish(results, other)
    assert [file.read_bytes() for file in (own, other)] == before and link.is_symlink()


@pytest.mark.parametrize("name", ["out", "out.json"])
def test_the_file_has_its_suffix(results, tmp_path, name):
    with pytest.raises(SystemExit, match="--out .*: name a file that ends with .jsonl"):
        publish(results, tmp_path / name)


@pytest.mark.parametrize("curve", [5, "x", [5], [[1]], [[1, 2, 3]], [[1, float("nan")]], [[-1, 5]], [["1", 5]]])
def test_a_curve_of_another_kind(tmp_path, curve):
    made.write(tmp_path, [made.run("adapter", "CR", dev_curve=curve)])
    with pytest.raises(SystemExit, match="dev_curve .* is no list of updates with scores or null: repeat it or remove"):
        report([str(tmp_path)])
