"""Supplementary training and then the tasks, in one sweep: Figure 7 at tiny size."""

import shutil

import pytest

from run_scripts.run.experiment import backbone_digest
from run_scripts.sweep import __main__ as sweep
from tests.run_scripts import tiny


@pytest.fixture(scope="module")
def swept(world, in_process, tmp_path_factory):
    """(configuration, results) of prompts at two positions in STS-B after one in MNLI."""
    place = tmp_path_factory.mktemp("supplementary")
    how = {"data": str(world.data / "MNLI-bin"), "max_epoch": 1, "batch_size": 16}
    keys = {"tasks": ["STS-B"], "rows": ["prompt-tuning"], "positions": [[4, 0], [4, 1]], "seeds": [1], "max_epoch": 1}
    config = world.config(place, **keys, supplementary=how)
    sweep.main([str(config), "--results", str(place / "results"), "--jobs", "2"])
    return config, place / "results"


def test_a_backbone_for_each_position_and_the_tasks_from_it(swept):
    results = swept[1]
    (first,) = tiny.records(results / "supplementary").values()
    assert (first["task"], first["position"], first["supplementary"], first["lr"]) == ("MNLI", 4, True, 1e-5)
    backbone = results / "supplementary" / "runs" / first["run"] / "checkpoint_best.pt"
    found = tiny.records(results)
    assert sorted(record["position"] for record in found.values()) == [0, 1]
    for record in found.values():
        assert record["supplementary_position"] == 4 and record["metric"] == "pearson_and_spearman"
        assert record["backbone"] == {"path": str(backbone), "sha256": backbone_digest(str(backbone))}
        assert record["init_prompts_from"] == str(backbone) and record["init_head_from"] is None


def test_a_backbone_that_is_damaged_is_made_again_as_the_message_says(swept):
    config, results = swept
    backbone = next(results.glob("supplementary/runs/*/checkpoint_best.pt"))
    before = [tiny.outcome(place) for place in (results, results / "supplementary")]
    content = backbone.read_bytes()
    backbone.write_bytes(content[: len(content) // 2])
    backbone_digest.cache_clear()
    for more in (["--dry-run"], []):
        with pytest.raises(SystemExit, match=f"{backbone} is gone or damaged: remove .*supplementary/results.jsonl"):
            sweep.main([str(config), "--results", str(results), *more])
    shutil.rmtree(backbone.parent)
    (results / "supplementary" / "results.jsonl").unlink()  # of one run
    sweep.main([str(config), "--results", str(results)])
    assert [tiny.outcome(place) for place in (results, results / "supplementary")] == before
