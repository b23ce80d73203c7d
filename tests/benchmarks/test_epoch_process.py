"""The processes of benchmarks/epoch.py: that they are started, stamped and ended, and how their logs are read."""

from __future__ import annotations

import itertools
import os
import sys
import time
from types import SimpleNamespace

import epoch_process
import pytest
from epoch_process import Output, call, output_lines
from epoch_runs import check_cache, training_figures

from preprocess.errors import InputError

LOG = [  # of a run of three updates
    (9.0, "x | INFO | fairseq.tasks.sentence_prediction | Loaded train with #samples: 20000"),
    (9.5, "x | INFO | fairseq_idpg.tasks.prompted_dataset | 1,250 batches, 29.6% of their tokens are padding"),
    (10.0, "x | INFO | fairseq.trainer | begin training epoch 1"),
    (14.0, "x | INFO | fairseq_idpg.representations.fill | split train: M(x) of 20,000 examples in x.npy"),
    (15.0, "x | INFO | fairseq_cli.train | Start iterating over samples"),
    (19.0, 'x | INFO | train_inner | {"epoch": 1, "update": 0.001}'),
    (20.0, 'x | INFO | train_inner | {"epoch": 1, "update": 0.002}'),
    (22.0, 'x | INFO | train_inner | {"epoch": 1, "update": 0.003}'),
    (
        30.0,
        "x | INFO | fairseq.checkpoint_utils | Saved checkpoint y (epoch 1 @ 3 updates) (writing took 2.5e-04 seconds)",
    ),
    (31.0, 'x | INFO | train | {"epoch": 1, "train_train_wall": "7", "train_wall": "21"}'),
]


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


WAITS = """
import os, sys, time
print("begin")
for _ in range(6000):
    if os.path.exists(sys.argv[1]):
        break
    time.sleep(0.01)
else:
    sys.exit("nobody has read a line")
print("end")
"""


def test_lines_are_stamped_as_they_come(tmp_path, monkeypatch):
    """The process writes its second line once the first has its stamp."""
    stamped, ticks = tmp_path / "stamped", itertools.count()

    def clock() -> float:
        tick = next(ticks)
        if tick == 1:
            stamped.touch()
        return float(tick)

    monkeypatch.setattr(epoch_process, "time", SimpleNamespace(perf_counter=clock))
    output = call([*python(WAITS), str(stamped)], 1)
    assert output.lines == [(1.0, "begin\n"), (2.0, "end\n")] and output.seconds == 3.0
    assert output.first("end")[0] == 2.0
    with pytest.raises(InputError, match="no line of its output matches 'middle'"):
        output.first("middle")


def test_threads_are_passed_on():
    output = call(python("import os; print('threads', os.environ['OMP_NUM_THREADS'])"), 3)
    assert output.first(r"threads (\d+)")[1][1] == "3"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("print('working'); raise SystemExit('--x 1: give 2')", "--x 1: give 2"),
        ("print('working'); 1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "exit status 3"),
    ],
)
def test_a_failure_says_why(code, message):
    with pytest.raises(InputError) as failed:
        list(output_lines(python(code), dict(os.environ)))
    assert str(failed.value).startswith(message)


def test_a_process_that_is_given_up_is_killed():
    lines = output_lines(python("import time; print('begin', flush=True); time.sleep(60)"), dict(os.environ))
    assert next(lines) == "begin\n"
    start = time.perf_counter()
    lines.close()
    assert time.perf_counter() - start < 30


def test_a_cache_that_was_not_as_the_case_says_is_refused():
    computed, found = Output(LOG, 40.0), Output([], 40.0)
    check_cache(computed, filled=True)
    check_cache(found, filled=False)
    with pytest.raises(InputError, match="the run computed the rows"):
        check_cache(computed, filled=False)
    with pytest.raises(InputError, match="the run did not compute the rows"):
        check_cache(found, filled=True)


def test_an_epoch_is_extrapolated_from_the_updates_after_the_first(tmp_path):
    checkpoint = tmp_path / "checkpoint_last.pt"
    checkpoint.write_bytes(b"12345")
    assert training_figures(Output(LOG, 40.0), checkpoint) == {
        "updates": 3,
        "updates_per_epoch": 1250,
        "examples": 20000,
        "padding": pytest.approx(0.296),
        "fill_s": 5.0,
        "first_update_s": 4.0,
        "update_s": 1.5,
        "epoch_s": 5.0 + 4.0 + 1249 * 1.5,
        "train_wall_s": 7.0,
        "wall_s": 21.0,
        "process_s": 40.0,
        "process_epoch_s": 40.0 + 1247 * 1.5,
        "bytes": 5,
        "write_s": 0.00025,
    }


def test_one_update_is_too_few(tmp_path):
    with pytest.raises(InputError, match="1 updates are too few to be timed"):
        training_figures(Output(LOG[:6], 40.0), tmp_path)
