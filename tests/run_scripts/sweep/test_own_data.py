"""Own data from a sweep to a table: folders under their own names, scored by the kind of their labels."""

import pytest

from run_scripts.publish import main as publish
from run_scripts.report.__main__ import main as report
from run_scripts.sweep import __main__ as sweep
from tests.folders import write_folder
from tests.run_scripts import tiny

NAMES = ["sport", "art", "food"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("own")
    topics = write_folder(place / "topics-bin", pairs=False, names=NAMES, splits=tiny.SPLITS)
    return {"topics": str(topics), "grades": str(write_folder(place / "x", regression=True, splits=tiny.SPLITS))}


def test_from_a_sweep_to_a_table(world, folders, in_process, tmp_path, capsys):
    rte = {"rte": str(world.data / "RTE-bin")}
    keys = {"tasks": ["topics", "grades", "rte"], "data": {**folders, **rte}, "k": [None, 8], "seeds": [1]}
    results = tmp_path / "results"
    config = world.config(tmp_path, metrics={"topics": "acc_and_macro_f1"}, max_epoch=1, **keys)
    sweep.main([str(config), "--results", str(results)])
    found = tiny.records(results).values()
    kinds = [("topics", "acc_and_macro_f1", False), ("grades", "pearson_and_spearman", True), ("RTE", "accuracy", None)]
    made = {(run["task"], run["metric"], run.get("pairs"), run["k"]) for run in found}
    assert made == {(*kind, k) for kind in kinds for k in (None, 8)}
    assert all(run["scores"]["test"][run["metric"]] == run["test"] for run in found)
    publish([str(results), "--out", str(tmp_path / "published.jsonl")])
    capsys.readouterr()
    options = ["--tasks", "Topics", "grades", "--format", "csv"]
    for what in (["--table", "methods"], ["--table", "1", "--voting"], ["--figure", "curves"]):
        report([str(results), *what, *options])
        table = capsys.readouterr()
        assert "topics" in table.out + table.err
        if what[0] == "--table":
            report([str(tmp_path / "published.jsonl"), *what[:2], *options])
            assert "topics,grades" in capsys.readouterr().out
    report([str(results), "--table", "1", "--tasks", "topics", "--notes"])
    assert "topics: mean of accuracy and macro F1" in capsys.readouterr().out
    report([str(results), "--table", "methods", "--k", "8"])
    assert "topics" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="topic is unknown: did you mean topics"):
        report([str(results), "--table", "1", "--tasks", "topic"])


@pytest.mark.parametrize(
    ("metrics", "named"),
    [
        ({"topics": "pearson_and_spearman"}, "has classes"),
        *(({"rte": "mcc"}, "RTE"), ({"topics": "mcc"}, "numbers")),
        ({"Topics": "acc_and_macro_f1"}, "Topics: not in tasks topics"),
    ],
)
def test_a_metric_that_does_not_fit(metrics, named, world, folders, tmp_path):
    config = world.config(tmp_path, tasks=["topics"], data=folders, metrics=metrics)
    with pytest.raises(SystemExit, match=named):
        sweep.main([str(config), "--results", str(tmp_path / "results"), "--dry-run"])
