"""python -m fairseq_idpg.count: the paper's Table 2 beside ours."""

import re

import pytest
from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_idpg import count
from fairseq_idpg.methods.registry import PRESETS
from tests.helpers import tiny_model


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.paper])
def test_each_count_is_the_papers_figure(name):
    """Table 2 prints K = 1,024 and M = 1,024^2, cut after the digits it shows; the backbone in millions."""
    row = count.count_preset("roberta_idpg_large", name)
    trained = row.own + row.of_backbone
    number, unit = re.fullmatch(r"([\d.]+)([KM])", row.paper).groups()
    size = {"K": 1024, "M": 1024**2}[unit] if name != "fine-tuning" else 1e6
    digits = len(number.partition(".")[2])
    assert abs(trained / size - float(number)) < 10**-digits


def test_command(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["count", "--arch", "roberta_idpg_minilm"])
    count.main()
    assert {*count.ARCHITECTURES} == {name for name in ARCH_MODEL_REGISTRY if name.startswith("roberta_idpg")}
    lines = capsys.readouterr().out.splitlines()
    shares = [float(re.search(r"([\d.]+)%", line)[1]) for line in lines[1:]]
    assert len(shares) == len(PRESETS) and shares == sorted(shares)
    # all-MiniLM-L6-v2 as fairseq-train counts it: BERT's 30,522 symbols, 514 positions; saved: 2 · 6 · 20 · 384
    for line in (
        r"m-idpg-phm +22,032 +0 +0\.098% *",
        r"fine-tuning +0 +22,565,376 +100\.000% *",
        r"prefix-tuning +[\d,]+ +0 +[\d.]+% +92,160 *",
    ):
        assert any(re.fullmatch(line, found) for found in lines)


def test_options_and_a_given_backbone(backbone, capsys):
    count.main(["--backbone", str(backbone), "--prompt-length", "7"])
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines()[1:]}
    assert rows["prompt-tuning"][1] == str(7 * 32) and "lora" not in rows
    count.main(["--backbone", str(backbone), "--method", "fine-tuning"])
    _, row = capsys.readouterr().out.splitlines()
    model = tiny_model(method="head-only")
    assert row.split()[2] == f"{model.parameter_counts()['backbone']:,}"
