"""What would make runs fail, found before the first one is started."""

from __future__ import annotations

import contextlib
import io
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import MISSING, fields, replace
from functools import cache, lru_cache
from itertools import product
from math import lcm
from pathlib import Path

from fairseq import options as fairseq_options
from fairseq.data import Dictionary

from fairseq_idpg.backbone.weights import check_geometry
from fairseq_idpg.methods.base import Geometry
from fairseq_idpg.methods.prompts.base import PromptMethod
from fairseq_idpg.methods.prompts.saved import load_saved
from fairseq_idpg.methods.registry import find_preset
from fairseq_idpg.models.config import RobertaIDPGConfig, fill_method_options
from fairseq_idpg.models.prepare import check_method_effects
from fairseq_idpg.names import as_typed
from fairseq_idpg.representations.kinds import GLOVE
from fairseq_idpg.representations.word_vectors import load_vectors, vectors_width
from fairseq_idpg.saving.backbone_file import read_backbone
from fairseq_idpg.saving.record import Record, check_same_data, labels_here, listed
from fairseq_idpg.tasks.folder import folder_record, preprocess_facts
from fairseq_idpg.tasks.positions import POSITIONS, check_position
from fairseq_idpg.training.arguments import check_arguments
from preprocess.data_folder import DataFolder
from preprocess.dictionary import MASK
from preprocess.errors import InputError, did_you_mean
from preprocess.few_shot import check_source
from preprocess.flags import flag_name
from preprocess.questions import question_file
from preprocess.split_scores import OF_QUESTIONS
from preprocess.tasks import TASKS, Task, find_task
from preprocess.transforms import ENTAILED, NOT_ENTAILED
from preprocess.validation import check_split

from .command import training_command
from .evaluation import REPORTED
from .experiment import Experiment
from .splits import Splits, check_sizes

backbone_of = lru_cache(maxsize=1)(read_backbone)


@cache
def folder_of(path: str) -> DataFolder:
    """A data folder with examples to train on and to report on."""
    folder = DataFolder(Path(path))
    check_source(folder)
    return folder


@cache
def dictionary_of(folder: Path) -> Dictionary:
    """As the plugin's task has it."""
    dictionary = Dictionary.load(str(folder / "input0" / "dict.txt"))
    dictionary.add_symbol(MASK)
    return dictionary


def check(experiments: Iterable[Experiment]) -> None:
    """Checks each data folder, backbone, option and start, once for all learning rates and seeds.

    Raises:
        InputError: one line that names the option or file, its value and the remedy.
    """
    try:
        experiments = list(experiments)
        distinct = dict.fromkeys(replace(each, lr=1.0, seed=1, k=None, source_run=None) for each in experiments)
        for experiment in sorted(distinct, key=lambda each: each.backbone):  # one is held at a time
            folder = folder_of(experiment.data)
            check_data(experiment, folder)
            check_others(experiment, folder)
            args = parse(training_command(experiment, Splits(folder, "valid", "valid"), Path("checkpoints"), None))
            check_arguments(args, gpu=True)  # it may be another machine's
            check_saving(args)
            check_model(experiment, folder, args)
        check_sizes(experiments)
    finally:
        backbone_of.cache_clear()  # it is large


def check_heads(first: Iterable[Experiment], second: Iterable[Experiment]) -> None:
    """Whether the runs of supplementary training leave heads with which the others can start.

    Raises:
        InputError: they have other classes.
    """
    for before, after in product({each.data for each in first}, {each.data for each in second}):
        found, wanted = (folder_of(path).label_names for path in (before, after))
        if sorted(found) != sorted(wanted):
            raise InputError(
                f"supplementary.keep head: {before} has {listed(found) if found else 'scores'} for labels and {after} "
                f"{listed(wanted) if wanted else 'scores'}, so a head does not fit both: write keep: [prompts]"
            )


def check_folder(option: str, task: Task, folder: DataFolder) -> None:
    """The folder of a task has the task's name, if it records one, and its labels, or with --efl those of entailment.

    Raises:
        InputError: it is another task's, whose scores would be reported as those of this one.
    """
    found = preprocess_facts(str(folder.path)).task
    if found is not None and found.lower() != task.name.lower():
        known = found.lower() in map(str.lower, TASKS)
        other = f"the task {found}" if known else "train on your own data with fairseq-train"
        raise InputError(
            f"{option} {folder.path} is of {found}, and would be reported as {task.name}: name a folder of "
            f"{task.name}, or {other}"
        )
    if folder.regression != task.regression:
        found, wanted = ("scores", "classes") if folder.regression else ("classes", "scores")
        raise InputError(f"{option} {folder.path} has {found} for labels, and {task.name} has {wanted}: name another")
    pairs = len(folder.inputs) == 2
    labels = [ENTAILED, NOT_ENTAILED] if pairs and not task.pairs else list(task.labels)
    if sorted(folder.label_names) != sorted(labels) or task.pairs > pairs:
        texts = "pairs" if pairs else "single sentences"
        raise InputError(
            f"{option} {folder.path} has {texts} with the labels {listed(folder.label_names)}, and {task.name} "
            f"{listed(labels)}: name a folder of {task.name}"
        )


def check_data(experiment: Experiment, folder: DataFolder) -> None:
    """The task's own data, as its metric, method and position need it."""
    check_folder("data", experiment.facts, folder)
    lacking = [split for split in ("train", "valid") if folder.questions(split) is None]
    if experiment.facts.metric in OF_QUESTIONS and lacking:
        raise InputError(
            f"data {folder.path} has no {question_file(lacking[0])}, and {experiment.task} is scored by questions: "
            f"make it with python -m preprocess {experiment.task} --raw DIR --out DIR"
        )
    pairs = len(folder.inputs) == 2
    if find_preset(experiment.method).needs_pairs and not pairs:
        raise InputError(
            f"data {folder.path} has single sentences, and {experiment.method} needs entailment pairs: make them with "
            f"python -m preprocess {experiment.task} --efl"
        )
    check_position(experiment.prompt_position, pairs)
    before = experiment.supplementary_position
    if before not in (None, *POSITIONS):
        raise InputError(f"--supplementary-position {before} is unknown: choose from {', '.join(map(str, POSITIONS))}")


def check_others(experiment: Experiment, folder: DataFolder) -> None:
    """The folders of tasks that are answered without training have labels that mean the same, and the same encoding.

    Raises:
        InputError: naming the folder.
    """
    theirs = facts_of(folder)
    for task, path in zip(experiment.eval_tasks, experiment.eval_data):
        other = DataFolder(Path(path))
        check_split(other, REPORTED)
        if not other.has_labels(REPORTED):
            raise InputError(f"eval_tasks {task}: {path} has no labels of {REPORTED}: preprocess it with them")
        check_folder("eval_tasks", find_task(task), other)
        ours = facts_of(other)
        check_same_data(theirs, ours, path)
        if sorted(labels_here(theirs, ours)) != sorted(other.label_names):
            raise InputError(
                f"eval_tasks {task}: {path} has the labels {listed(other.label_names)}, and {folder.path} "
                f"{listed(folder.label_names)}: preprocess both with python -m preprocess, which says whose they are"
            )


def facts_of(folder: DataFolder) -> Record:
    """What a checkpoint of it, or for it, would record."""
    cfg = Namespace(data=str(folder.path), regression_target=folder.regression, prompt_position=None)
    cfg.init_token, cfg.separator_token = 0, 2
    return folder_record(cfg, dictionary_of(folder.path), folder.label_names)


def check_saving(args: Namespace) -> None:
    """Training leaves a best checkpoint, of all epochs that are validated: at the end of one, or when its updates have
    been made.

    Raises:
        InputError: it leaves none, or of fewer epochs.
    """
    for name in ("no_save", "disable_validation"):
        if getattr(args, name):
            raise InputError(f"{flag_name(name)}: there would be no best checkpoint to test: leave it out")
    otherwise = (args.max_update, args.save_interval_updates, args.validate_interval_updates, args.stop_time_hours)
    if args.max_epoch and not any(otherwise) and lcm(args.validate_interval, args.save_interval) > args.max_epoch:
        intervals = f"{as_typed(args, 'validate_interval')} {as_typed(args, 'save_interval')}"
        raise InputError(
            f"{intervals}: no epoch of {as_typed(args, 'max_epoch')} is validated and saved: give smaller intervals"
        )
    if args.validate_interval % args.save_interval:
        raise InputError(
            f"{as_typed(args, 'save_interval')} {as_typed(args, 'validate_interval')}: an epoch that is validated and "
            "not saved cannot be the one to test: leave --save-interval out"
        )
    if 0 < args.max_update < args.validate_after_updates:
        raise InputError(
            f"{as_typed(args, 'validate_after_updates')}: no update of {as_typed(args, 'max_update')} is validated: "
            "give less"
        )


def check_model(experiment: Experiment, folder: DataFolder, args: Namespace) -> None:
    """The backbone fits --arch and the data's dictionary, the method's options each other, starts the method."""
    width = getattr(args, "representation_width", None)
    fill_method_options(args)
    if getattr(args, "representation", None) == GLOVE:
        args.representation_width = vectors_width(experiment.data, width)
        for split in ("train", "valid"):
            load_vectors(experiment.data, split, args.representation_width)
        for data in experiment.eval_data:
            load_vectors(data, REPORTED, args.representation_width)
    check_geometry(backbone_of(experiment.backbone), args, dictionary_of(folder.path))
    method = find_preset(args.method).build(args, Geometry.of(args))
    check_method_effects(args, method)
    if experiment.init_prompts_from and method is not None:
        for prompt in (part for part in method.modules() if isinstance(part, PromptMethod)):
            load_saved(prompt, experiment.init_prompts_from, args)


def parse(command: list[str]) -> Namespace:
    """What fairseq makes of a command, with the defaults of the model's options.

    Raises:
        InputError: an option that it does not know, or a wrong value.
    """
    parser, said = fairseq_options.get_training_parser(), io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            args, left = fairseq_options.parse_args_and_arch(parser, input_args=command[1:], parse_known=True)
    except SystemExit:
        raise InputError(f"fairseq-train refuses its options: {said.getvalue().strip().split('error: ')[-1]}") from None
    except ValueError as error:
        raise InputError(f"fairseq-train refuses its options: {error}") from None
    if left:
        near = did_you_mean(left[0].partition("=")[0], parser._option_string_actions).rstrip()
        hint = near or "fairseq_idpg/OPTIONS.md lists the plugin's, fairseq-train --help its own"
        raise InputError(f"option {left[0]} is unknown to fairseq-train: {hint}")
    for item in fields(RobertaIDPGConfig):
        if item.default is not MISSING:
            setattr(args, item.name, getattr(args, item.name, item.default))
    return args
