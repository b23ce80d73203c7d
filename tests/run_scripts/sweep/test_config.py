"""The YAML file of a sweep: what it stands for, and how it is read."""

import pytest

from preprocess.errors import InputError
from run_scripts.sweep.config import Place, read_sweep
from run_scripts.sweep.plan import Variant, experiments, first_stage
from tests.run_scripts.tiny import IDPG


@pytest.fixture
def plan(world, tmp_path):
    def made(changes=(), **keys):
        return read_sweep(world.config(tmp_path, **keys), changes)

    return made


def test_lists_are_combined(plan):
    found = experiments(plan(rows=[IDPG, "prompt-tuning"], lrs=[1e-2, 1e-3], tasks=["rte", "CR"], k=[4, None]), {})
    assert len(found) == len(set(found)) == 2 * 2 * 2 * 2 * 2
    first = found[0]
    assert (first.task, first.lr, first.seed, first.k, first.batch_size, first.max_epoch) == ("RTE", 1e-2, 1, 4, 8, 2)
    assert "--phm-n" in first.options and first.options[:1] == ("--cpu",)


def test_rows_have_their_own(plan, world):
    kept, data = str(world.data / "CR-bin"), {"CR": str(world.data / "RTE-bin")}
    own = {"tasks": ["CR"], "lrs": [0.5], "data": data, "positions": [4], "init_prompts_from": kept}
    found = experiments(plan(rows=[{"name": "other", **IDPG, **own}, IDPG], tasks=["RTE", "CR"], seeds=[1]), {})
    assert [(run.row, run.task, run.lr, run.position) for run in found] == [
        *(("m-idpg-phm", "RTE", 1e-2, None), ("other", "CR", 0.5, 4), ("m-idpg-phm", "CR", 1e-2, None))
    ]
    assert found[1].data.endswith("RTE-bin") and found[1].init_prompts_from == kept


def test_prompt_lengths_and_positions(plan):
    found = experiments(plan(prompt_lengths=[1, 5], positions=[0, 2, 3], tasks=["RTE", "CR"], seeds=[1]), {})
    assert [run.position for run in found] == [0, 2, 3, 0, 2, 3, 0, 0]  # single sentences have no 2 and 3
    assert [run.options[-2:] for run in found[::3]][:2] == [("--prompt-length", "1"), ("--prompt-length", "5")]
    best = experiments(plan(positions=["best", None], tasks=["RTE", "CR"], seeds=[1]), {})
    assert [run.position for run in best] == [1, None, 0, None]


def test_changes_from_the_command_line(plan, monkeypatch):
    """Numbers may have no point, and texts stay as they stand."""
    monkeypatch.setenv("SECRET", "x")
    changes = ["seeds=[7]", "lrs=[5e-3,1]", "options.dropout=0.3", "supplementary.data=x", "backbone=${oc.env:SECRET}"]
    sweep = plan(changes)
    assert (sweep.seeds, sweep.lrs, sweep.options["dropout"]) == ([7], [5e-3, 1.0], 0.3)
    assert sweep.options["cpu"] is True and sweep.supplementary.data == "x"
    assert sweep.backbone == "${oc.env:SECRET}"


def test_supplementary_training_comes_once_for_each_row_and_position(plan, world):
    how = {"data": str(world.data / "MNLI-bin"), "max_epoch": 1, "seed": 9}
    keys = {"positions": [[0, 0], [0, "best"], [4, None], 2], "tasks": ["RTE"], "seeds": [1]}
    sweep = plan(**keys, supplementary=how)
    assert sweep.positions == [Place(0, 0), Place(0, "best"), Place(4, None), Place(None, 2)]
    first = first_stage(sweep)
    assert list(first) == [Variant("m-idpg-phm", None, 0), Variant("m-idpg-phm", None, 4)]
    run = first[Variant("m-idpg-phm", None, 4)]
    assert (run.task, run.supplementary, run.position, run.lr, run.seed) == ("MNLI", True, 4, 1e-5, 9)
    found = experiments(sweep, {variant: str(world.data / "CR-bin") for variant in list(first)[:1]})
    assert [(run.supplementary_position, run.position) for run in found] == [(0, 0), (0, 1), (4, None), (None, 2)]
    assert found[0].backbone == found[0].init_prompts_from == str(world.data / "CR-bin")
    assert found[3].backbone == str(world.backbone) and found[3].init_prompts_from is None


NAMES = "abcdefghijz"
BOMB = "".join(f"{name}{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip(NAMES, NAMES[1:]))
MERGED = BOMB.replace("[", "{<<: [").replace("]", "]}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lrs: [1]\nseeds: [1]\nlrs: [2]", "lrs stands twice, on lines 1 and 3"),
        ("x: &x {a: 1}\nrows: [{k: &y {<<: *x, a: 2}}]\nz: {<<: *y, a: 5}", "key x is unknown"),  # not twice
        ("[" * 5000, ""),
        (f"a: &a [x]\n{BOMB}b: *z", "aliases"),
        (f"a: &a {{x: 1}}\n{MERGED}", "aliases"),
        ("seeds: !!python/object/apply:os.getcwd []", ""),
    ],
)
def test_yaml_is_read_with_care(tmp_path, text, said):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InputError, match="a.yaml") as raised:
        read_sweep(tmp_path / "a.yaml")
    assert said in str(raised.value)


def test_more_runs_than_can_be_planned_are_refused(plan, monkeypatch):
    monkeypatch.setattr("run_scripts.sweep.plan.MOST_RUNS", 6)
    assert len(experiments(plan(seeds=[1, 2, 3], lrs=[0.1, 0.2]), {})) == 6
    with pytest.raises(InputError, match="more than 6 runs"):
        experiments(plan(seeds=[1, 2, 3, 4], lrs=[0.1, 0.2]), {})
