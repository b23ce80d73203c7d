"""Published records: what a report needs, and nothing of the machine."""

import json

import numpy as np
import pytest

from run_scripts.publish import KEPT, main
from run_scripts.report.__main__ import main as report
from run_scripts.run.records import read_records, unpacked_classes

from .report import made

PLACE = "/home/somebody/my projects"
RATE = 3.1622776601683795e-05  # of a grid of equal ratios: more digits than a score is given


def runs():
    """As a sweep writes them, with paths wherever there may be one."""
    files = {"data": "CR-bin", "init_prompts_from": "d.pt", "predictions": "predictions.npz"}
    private = {name: f"{PLACE}/{file}" for name, file in files.items()}
    private |= {"arch": "roberta_idpg_large", "method": "m-idpg-phm", "command": ["fairseq-train", f"{PLACE}/CR-bin"]}
    private |= {"backbone": {"path": f"{PLACE}/roberta.large/model.pt", "sha256": "ab" * 32}}
    private |= {"given_options": ["--source-prompts", f"{PLACE}/a.pt,b.pt", f"--prompt-init-from={PLACE}/c.pt"]}
    private |= {"eval_data": [f"{PLACE}/MR-bin"], "options": {"task": {"data": PLACE}}}
    for seed in (1, 2, 3):
        yield made.run("m-idpg-phm", "CR", seed, test=80.1 + seed / 3, **private)
        yield made.run("adapter", "CR", seed, test=81 + seed / 7, lr=RATE, prompt_length=None, **private)
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
    assert found[1]["lr"] == RATE
    text = json.dumps(found)
    assert "somebody" not in text and "/home" not in text and "is full" not in text
    options = ["--source-prompts", "my projects/a.pt,b.pt", "--prompt-init-from=my projects/c.pt"]
    assert found[0]["given_options"] == options
    assert found[0]["backbone"] == {"path": "roberta.large/model.pt", "sha256": "ab" * 32}


def test_reports_say_the_same_of_records(results, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    publish(results, tmp_path / "out.jsonl")
    capsys.readouterr()
    for place in ("results", "out.jsonl"):
        report([place, "--table", "methods"])
    said = capsys.readouterr().out.replace("/home/somebody/", "").replace("my projects is full", "diverged")
    said = said.replace("out.jsonl", "results")
    assert "m-idpg-phm" in said and said[: len(said) // 2] == said[len(said) // 2 :]


def test_runs_of_several_folders_stay_and_are_renewed(results, tmp_path):
    """But a run that has finished in the file and failed in the folder stays as it was."""
    out = tmp_path / "out.jsonl"
    first = publish(results, out)
    records = [made.failed("m-idpg-phm", "CR"), made.run("lora", "CR"), made.run("adapter", "CR", 4)]
    renewed = [{**record, "run": first[place]["run"]} for place, record in zip((0, 1, -1), records)]
    found = publish(made.write(tmp_path / "more", [made.run("adapter", "MR"), *renewed]), out)
    assert len(found) == 8 and [run["run"] for run in found[:7]] == [run["run"] for run in first]
    assert found[0] == first[0] and found[1]["row"] == "lora" and found[6]["status"] == "done"
    assert read_records(out) == found


def test_the_runs_of_a_sweep_stay_as_they_are(results, tmp_path):
    own, link = results / "results.jsonl", tmp_path / "link.jsonl"
    other = made.write(tmp_path / "other", [made.run("adapter", "MR")]) / "results.jsonl"
    link.symlink_to(own)
    before = [file.read_bytes() for file in (own, other)]
    for out in (own, link, other):
        with pytest.raises(SystemExit, match=f"--out {out}"):
            publish(results, out)
    assert [file.read_bytes() for file in (own, other)] == before and link.is_symlink()


def test_the_classes_of_test_examples_are_packed(tmp_path):
    """Of classes alone; the record's own sweep is read and no file beside it."""
    answers, targets = np.array([7, 7, 1, 2, 5, 0, 0, 0]), np.array([0, 1, 1, 2, 5, 0, 0, 0])
    runs = [made.run("lora", "CR", predictions="a.npz"), made.run("lora", "STS-B", predictions="a.npz")]
    results = made.write(tmp_path / "results", [*runs, made.run("lora", "MR", predictions="../a.npz")])
    for folder in (results, tmp_path):
        np.savez(folder / "a.npz", test=answers, test_targets=targets)
    classes, *others = publish(results, tmp_path / "out.jsonl")
    assert [each.tolist() for each in unpacked_classes(classes["test_classes"])] == [answers.tolist(), targets.tolist()]
    assert not any("test_classes" in run for run in others)
    (results / "a.npz").unlink()  # the classes stay, but not beside the scores of a repeated run
    assert publish(results, tmp_path / "out.jsonl")[0] == classes
    repeated = {**runs[0], "finished": "later"}
    assert "test_classes" not in publish(made.write(tmp_path / "repeated", [repeated]), tmp_path / "out.jsonl")[0]
    damaged = {**classes, "test_classes": {**classes["test_classes"], "examples": 1000}}
    with pytest.raises(SystemExit, match="test_classes"):
        report([str(made.write(tmp_path / "damaged", [damaged]))])
