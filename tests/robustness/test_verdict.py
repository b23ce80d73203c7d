"""The judge sees what it is there for."""

from __future__ import annotations

import pytest

from . import verdict
from .server import HUNG
from .verdict import End, judge, listing

LINE = "fairseq_idpg: --path run/checkpoint_best.pt is damaged: give another\n"
TRACE = "Traceback (most recent call last):\n  File \"x.py\", line 1\nKeyError: 'model'\n"


def end(status=0, out="", err="", new=()):
    before = {"run/checkpoint_best.pt": (1, 1)}
    return End(status, out, err, before, {**before, **dict.fromkeys(new, (2, 2))})


def judged(found, answer="good", valid=False, **more):
    return judge(found, "run/checkpoint_best.pt", answer, "good", lambda: valid, **more)[0]


@pytest.mark.parametrize(
    ("found", "answer", "expected"),
    [
        (end(), "good", verdict.IDENTICAL),
        (end(), "bad", verdict.CHANGED),
        (end(err="WARNING: something\n"), "bad", verdict.CHANGED),
        (end(1, err=LINE), None, verdict.CLEAR),
        (end(1, out="log\n", err="warning\n" + LINE), None, verdict.CLEAR),
        (end(1, err=LINE + "more\n"), None, verdict.UNCLEAR),
        (end(1, err=LINE + LINE), None, verdict.UNCLEAR),
        (end(1, err="fairseq_idpg: it does not work\n"), None, verdict.UNCLEAR),
        (end(1, err="fairseq: error\n"), None, verdict.UNCLEAR),
        (end(1), None, verdict.UNCLEAR),
        (end(1, err="set `weights_only` to False\n" + LINE), None, verdict.UNCLEAR),
        (end(1, err=TRACE), None, verdict.TRACEBACK),
        (end(1, err=TRACE + LINE), None, verdict.TRACEBACK),
        (end(err=TRACE), "good", verdict.TRACEBACK),
        (end(-11, err=LINE), None, verdict.TRACEBACK),
        (end(HUNG), None, verdict.HANG),
        (end(1, err=LINE, new=["out.tsv"]), None, verdict.LEFT),
        (end(1, err=LINE, new=["run/checkpoint_best.pt"]), None, verdict.LEFT),
        (end(1, err=LINE, new=["canary"]), None, verdict.RAN),
        (end(0, new=["run/canary"]), "good", verdict.RAN),
    ],
)
def test_verdicts(found, answer, expected):
    assert judged(found, answer) == expected


def test_another_answer_needs_a_valid_file_or_the_warning_that_is_enough():
    assert judged(end(), "bad", valid=True) == verdict.ANOTHER
    warned = end(err="results.jsonl: the last line was torn\n")
    assert judged(warned, "bad", warning="torn") == verdict.WARNED
    assert judged(end(), "bad", warning="torn") == verdict.CHANGED


def test_a_file_that_was_refused_is_not_read_here():
    """It may run code."""

    def valid():
        raise AssertionError("it was read")

    for found, answer in ((end(1, err=LINE), None), (end(0, new=["canary"]), "good"), (end(), "good")):
        judge(found, "run/checkpoint_best.pt", answer, "good", valid)
    with pytest.raises(AssertionError, match="it was read"):
        judge(end(), "run/checkpoint_best.pt", "bad", "good", valid)


def test_files_that_may_be_there_after_an_error():
    left = end(1, err=LINE, new=["new/.lock"])
    assert judged(left, None) == verdict.LEFT
    assert judged(left, None, allowed=[r".*\.lock"]) == verdict.CLEAR


def test_a_listing_sees_every_change(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_text("1")
    (tmp_path / "two").symlink_to("nowhere")
    before = listing(tmp_path)
    assert set(before) == {"a/one", "two"}
    (tmp_path / "a" / "one").write_text("22")
    assert listing(tmp_path) != before
