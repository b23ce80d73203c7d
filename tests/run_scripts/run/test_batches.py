"""How many batches and updates a run makes, beside what fairseq makes of the same examples."""

import pytest

from preprocess.data_folder import DataFolder
from run_scripts.run.command import batches_of_epoch
from run_scripts.run.experiment import Experiment
from tests.folders import write_folder
from tests.tasks.test_dataset import make_task


def batches(task, **limits):
    dataset = task.load_dataset("train")
    return dataset.batch_by_size(dataset.ordered_indices(), required_batch_size_multiple=1, **limits)


@pytest.mark.parametrize("flags", [(), ("--group-by-length",), ("--no-shuffle",)], ids=str)
@pytest.mark.parametrize("supplementary", [False, True])
def test_as_the_task_makes_an_epoch(world, flags, supplementary):
    """Some batches are full of examples and some of tokens."""
    path = world.data / "RTE-bin"
    options = {flag.lstrip("-").replace("-", "_"): True for flag in flags}
    task = make_task(path, swap_pairs="append" if supplementary else "none", seed=2, **options)
    made = batches(task, max_tokens=60, max_sentences=4)
    assert len({len(batch) for batch in made}) > 1
    more = {"supplementary": supplementary, "options": (*flags, "--max-tokens", "60")}
    experiment = Experiment("RTE", "fine-tuning", 1e-5, 2, str(path), "", **more)
    assert batches_of_epoch(experiment, DataFolder(path), 4) == len(made)


@pytest.mark.parametrize(
    ("method", "options", "rows"),
    [
        ("prompt-tuning-100", (), 100),
        ("adapter+m-idpg-phm", ("--prompt-length", "40"), 40),
        ("m-idpg-phm", ("--prompt-length", "40", "--prompt-insertion", "late"), 0),
        ("prefix-tuning", (), 0),
    ],
)
@pytest.mark.parametrize("position", [0, 4])
def test_a_prompt_leaves_less_room_for_long_texts(tmp_path, method, options, rows, position):
    path = write_folder(tmp_path / "long", splits={"train": 40}, longest=400)
    task = make_task(path, prompt_length=rows, prompt_position=position, max_positions=200, shorten_method="truncate")
    made = batches(task, max_tokens=600, max_sentences=6)
    options += ("--max-tokens", "600", "--max-positions", "200")
    experiment = Experiment("RTE", method, 1e-5, 1, str(path), "", position=position, options=options)
    assert batches_of_epoch(experiment, DataFolder(path), 6) == len(made)
