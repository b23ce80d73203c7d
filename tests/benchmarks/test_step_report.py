"""The tables of benchmarks/step_time.py, from figures that are made up."""

from __future__ import annotations

from step_report import summary


def figures(*seconds: float) -> dict:
    return {"rounds_s": list(seconds), "median_s": sorted(seconds)[len(seconds) // 2], "kept_mib": 10.0}


def test_the_summary_compares_within_a_block():
    """Each ratio is the median over the rounds of cases that took turns; a failed peer gives its place to the next."""
    first = {
        "prompt-tuning": figures(2, 4, 8),
        "peft-prompt-tuning": figures(4, 4, 4),
        "lora": figures(1, 4, 8),
        "peft-lora": {"error": "no"},
    }
    second = {
        "prompt-tuning": figures(1, 1, 1),
        "p-tuning-v2-kv": figures(3, 5, 7),
        "peft-prefix-tuning": {"error": "TypeError"},
        "peft-prefix-features": figures(6, 5, 10),
        "transformers-bitfit": figures(1, 1, 1),
    }
    rows = {line.split()[0]: line.split()[1:] for line in summary([first, second])[1:]}
    assert rows == {
        "prompt-tuning": ["4.0000", "1.00", "1.00", "10"],
        "lora": ["4.0000", "1.00", "10"],
        "p-tuning-v2-kv": ["5.0000", "5.00", "0.70", "10"],
    }
