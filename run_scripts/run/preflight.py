"""Checks of all runs before the first one is started."""

import contextlib
import io
import logging
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import MISSING, fields, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from fairseq import options as fairseq_options
from fairseq.data import Dictionary

from fairseq_idpg.backbone.weights import check_geometry
from fairseq_idpg.inference.text import load_dictionary
from fairseq_idpg.methods.base import Geometry
from fairseq_idpg.methods.prompts.base import PromptMethod
from fairseq_idpg.methods.prompts.initial import load_saved
from fairseq_idpg.methods.registry import find_preset
from fairseq_idpg.models.config import RobertaIDPGConfig
from fairseq_idpg.models.prepare import DataFacts, check_has_rows, check_method_effects, complete_options
from fairseq_idpg.representations.kinds import GLOVE
from fairseq_idpg.representations.stored import load_vectors
from fairseq_idpg.saving.backbone_file import read_backbone
from fairseq_idpg.saving.record import Record, check_same_data, listed
from fairseq_idpg.tasks.folder import check_scored, folder_record, preprocess_facts
from fairseq_idpg.tasks.positions import check_position
from fairseq_idpg.training.arguments import check_arguments
from preprocess.data_folder import DataFolder, check_split
from preprocess.errors import InputError, did_you_mean
from preprocess.few_shot import check_source, select_rows
from preprocess.splits import ENTAILED, NOT_ENTAILED
from preprocess.tasks import Task, find_task, known_task

from .command import training_command
from .experiment import REPORTED, Experiment, Splits, drawn, of_each_split, reports_on_its_choice

logging.getLogger("fairseq.utils").setLevel(logging.WARNING)  # "--user-dir has already been imported"
backbone_of = lru_cache(maxsize=1)(read_backbone)


@cache
def folder_of(path: str) -> DataFolder:
    """Return a data folder; raise InputError unless it has examples to train on and to report on."""
    folder = DataFolder(Path(path))
    check_source(folder)
    return folder


@cache
def dictionary_of(folder: Path) -> Dictionary:
    return load_dictionary(str(folder / "input0" / "dict.txt"))


def check(experiments: Iterable[Experiment]) -> None:
    """Raise InputError for all data folders, backbones, options and starts that would make a run fail."""
    wrong: dict[str, None] = {}
    try:
        experiments = list(experiments)
        # Runs that differ in rate, seed, K or source run share one check; one backbone is held at a time.
        distinct = dict.fromkeys(replace(each, lr=1.0, seed=1, k=None, source_run=None) for each in experiments)
        for experiment in sorted(distinct, key=lambda each: each.backbone):
            try:
                folder = folder_of(experiment.data)
                check_folder("data", experiment.facts, folder)
                check_position(experiment.prompt_position, pairs=len(folder.inputs) == 2)
                for task, path in zip(experiment.eval_tasks, experiment.eval_data):
                    other = DataFolder(Path(path))
                    check_split(other, REPORTED)
                    check_folder("eval_tasks", find_task(task), other)
                    check_same_data(facts_of(folder), facts_of(other), path)
                args = parse(training_command(experiment, Splits(folder, "valid", "valid"), Path("checkpoints"), None))
                check_arguments(args)
                # fairseq validates after the last update of --max-update, but not after the last epoch.
                if not args.max_update and args.max_epoch < args.validate_interval:
                    problem = f"none of {args.max_epoch} epochs is validated, which would leave no best checkpoint"
                    raise InputError(f"--validate-interval {args.validate_interval}: {problem}: give less")
                labels: Any = Namespace(names=folder.label_names, data=folder.path)  # stands for a LabelOrder
                check_scored(args, None if folder.regression else labels)
                check_model(experiment, folder, args)
            except InputError as error:
                wrong[str(error)] = None
        if wrong:
            raise InputError("; ".join(wrong))
        drawing = [each for each in experiments if not reports_on_its_choice(each)]
        if not drawing and any(each.dev_examples for each in experiments):
            raise InputError("dev_examples (--dev) has no effect with selection: paper: leave one of them out")
        for experiment in of_each_split(drawing):
            source = DataFolder(Path(experiment.data))
            select_rows(source, *drawn(experiment, source), per_class=False)
    finally:
        backbone_of.cache_clear()  # frees its memory


def check_folder(option: str, task: Task, folder: DataFolder) -> None:
    """Raise InputError unless a folder has the name of the task, if it records one, and its labels, or --efl's."""
    recorded = preprocess_facts(str(folder.path)).task
    if recorded is not None and known_task(task.name) and recorded.lower() != task.name.lower():
        remedy = f"name a folder of {task.name}, or make it with python -m preprocess {task.name}"
        raise InputError(f"{option} {folder.path} is of {recorded}, not {task.name}: {remedy}")
    pairs = len(folder.inputs) == 2
    labels = [ENTAILED, NOT_ENTAILED] if pairs and not task.pairs else list(task.labels)  # --efl makes pairs
    if sorted(folder.label_names) != sorted(labels) or task.pairs > pairs:
        texts = "pairs" if pairs else "single sentences"
        given, known = (listed(names) or "scores" for names in (folder.label_names, labels))
        wrong = f"{option} {folder.path} has {texts} with {given} for labels, and {task.name} {known}"
        raise InputError(f"{wrong}: name a folder of {task.name}")


def facts_of(folder: DataFolder) -> Record:
    """Return the record of the data in a checkpoint that is trained on the folder."""
    given = {"regression_target": folder.regression, "prompt_position": None, "init_token": 0, "separator_token": 2}
    return folder_record(Namespace(data=str(folder.path), **given), dictionary_of(folder.path), folder.label_names)


def check_model(experiment: Experiment, folder: DataFolder, args: Namespace) -> None:
    """Raise InputError unless backbone, --arch, dictionary, options and starts of the method fit each other."""
    complete_options(args, DataFacts(args, dictionary_of(folder.path), lambda text: [], facts_of(folder), None))
    if getattr(args, "representation", None) == GLOVE:
        read = [(experiment.data, split) for split in ("train", "valid")]
        for data, split in [*read, *((data, REPORTED) for data in experiment.eval_data)]:
            load_vectors(data, split, args.representation_width)
    check_geometry(backbone_of(experiment.backbone), args, dictionary_of(folder.path))
    method = find_preset(args.method).build(args, Geometry.of(args))
    check_method_effects(args, method)
    check_has_rows(args, args, method)
    if experiment.init_prompts_from and method is not None:
        for prompt in (part for part in method.modules() if isinstance(part, PromptMethod)):
            load_saved(prompt, experiment.init_prompts_from, args)


def parse(command: list[str]) -> Namespace:
    """Return a command as fairseq parses it, with the model's defaults; raise InputError where it fails."""
    parser, said = fairseq_options.get_training_parser(), io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            args, left = fairseq_options.parse_args_and_arch(parser, input_args=command[1:], parse_known=True)
    except (SystemExit, ValueError) as error:
        reason = error if isinstance(error, ValueError) else said.getvalue().strip().split("error: ")[-1]
        raise InputError(f"fairseq-train refuses its options: {reason}") from None
    if left:
        near = did_you_mean(left[0].partition("=")[0], parser._option_string_actions).rstrip()
        hint = near or "fairseq_idpg/OPTIONS.md lists the plugin's, fairseq-train --help its own"
        raise InputError(f"option {left[0]} is unknown to fairseq-train: {hint}")
    for item in fields(RobertaIDPGConfig):
        if item.default is not MISSING:
            setattr(args, item.name, getattr(args, item.name, item.default))
    return args
