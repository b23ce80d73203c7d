"""Models of one task on another: as they are (zero-shot), or trained on K of its examples first (few-shot).

ID-SPAM, Section 3.4 and Appendix C. Labels are matched by what they mean, never by their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from preprocess.errors import InputError
from preprocess.tasks import Task, counterparts, find_task

from .experiment import ARROW, Experiment

START = "--finetune-from-model"


def arrow(source: str, target: str) -> str:
    """What the pair is called."""
    return f"{source}{ARROW}{target}"


def check_pair(option: str, source: Task, target: Task) -> None:
    """Raise InputError unless a model of the first task can answer the second, another one with the same meanings."""
    reason = ""
    if source is target:
        reason = f"its models are scored on {target.name} as it is: name other tasks"
    elif source.regression or target.regression:
        scored = source if source.regression else target
        reason = f"the labels of {scored.name} are scores, and no class means the same: name a task of classes"
    elif source.pairs != target.pairs:
        kinds = ("pairs", "single sentences")
        of_source, of_target = kinds if source.pairs else kinds[::-1]
        reason = f"{source.name} has {of_source} and {target.name} {of_target}: name a task of {of_source}"
    else:
        if counterparts(source.name, source.labels, target.name, target.labels) is None:
            silent = target if source.meanings else source
            reason = f"preprocess/tasks.py does not say what the labels of {silent.name} mean: add them there"
    if reason:
        raise InputError(f"{option} {target.name}: {reason}")


def continued(experiments: Iterable[Experiment], ks: Sequence[int]) -> Iterator[Experiment]:
    """The runs that go on from others, on K examples of each task that these answer; learning rate and seed are theirs.

    ID-SPAM does not say how the second training is done (Appendix C): it is this package's few-shot training.
    """
    for experiment in experiments:
        options = without_start(experiment.options)
        for (task, data), k in ((pair, k) for pair in zip(experiment.eval_tasks, experiment.eval_data) for k in ks):
            yield replace(
                experiment,
                task=task,
                data=data,
                k=k,
                source_task=experiment.task,
                source_run=experiment.run,
                init_prompts_from=None,
                init_head_from=None,
                eval_tasks=(),
                eval_data=(),
                options=options,
            )


def without_start(options: Sequence[str]) -> tuple[str, ...]:
    """The options but --finetune-from-model: whoever goes on from another run starts from nothing else."""
    pairs = zip(("", *options), options)
    return tuple(word for before, word in pairs if START not in (before, word) and not word.startswith(f"{START}="))


def with_others(experiment: Experiment, option: str, folders: dict[str, str]) -> Experiment:
    """The experiment, and other tasks that its model answers: task -> folder.

    Raises:
        InputError: see ``check_pair``.
    """
    for task in folders:
        check_pair(option, experiment.facts, find_task(task))
    return replace(experiment, eval_tasks=tuple(folders), eval_data=tuple(folders.values()))
