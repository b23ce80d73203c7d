"""The YAML file of a sweep: what it stands for, and one line for each mistake in it."""

from __future__ import annotations

import pytest
import yaml

from preprocess.errors import InputError
from run_scripts.sweep.config import Place, count_runs, read_sweep
from run_scripts.sweep.plan import Variant, experiments, first_stage, flags
from tests.run_scripts.tiny import IDPG


@pytest.fixture
def plan(world, tmp_path):
    def made(changes=(), **keys):
        return read_sweep(world.config(tmp_path, **keys), changes)

    return made


def test_lists_are_combined(plan):
    found = experiments(plan(rows=[IDPG, "prompt-tuning"], lrs=[1e-2, 1e-3], tasks=["rte", "CR"], k=[4, None]), {})
    assert len(found) == len(set(found)) == 2 * 2 * 2 * 2 * 2
    assert {run.task for run in found} == {"RTE", "CR"}
    assert {run.row for run in found} == {"m-idpg-phm", "prompt-tuning"}
    first = found[0]
    assert (first.lr, first.seed, first.k, first.batch_size, first.max_epoch) == (1e-2, 1, 4, 8, 2)
    assert "--phm-n" in first.options and first.options[:1] == ("--cpu",)


def test_what_runs_have_in_common_reaches_each(plan):
    """The same rate twice is one run."""
    common = {"k": [4], "dev_examples": 5, "selection": "paper", "max_update": 7, "warm_up": 0.25, "batch_size": 3}
    found = experiments(plan(lrs=[1e-2, 1e-2], seeds=[1, 2], **common), {})
    assert [run.seed for run in found] == [1, 2]
    assert all(getattr(run, name) == value for run in found for name, value in {**common, "k": 4}.items())


def test_what_is_left_out_is_as_in_the_paper(plan, world, tmp_path):
    path = tmp_path / "short.yaml"
    keys = {"backbone": str(world.backbone), "tasks": ["RTE"], "rows": ["m-idpg-phm", "fine-tuning"]}
    path.write_text(yaml.safe_dump({**keys, "data": str(world.data)}))
    found = experiments(read_sweep(path), {})
    assert len(found) == 5 * 4 + 5 * 3 and found[0].arch == "roberta_idpg_large"
    assert sorted({run.lr for run in found if run.method == "m-idpg-phm"}) == [1e-4, 5e-4, 1e-3, 5e-3]
    assert (found[0].selection, found[0].position, found[0].dev_examples) == ("clean", None, None)


def test_rows_have_their_own(plan, world):
    kept, data = str(world.data / "CR-bin"), {"CR": str(world.data / "RTE-bin")}
    own = {"tasks": ["CR"], "lrs": [0.5], "data": data, "positions": [4], "init_prompts_from": kept}
    rows = [{"name": "other", **IDPG, **own}, IDPG]
    found = experiments(plan(rows=rows, tasks=["RTE", "CR"], seeds=[1]), {})
    assert [(run.row, run.task, run.lr, run.position) for run in found] == [
        *(("m-idpg-phm", "RTE", 1e-2, None), ("other", "CR", 0.5, 4), ("m-idpg-phm", "CR", 1e-2, None))
    ]
    assert found[1].data.endswith("RTE-bin") and found[1].init_prompts_from == kept


def test_prompt_lengths_and_positions(plan):
    found = experiments(plan(prompt_lengths=[1, 5], positions=[0, 2, 3], tasks=["RTE", "CR"], seeds=[1]), {})
    assert [run.position for run in found] == [0, 2, 3, 0, 2, 3, 0, 0]  # single sentences have no 2 and 3
    assert [run.options[-2:] for run in found[::3]][:2] == [("--prompt-length", "1"), ("--prompt-length", "5")]


def test_the_best_position_is_named(plan):
    found = experiments(plan(positions=["best", None], tasks=["RTE", "CR"], seeds=[1]), {})
    assert [run.position for run in found] == [1, None, 0, None]


def test_few_shot_runs_say_what_every_layer_reads(plan):
    found = experiments(plan(k=[None, 4], seeds=[1]), {})
    assert [run.options[-2:] == ("--representation", "backbone") for run in found] == [False, True]
    own = {**IDPG["options"], "representation": "previous-layer"}
    few = experiments(plan(k=[4], seeds=[1], rows=[{**IDPG, "options": own}]), {})
    assert few[0].options[-2:] == ("--representation", "previous-layer")


def test_options_as_flags():
    options = {"fp16": True, "amp": False, "dropout": 0, "phm-shared-a": False, "train-layer-norms": True}
    assert flags(options) == ("--fp16", "--dropout", "0", "--phm-shared-a", "false", "--train-layer-norms", "true")


@pytest.mark.parametrize("value", ["true", "false", "yes", 1, 0, "some/file"])
def test_a_flag_is_true_or_false(value):
    with pytest.raises(InputError, match="fp16"):
        flags({"fp16": value})


def test_changes_from_the_command_line(plan):
    sweep = plan(["seeds=[7]", "options.dropout=0.3", "max_update=4", "supplementary.data=x"])
    assert (sweep.seeds, sweep.options["dropout"], sweep.max_update) == ([7], 0.3, 4)
    assert sweep.options["cpu"] is True and sweep.supplementary.data == "x"


def test_more_runs_than_can_be_planned_are_counted_and_refused(plan):
    rows = [IDPG, {"method": "adapter", "lrs": [0.1], "tasks": ["CR"]}]
    keys = {"rows": rows, "tasks": ["RTE", "CR"], "k": [None, 4]}
    assert count_runs(plan(**keys)) == len(experiments(plan(**keys), {})) == (2 + 1) * 2 * 2
    paper = {"rows": ["adapter", "fine-tuning"], "lrs": None}
    assert count_runs(plan(**paper)) == len(experiments(plan(**paper), {})) == (4 + 3) * 2
    assert count_runs(plan(eval_tasks=["CR", "MRPC"], eval_k=[4, 5])) == 2 * (1 + 2 * 2)
    many = {"seeds": list(range(1000)), "lrs": [each / 1000 for each in range(1, 101)]}
    assert count_runs(plan(**many)) == 100_000
    with pytest.raises(InputError, match="sweep.yaml: .* 4,000,000 runs"):
        plan(**many, positions=[0] * 8, prompt_lengths=[1, 2, 3, 4, 5])


def test_null_is_as_if_it_were_left_out(plan):
    sweep = plan(supplementary=None, lrs=None, rows=[{**IDPG, "data": None, "tasks": None}], k=[None, 5])
    assert (sweep.supplementary, sweep.lrs, sweep.rows[0].data, sweep.rows[0].tasks) == (None,) * 4
    assert sweep.k == [None, 5]


def test_numbers_without_a_point_and_texts_as_they_stand(plan, monkeypatch):
    monkeypatch.setenv("SECRET", "x")
    sweep = plan(["lrs=[5e-3,1]", "backbone=${oc.env:SECRET}", "options.a=${b}"], arch="ROBERTA_idpg")
    assert sweep.lrs == [5e-3, 1.0] and sweep.arch == "roberta_idpg"
    assert (sweep.backbone, sweep.options["a"]) == ("${oc.env:SECRET}", "${b}")


SUPPLEMENTARY = {"positions": [[0, 0], [0, "best"], [4, None], 2], "tasks": ["RTE"], "seeds": [1]}


def test_supplementary_training_comes_once_for_each_row_and_position(plan, world):
    how = {"data": str(world.data / "MNLI-bin"), "max_epoch": 1, "seed": 9}
    sweep = plan(**SUPPLEMENTARY, supplementary=how)
    assert sweep.positions == [Place(0, 0), Place(0, "best"), Place(4, None), Place(None, 2)]
    first = first_stage(sweep)
    assert list(first) == [Variant("m-idpg-phm", None, 0), Variant("m-idpg-phm", None, 4)]
    run = first[Variant("m-idpg-phm", None, 4)]
    assert (run.task, run.supplementary, run.position, run.lr, run.seed) == ("MNLI", True, 4, 1e-5, 9)
    assert (run.max_epoch, run.batch_size, run.backbone) == (1, None, str(world.backbone))

    found = experiments(sweep, {variant: str(world.data / "CR-bin") for variant in list(first)[:1]})
    assert [(run.supplementary_position, run.position) for run in found] == [(0, 0), (0, 1), (4, None), (None, 2)]
    assert found[0].backbone == found[0].init_prompts_from == str(world.data / "CR-bin")
    assert {run.init_head_from for run in found} == {None}
    assert found[3].backbone == str(world.backbone) and found[3].init_prompts_from is None


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"taks": ["RTE"]}, "key taks is unknown: did you mean tasks? Known: backbone, tasks"),
        ({"tasks": ["RTEE"]}, "tasks RTEE is unknown: did you mean RTE? Known: CR, MR"),
        ({"tasks": "RTE"}, "tasks 'RTE' is not a list with something in it"),
        ({"tasks": []}, "tasks [] is not a list"),
        ({"rows": ["m-idpg-pmh"]}, "rows: method: m-idpg-pmh is unknown: did you mean m-idpg-phm?"),
        ({"rows": [{"methd": "adapter"}]}, "rows: key methd is unknown: did you mean method?"),
        ({"rows": [{"name": "x"}]}, "rows: method is missing: write it"),
        ({"rows": [IDPG, IDPG]}, "rows: two are called m-idpg-phm"),
        ({"rows": [{**IDPG, "tasks": ["CR"]}]}, "m-idpg-phm has the task CR, which tasks has not"),
        ({"rows": [None]}, "rows: None is no mapping"),
        ({"lrs": ["fast"]}, "lrs 'fast' is no learning rate: write it as 5.0e-3"),
        ({"lrs": [-1]}, "lrs -1 is no learning rate"),
        ({"seeds": [1.5]}, "seeds 1.5: write a whole number"),
        ({"seeds": [True]}, "seeds True: write a whole number"),
        ({"seeds": ["1"]}, "seeds '1': write a whole number"),
        ({"seeds": [-1]}, "seeds -1: write a whole number from 0 to 4294967295"),
        ({"seeds": [2**32]}, "seeds 4294967296: write a whole number from 0 to 4294967295"),
        ({"lr_seeds": [2**32]}, "lr_seeds 4294967296: write a whole number from 0 to 4294967295"),
        ({"selection": "paper"}, "dev_examples 8 has no effect with selection: paper"),
        ({"seeds": 3}, "seeds 3 is not a list with something in it"),
        ({"k": [0]}, "k 0: write a whole number from 1 on"),
        ({"max_update": "many"}, "max_update 'many': write a whole number"),
        ({"selection": "clear"}, "selection clear is unknown: did you mean clean?"),
        ({"options": ["--fp16"]}, "options ['--fp16'] is no mapping"),
        ({"keep_whole_models": 1}, "keep_whole_models 1: write true or false"),
        ({"positions": [[0]]}, "positions [0]: write [position in supplementary training, position in the task]"),
        ({"positions": [[0, 1]]}, "positions of m-idpg-phm: [a, b] needs supplementary training"),
        ({"supplementary": {"keep": ["hed"]}}, "supplementary: keep hed is unknown: did you mean head?"),
        ({"supplementary": {"date": "x"}}, "supplementary: key date is unknown: did you mean data?"),
        ({"backbone": None}, "backbone None is no text"),
        ({"backbone": 7}, "backbone 7 is no text"),
        ({"data": 7}, "data 7 is no text"),
    ],
)
def test_a_mistake_is_one_line(plan, keys, said):
    with pytest.raises(InputError) as raised:
        plan(**keys)
    assert said in str(raised.value) and "sweep.yaml" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["seeds"], "--set seeds is no KEY=VALUE"),
        (["seeds=[1"], "--set seeds=[1 is no YAML"),
        (["tasks.x=1"], "--set tasks.x=1: there is nothing to set it in"),
        (["sedes=1"], "key sedes is unknown: did you mean seeds?"),
    ],
)
def test_a_mistake_on_the_command_line(plan, changes, said):
    with pytest.raises(InputError) as raised:
        plan(changes)
    assert said in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["tasks: [", "\t", "- a", "", "just text"])
def test_files_that_are_no_sweep(tmp_path, text):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InputError, match="a.yaml") as raised:
        read_sweep(tmp_path / "a.yaml")
    assert "\n" not in str(raised.value)


NAMES = "abcdefghijz"
BOMB = "".join(f"{name}{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip(NAMES, NAMES[1:]))
MERGED = "".join(
    f"{name}{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 9)}]}}\n" for before, name in zip(NAMES, NAMES[1:])
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lrs: [1]\nseeds: [1]\nlrs: [2]", "a.yaml: key lrs stands twice, on lines 1 and 3: leave one out"),
        ("options: {\n  dropout: 0,\n  'dropout': 1}", "key dropout stands twice, on lines 2 and 3"),
        ("rows:\n  - {method: adapter, method: compacter}", "key method stands twice, on lines 2 and 2"),
        ("x: &x {a: 1}\nrows: [{k: &y {<<: *x, a: 2}}]\nz: {<<: *y, a: 5}", "key x is unknown"),  # not twice
        ("[" * 100000, "nested too deeply"),
        (f"a: &a [x]\n{BOMB}b: *z", "aliases make it stand for more than 10,000 values: write fewer"),
        (f"a: &a {{x: 1}}\n{MERGED}", "aliases make it stand for more than 10,000 values: write fewer"),
        ("seeds: &a [*a]", "nested too deeply"),
        ("seeds: !!bool maybe", "is no YAML"),
        ("seeds: !!python/object/apply:os.getcwd []", "is no YAML"),
        ('backbone: "a\\0b"\ntasks: [RTE]\nrows: [adapter]', "backbone 'a\\x00b' is no text"),
        ('backbone: b\ntasks: ["RT\\0E"]\nrows: [adapter]', "tasks 'RT\\x00E' is unknown"),
    ],
)
def test_yaml_is_read_with_care(tmp_path, text, said):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InputError) as raised:
        read_sweep(tmp_path / "a.yaml")
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_a_key_twice_on_the_command_line(plan):
    with pytest.raises(InputError, match="--set options=.*: key a stands twice"):
        plan(["options={a: 1, a: 2}"])


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="none.yaml: No such file or directory: give a YAML file"):
        read_sweep(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"data": {"CR": "x"}}, "data has no folder of RTE: write data: {RTE: FOLDER}"),
        ({"data": "no"}, "data no/RTE-bin does not exist"),
        ({"backbone": "no.pt"}, "backbone no.pt does not exist"),
        ({"options": {"seed": 3}}, "--seed is set by seeds: leave it out"),
        ({"options": {"prompt_position": 3}}, "--prompt-position is set by positions"),
        (
            {"rows": [{**IDPG, "options": {"prompt_length": 7}}], "prompt_lengths": [1, 2]},
            "prompt_lengths and the option prompt-length 7 of m-idpg-phm: leave one of them out",
        ),
        ({"options": {"dropout": False}}, "options: dropout false"),  # as if it were left out
        ({"rows": [{**IDPG, "options": {"phm-sharde-a": False}}]}, "options: phm-sharde-a false"),
        ({"options": {"prompt-length": 7}, "prompt_lengths": [None, 2]}, "the option prompt-length 7 of m-idpg-phm"),
    ],
)
def test_what_a_plan_refuses(plan, keys, said):
    with pytest.raises(InputError) as raised:
        experiments(plan(**keys), {})
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_methods_may_be_joined(plan):
    assert {run.method for run in experiments(plan(rows=["m-idpg-phm+adapter"]), {})} == {"m-idpg-phm+adapter"}
    with pytest.raises(
        InputError, match="rows: method: adapter.compacter: adapter and compacter share --adapter-hidden-size"
    ):
        plan(rows=["adapter+compacter"])


@pytest.mark.parametrize("positions", [[0], [None, "best"]], ids=str)
def test_supplementary_training_that_no_position_names(plan, world, positions):
    sweep = plan(supplementary={"data": str(world.data / "MNLI-bin")}, positions=positions)
    with pytest.raises(InputError, match="^supplementary has no effect where no positions are .*: write such, or"):
        first_stage(sweep)


def test_a_first_stage_without_prompts_to_keep(plan, world):
    keys = {"supplementary": {"data": str(world.data / "MNLI-bin")}, "positions": [[0, 0]], "rows": ["adapter"]}
    with pytest.raises(InputError, match="adapter has no prompts: write keep:"):
        first_stage(plan(**keys))
    keys["supplementary"]["keep"] = []
    assert len(first_stage(plan(**keys))) == 1
