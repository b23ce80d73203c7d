"""benchmarks/gpu: which commands there are, what happens when one fails or time is up, and what the tables say."""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from gpu import campaign, looking
from gpu.campaign import Campaign, check_same, parse
from gpu.checks import outcomes
from gpu.looking import LAYERS, agree, look, waits_of
from gpu.plan import KINDS, Part, Wishes, parts, together, wishes
from gpu.report import STOPPED, failed, markdown
from step_cases import TOGETHER, all_cases
from step_data import PERIOD, repeated_draws
from step_settings import SIZES

from fairseq_idpg.methods.registry import PRESETS
from preprocess.errors import InputError

SMALL = replace(SIZES["tiny"], batch=2, steps=1, length=8, length_spread=0.0, threads=torch.get_num_threads())
CARD = {"hardware": "NVIDIA X", "torch": "2.13.0", "memory_gib": 79.2, "driver": None}


def of_cases(part: Part) -> set[str]:
    at = part.command.index("--cases") + 1
    return set(part.command[at:])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("kind", ["steps", "predict", "inspect"])
def test_every_preset_in_every_precision(kind, dtype):
    found = [part for part in parts(wishes({"PARTS": kind}, ())) if dtype in part.command]
    assert set().union(*map(of_cases, found)) >= PRESETS.keys()
    cached = {name for name, case in all_cases().items() if case.cached or case.cached_states}
    assert len(cached) > 3 and set().union(*map(of_cases, found)) >= cached


def test_parts_have_names_of_their_own_and_stand_in_order():
    found = parts(wishes({}, ("--rounds", "9")))
    assert len({part.name for part in found}) == len(found)
    kinds = list(dict.fromkeys(part.kind for part in found))
    assert kinds == list(KINDS)
    steps = next(part for part in found if part.kind == "steps")
    assert steps.command.index("9") > steps.command.index("3")  # the later one counts
    assert all(part.seconds > 0 for part in found)


def test_a_smaller_gpu_holds_fewer_cases():
    assert together(None, "float32") == together(80, "float32") == TOGETHER
    assert 3 <= together(24, "float32") < together(24, "float16") < TOGETHER
    assert together(6, "float32") == 3
    few, many = (parts(Wishes("cuda", "roberta-large", ("steps",), memory_gib=gib)) for gib in (24, 80))
    assert len(few) > len(many)


def test_an_unknown_part_is_refused():
    with pytest.raises(InputError, match="^PARTS=stepps is unknown: give some of environment checks "):
        wishes({"PARTS": "stepps"}, ())


def test_a_limit_that_is_none():
    with pytest.raises(InputError, match="^--limit 0 is no time: give seconds$"):
        parse(["--limit", "0"])
    assert parse(["--rounds", "3", "--limit", "9"])[1] == ("--rounds", "3")


def said(name: str, code: str, kind: str = "predict", seconds: float = 1.0) -> Part:
    return Part(name, kind, ("-c", f"import sys, time, pathlib\nfile = pathlib.Path(sys.argv[-1])\n{code}"), seconds)


GOOD = "print('runs'); file.write_text('{\"floor\": {\"sentences_per_s\": 7.0}}')"


def test_a_part_that_fails_does_not_stop_the_others_and_is_run_again(tmp_path, capsys):
    once = said("good", "file.with_name('once').touch(exist_ok=False)\n" + GOOD)  # it would fail the second time
    chosen = [said("bad", "print('why'); sys.exit('no reason')"), once]
    run = Campaign(tmp_path, chosen, None)
    run.run()
    assert "[1/2] bad, about 0 minutes are left\n    fails: no reason\n[2/2] good" in capsys.readouterr().out
    assert failed(run.found()) == ["bad"]
    assert run.found()["bad"]["log"] == ["why", "no reason"]
    again = Campaign(tmp_path, [said("bad", GOOD), once], None)
    again.run()
    assert failed(again.found()) == []
    assert [part["status"] for part in again.found().values()] == [0, 0]


def test_a_part_that_is_asked_for_otherwise_is_measured_anew(tmp_path):
    """CASES=, --rounds or libraries that were not there before: figures of an earlier command are not shown for it."""
    Campaign(tmp_path, [said("good", GOOD), said("bad", "sys.exit('why')")], None).run()
    other = [said("good", GOOD.replace("7.0", "9.0")), said("bad", "sys.exit('how')")]
    again = Campaign(tmp_path, other, None)
    assert not again.done(other[0])
    assert again.found() == {"good": {"kind": "predict"}, "bad": {"kind": "predict"}} and failed(again.found()) == []
    again.run()
    assert again.found()["good"]["found"] == {"floor": {"sentences_per_s": 9.0}}
    last = Campaign(tmp_path, [said("good", "sys.exit('fails now')")], None)
    last.run()
    assert not last.done(last.chosen[0]) and failed(last.found()) == ["good"]


def test_time_that_is_up_stops_a_part_and_keeps_those_that_are_done(tmp_path, monkeypatch):
    chosen = [said("good", GOOD), said("long", "time.sleep(600)"), said("later", GOOD)]
    begun = {tmp_path / "good.log": 599.0, tmp_path / "long.log": 600.0}
    clock = SimpleNamespace(monotonic=lambda: max((at for log, at in begun.items() if log.exists()), default=0.0))
    monkeypatch.setattr(campaign, "time", clock)  # of a machine as fast as any: a second is left when "long" begins
    run = Campaign(tmp_path, chosen, 600.0)
    run.run()
    found = run.found()
    assert found["good"]["found"] == {"floor": {"sentences_per_s": 7.0}}
    assert found["long"]["status"] == STOPPED and found["later"] == {"kind": "predict"}
    assert failed(found) == []


def test_what_is_left_takes_as_long_as_what_is_done_took(tmp_path):
    run = Campaign(tmp_path, [said("one", GOOD, seconds=10), said("other", GOOD, seconds=30)], None)
    assert run.estimate(run.chosen[1:]) == 30
    run.states = {"one": {"seconds": 5.0, "status": 0}}
    run.chosen[0].file(tmp_path).write_text("{}")
    assert run.estimate(run.chosen[1:]) == 15


def test_a_folder_of_another_gpu_is_refused(tmp_path):
    (tmp_path / "environment.json").write_text(json.dumps(CARD))
    check_same(tmp_path, CARD)
    with pytest.raises(InputError, match="figures of hardware NVIDIA X, here is NVIDIA Y: give another OUT$"):
        check_same(tmp_path, {**CARD, "hardware": "NVIDIA Y"})


def test_a_dry_run_lists_the_commands_and_runs_none(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gpu.sh", "--dry-run", "--rounds", "2"])
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    for name in ("DEVICE", "SIZE", "PARTS", "DTYPES", "BATCHES", "LENGTHS", "CASES"):
        monkeypatch.delenv(name, raising=False)
    campaign.main()
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == len(parts(wishes({}, ()))) and last.startswith(f"{len(lines)} parts, about ")
    assert f"  python benchmarks/gpu/checks.py --device cuda --json {tmp_path}/out/checks.json" in lines[1]
    assert all(Path(line.split()[3]).exists() for line in lines)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["p-tuning", "adamix", "m-idpg-phm-checkpointed", "fine-tuning"])
def test_the_same_device_agrees_with_itself(name):
    assert agree(all_cases()[name], SMALL) == {"loss": 0.0, "gradient": 0.0}


def test_looks_in_half_precision_and_the_failure_of_a_case():
    broken = replace(all_cases()["floor"], name="broken", maker="nobody")
    found = look("inspect", [broken, all_cases()["floor"]], replace(SMALL, dtype="float16"))
    assert found["broken"] == {"error": "KeyError: 'nobody'"}
    assert sum(count for name, count in found["floor"]["kernels"].items() if "backward" not in name) == LAYERS
    lora = look("predict", [all_cases()["lora"]], replace(SMALL, dtype="bfloat16"))["lora"]
    assert lora["sentences_per_s"] > 0 and len(lora["seconds"]) == 5


def test_a_look_has_the_sizes_that_are_asked_for(monkeypatch, tmp_path):
    seen, file = [], tmp_path / "found.json"
    monkeypatch.setattr(looking, "look", lambda what, cases, settings: seen.append(settings))
    words = ["predict", "--size", "tiny", "--cases", "floor", "--prompt-length", "9", "--width", "64"]
    monkeypatch.setattr(sys, "argv", ["looking.py", *words, "--json", str(file)])
    looking.main()
    assert (seen[0].prompt_length, seen[0].width, seen[0].ffn) == (9, 64, SIZES["tiny"].ffn)


def test_places_at_which_python_waits():
    message = UserWarning("called a synchronizing CUDA operation (Triggered internally at X.cpp:1)")
    files = [f"{campaign.ROOT}/fairseq_idpg/a.py", "/x/.venv/lib/site-packages/fairseq/b.py"]
    seen = [warnings.WarningMessage(message, UserWarning, file, 7) for file in (*files, files[0])]
    seen.append(warnings.WarningMessage(UserWarning("another"), UserWarning, files[0], 7))
    assert waits_of(seen) == {"fairseq_idpg/a.py:7": 2, "fairseq/b.py:7": 1}


def test_outcomes_of_tests(tmp_path):
    report = tmp_path / "report.xml"
    cases = '<testcase classname="a" name="one"/><testcase classname="a" name="two"><skipped/></testcase>'
    cases += '<testcase classname="a" name="three"><failure message="assert 1 == 2&#10;more"/></testcase>'
    report.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    assert outcomes(report) == {"passed": 1, "skipped": 1, "failed": {"a::three": "assert 1 == 2"}}


def test_draws_that_are_repeated_are_draws():
    with repeated_draws():
        drawn = torch.empty(3 * PERIOD + 5).normal_(2.0, 0.5)
        small = torch.empty(10).uniform_(1, 2)
    assert abs(float(drawn.mean()) - 2) < 0.05 and abs(float(drawn.std()) - 0.5) < 0.05
    assert torch.equal(drawn[:PERIOD], drawn[PERIOD : 2 * PERIOD]) and torch.equal(drawn[:5], drawn[-5:])
    assert len(drawn[:PERIOD].unique()) > PERIOD / 2 and 1 <= float(small.min())
    other = torch.empty(3 * PERIOD).normal_()
    assert not torch.equal(other[:PERIOD], other[PERIOD : 2 * PERIOD])


def block(**figures) -> dict:
    usual = {"median_s": 0.01, "peak_mib": 2048.0, "kept_mib": 10.0, "trainable": 5, "settings": vars(SMALL)}
    return {**usual, **figures}


FLASH = "scaled_dot_product_flash_attention"
INSPECTED = {"kernels": {FLASH: 4, f"{FLASH}_backward": 4}, "synchronisations": {"a.py:7": 2, "b.py:1": 1}}
PARTS = {
    "checks": {"kind": "checks", "status": 0, "found": {"passed": 3, "skipped": 1, "failed": {"a::b": "assert"}}},
    "agree-float32": {
        "kind": "agree",
        "found": {"lora": {"loss": 1e-7, "gradient": 2e-6}, "mam": {"loss": 0.1, "gradient": float("nan")}},
    },
    "steps-float16-1": {
        "kind": "steps",
        "status": 0,
        "found": {"prompt-tuning": block(median_s=0.02), "lora": block(), "peft-lora": {"error": "OutOfMemoryError"}},
    },
    "steps-float16-2": {"kind": "steps", "status": 0, "found": {"prompt-tuning": block(median_s=9), "mam": block()}},
    "inspect-float16": {"kind": "inspect", "found": {"lora": INSPECTED}},
    "predict-float16": {"kind": "predict", "found": {"lora": {"sentences_per_s": 1234.4}}},
    "predict-float32": {"kind": "predict", "status": 1, "log": ["killed"]},
}


def test_the_tables_say_what_was_found():
    text = markdown(CARD, PARTS)
    lines = text.splitlines()
    assert "- memory gib: 79.2" in lines and "driver" not in text
    assert "Tests: 3 passed, 1 skipped, 1 failed." in lines and "- a::b: assert" in lines
    agreed = "gradients of 1 cases differ by at most 2.0e-06 of their norm (lora), losses by 1.0e-07."
    assert f"GPU beside CPU, float32: {agreed}" in lines
    assert "- mam: gradients differ by nan: TOO MUCH" in lines
    row = "| lora | 10.00 | 0.50 | - | 2,048 | 10 | 5 | 1,234 | 3 (a.py:7 × 2, b.py:1 × 1) | flash × 4 |"
    assert row in lines
    assert any(line.startswith("| prompt-tuning | 20.00 | 1.00") for line in lines)  # the first block's
    assert any(line.startswith("| mam | 10.00 | 0.00") for line in lines)  # beside its own block's
    assert any(line.startswith("| peft-lora | fails: OutOfMemoryError |") for line in lines)
    assert "`predict-float32` ended (1) without figures:" in lines and "killed" in lines
    assert all(line.count("|") == 11 for line in lines if line.startswith("|"))


def test_which_parts_failed():
    assert failed(PARTS) == ["checks", "agree-float32", "predict-float32"]
    peers = {"predict-float16-peers": {"kind": "predict", "found": {"peft-lora": {"error": "X"}}}}
    assert failed({**peers, "inspect-float16": {"kind": "inspect", "found": {"lora": {"error": "X"}}}}) == [
        "inspect-float16"
    ]
