"""How many batches and updates a run makes, beside what fairseq makes of the same examples."""

from __future__ import annotations

import pytest

from preprocess.data_folder import DataFolder
from run_scripts.run.command import batches_of_epoch
from run_scripts.run.experiment import Experiment
from tests.folders import write_folder
from tests.tasks.test_dataset import make_task

GIVEN = [
    *({}, {"options": ("--group-by-length",)}, {"options": ("--no-shuffle",)}),
    *({"supplementary": True}, {"supplementary": True, "options": ("--no-shuffle",)}),
]


@pytest.mark.parametrize("task", ["RTE", "CR"])
@pytest.mark.parametrize("more", GIVEN, ids=str)
def test_as_the_task_makes_an_epoch(world, task, more):
    """Some batches are full of examples and some of tokens."""
    if task == "CR" and "supplementary" in more:
        pytest.skip("single sentences cannot be exchanged")
    path, tokens = world.data / f"{task}-bin", 60 if task == "RTE" else 30
    options = {"swap_pairs": "append" if "supplementary" in more else "none"}
    options |= {flag.lstrip("-").replace("-", "_"): True for flag in more.get("options", ())}
    dataset = make_task(path, **options, seed=2).load_dataset("train")
    made = dataset.batch_by_size(
        dataset.ordered_indices(), max_tokens=tokens, max_sentences=4, required_batch_size_multiple=1
    )
    assert len({len(batch) for batch in made}) > 1
    more = {**more, "options": (*more.get("options", ()), "--max-tokens", str(tokens))}
    experiment = Experiment(task, "fine-tuning", 1e-5, 2, str(path), "", **more)
    assert batches_of_epoch(experiment, DataFolder(path), 4) == len(made)


@pytest.mark.parametrize(
    ("method", "options", "rows"),
    [
        ("prompt-tuning-100", (), 100),
        ("adapter+m-idpg-phm", ("--prompt-length", "40"), 40),
        ("m-idpg-phm", ("--prompt-length", "40", "--prompt-insertion", "late"), 0),
        ("prefix-tuning", (), 0),
        ("fine-tuning", (), 0),
    ],
)
@pytest.mark.parametrize("position", [0, 4])
def test_a_prompt_leaves_less_room_for_long_texts(tmp_path, method, options, rows, position):
    path = write_folder(tmp_path / "long", splits={"train": 40}, longest=400)
    task = make_task(path, prompt_length=rows, prompt_position=position, max_positions=200, shorten_method="truncate")
    dataset = task.load_dataset("train")
    made = dataset.batch_by_size(
        dataset.ordered_indices(), max_tokens=600, max_sentences=6, required_batch_size_multiple=1
    )
    options += ("--max-tokens", "600", "--max-positions", "200")
    experiment = Experiment("RTE", method, 1e-5, 1, str(path), "", position=position, options=options)
    assert batches_of_epoch(experiment, DataFolder(path), 6) == len(made)
