"""benchmarks/step_cases.py and step_targets.py: what is measured together, and which targets hold of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace

import pytest
from step_cases import PEERS, REFERENCES, TOGETHER, all_cases, blocks, chosen
from step_report import targets
from step_settings import SIZES, Settings
from step_targets import Target, targets_of

from fairseq_idpg.count import method_of, own_parameters
from fairseq_idpg.methods.registry import PRESETS
from preprocess.errors import InputError
from tests.folders import ROOT
from tests.helpers import model_args

CASES = all_cases()
INSTALLED = ROOT / "benchmarks" / ".peers"
FAILS = "peft-prefix-tuning"
NOT_AS_MANY = {"adapters-compacter", "transformers-bitfit", "transformers-fine-tuning"}  # shares A; no method's own


def test_every_preset_is_a_case_and_every_peer_stands_behind_its_preset():
    names = list(CASES)
    assert {case.what for case in CASES.values() if case.maker == "method"} == set(PRESETS)
    for peer in PEERS:
        assert set(peer.beside) <= set(PRESETS)
        between = names[names.index(peer.beside[0]) + 1 : names.index(peer.name)]
        assert all(CASES[name].options == CASES[peer.name].options for name in between)


def test_peers_have_the_rows_of_their_preset():
    assert {name: CASES[name].rows for name in ("mam", "adapters-mam", "peft-prefix-mlp-features", "floor")} == {
        "mam": 16,
        "adapters-mam": 16,
        "peft-prefix-mlp-features": 20,
        "floor": 5,
    }


def test_cases_are_chosen_by_name_and_by_pattern_in_the_order_of_the_table():
    assert [case.name for case in chosen(["peft-lora", "lora", "lora"])] == ["lora", "peft-lora"]
    assert {case.name for case in chosen(["*bitfit", "floor*"])} == {
        "bitfit",
        "transformers-bitfit",
        "floor",
        "floor-text",
    }
    assert chosen(["*"]) == list(CASES.values())


@pytest.mark.parametrize(("pattern", "hint"), [("lorra", "did you mean lora"), ("x*", "--list names all")])
def test_a_pattern_that_fits_no_case_is_refused(pattern, hint):
    with pytest.raises(InputError, match=f"--cases .* is unknown: {hint}"):
        chosen(["lora", pattern])


def test_few_cases_are_one_block():
    few = list(CASES.values())[:TOGETHER]
    assert blocks(few) == [("", few)]


def test_many_cases_are_blocks_of_families_with_the_references_in_each():
    found = blocks(list(CASES.values()))
    assert len(found) > 1
    for family, members in found:
        names = [case.name for case in members]
        assert len(names) <= TOGETHER
        assert set(REFERENCES) <= set(names)
        assert len(set(names)) == len(names)
        assert {case.family for case in members if case.name not in REFERENCES} == {family}
    assert {case.name for _, members in found for case in members} == set(CASES)
    without = blocks([case for case in CASES.values() if case.name not in REFERENCES])
    assert sum(len(members) for _, members in without) == len(CASES) - len(REFERENCES)


def test_what_is_compared_in_seconds_is_in_one_block():
    cases = list(CASES.values())
    together = [{case.name for case in members} for _, members in blocks(cases)]
    for target in targets_of(cases, Settings()):
        if target.figure == "median_s":
            assert any({target.case, target.of} <= names for names in together), target


def test_targets_of_late_prompts_follow_the_layers_above_them():
    asked = ["lpt-naive", "id-spam", "lpt-naive-c*", "prompt-tuning", "prompt-tuning-no-dropout"]
    found = targets_of(chosen(asked), replace(Settings(), layers=6))
    factors = {(target.case, target.figure): target.factor for target in found}
    for name in ("lpt-naive", "id-spam"):  # before layer 6/2 + 1, two layers above
        assert factors[name, "median_s"] == pytest.approx(1.1 * (1 + 2 / 6) / 2)
        assert factors[name, "kept_mib"] == pytest.approx(1.1 * 2 / 6)
    assert factors["lpt-naive-cached-states", "median_s"] == pytest.approx(1.1 * 2 / 6)
    assert len(found) == 5


def test_every_peer_gives_a_target_to_each_preset_that_it_stands_beside():
    found = {(target.case, target.of) for target in targets_of(list(CASES.values()), Settings()) if target.factor == 1}
    assert found == {(preset, peer.name) for peer in PEERS for preset in peer.beside}


def figures(rounds: list[float], **memory: float) -> dict:
    return {"rounds_s": rounds, "median_s": sorted(rounds)[len(rounds) // 2], **memory}


def test_seconds_are_compared_round_by_round_within_a_block():
    block = {"lora": figures([1.0, 4.0, 1.0]), "peft-lora": figures([1.0, 5.0, 2.0])}
    other = {"lora": figures([9.0, 9.0, 9.0])}
    (line,) = targets([other, block], [Target("lora", 0.75, "peft-lora")])
    assert line.split()[-7:] == ["0.800", "NOT", "reached", "(rounds", "0.50", "to", "1.00)"]
    assert targets([other, {"peft-lora": figures([1.0])}], [Target("lora", 1.0, "peft-lora")]) == []


def test_memory_is_compared_between_blocks():
    blocks_of = [{"lpt-npg": figures([1.0], kept_mib=30.0)}, {"prompt-tuning": figures([1.0], kept_mib=60.0)}]
    (line,) = targets(blocks_of, [Target("lpt-npg", 0.5, "prompt-tuning", "kept_mib")])
    assert line.startswith("kept for backward of lpt-npg <= 0.50 x prompt-tuning")
    assert line.split()[-2:] == ["0.500", "reached"]


def test_a_case_that_failed_is_named():
    block = {"lora": figures([1.0]), "peft-lora": {"error": "TypeError"}}
    (line,) = targets([block], [Target("lora", 1.0, "peft-lora")])
    assert line.endswith("not measured: peft-lora fails")


IN_THE_PEERS_ENVIRONMENT = """
import json, sys
from step_cases import Case
from step_settings import Settings
from step_worker import Steps
settings, cases = json.load(sys.stdin)
for case in (Case(**case) for case in cases):
    steps = Steps(case, Settings(**settings))
    steps.step()
    left_out = [name for name, p in steps.model.named_parameters() if p.requires_grad and p.grad is None]
    print("trained", json.dumps([case.name, steps.built["trainable"], left_out]))
"""


@pytest.mark.skipif(not INSTALLED.is_dir(), reason="needs bash benchmarks/setup_peers.sh")
def test_peers_train_as_many_numbers_as_the_preset_and_all_of_them():
    settings = replace(SIZES["tiny"], layers=3, batch=2, steps=1, length=8, threads=1)
    asked = [peer for peer in PEERS if peer.name != FAILS]
    paths = os.pathsep.join(map(str, (INSTALLED, ROOT, ROOT / "benchmarks")))
    done = subprocess.run(
        [sys.executable, "-c", IN_THE_PEERS_ENVIRONMENT],
        input=json.dumps([asdict(settings), [asdict(CASES[peer.name]) for peer in asked]]),
        env={**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.partition(" ")[2] for line in done.stdout.splitlines() if line.startswith("trained ")]
    found = {name: (count, left_out) for name, count, left_out in map(json.loads, lines)}
    assert set(found) == {peer.name for peer in asked}
    assert not [name for name, (_, left_out) in found.items() if left_out]
    for peer in asked:
        if peer.name not in NOT_AS_MANY:
            args = model_args(method=peer.beside[0], encoder_layers=settings.layers)
            assert found[peer.name][0] == own_parameters(method_of(args)), peer.name
