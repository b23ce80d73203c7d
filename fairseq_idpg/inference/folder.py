"""Predictions for every example of a split of a binarized folder."""

import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils, utils
from fairseq.dataclass.utils import merge_with_parent
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from tqdm import tqdm

from preprocess.data_folder import DataFolder
from preprocess.flags import flag_name
from preprocess.questions import Questions, question_file
from preprocess.split_scores import chosen

from ..errors import InputError, refused
from ..models.config import predicts_words
from ..out_of_memory import put_on, refuse_batch, usual_device
from ..representations.cache import NO_CACHES
from ..saving.configuration import check_is_ours
from ..saving.reading import load_state
from ..saving.record import SECTION, KeptRecord, Record, listed, recorded
from ..saving.shared_folder import onnx_file
from ..tasks.folder import class_names, text_encoder
from ..tasks.template import find_phrasing
from .files import BREAKS
from .load import keep_beginnings, open_checkpoint
from .onnx_file import OnnxModel, in_int8
from .peft import reader


@dataclass
class SplitPredictions:
    """What a model says of a split of N examples, in the order of the data."""

    outputs: np.ndarray  # N x classes logits, or N scores of a regression, as they are trained on
    targets: np.ndarray | None  # N class indices or scores; None where the split has no labels
    label_names: list[str]  # the classes; empty for a regression
    scale: float = 1.0  # what the task's own scores were divided by

    @property
    def answers(self) -> np.ndarray:
        """N class indices, or N scores."""
        return self.outputs.argmax(1) if self.label_names else self.outputs

    def answers_to(self, questions: Questions) -> np.ndarray:
        """Return N class indices: label 1 for the likeliest example of each question, label 0 for the others."""
        one = self.label_names.index("1")
        logits = self.outputs.astype(np.float64)
        return np.where(chosen(questions, logits[:, one] - logits[:, 1 - one]), one, 1 - one)

    def lines_by_row(self, left_out: Iterable[tuple[int, ...]], questions: Questions | None = None) -> list[str]:
        """Return columns: class and probabilities in the order of ``label_names``, or score in the task's own scale.

        Rows that are ``left_out`` (see ``DataFolder.left_out``) have a line too, so that rows keep their places: empty
        columns, or nan for a score, since readers of tables pass over empty lines. With ``questions`` one example of
        each is chosen.
        """
        if self.label_names:
            answers = self.answers if questions is None else self.answers_to(questions)
            empty, names = "\t" * len(self.label_names), [self.label_names[answer] for answer in answers]
            rows = torch.from_numpy(self.outputs).softmax(1).tolist()
            lines = ["\t".join([name.translate(BREAKS), *(f"{p:.6f}" for p in row)]) for name, row in zip(names, rows)]
        else:
            empty, lines = "nan", [f"{score:.6f}" for score in self.outputs * self.scale]
        placed = [*((place - 0.5, empty) for place, _ in left_out), *enumerate(lines)]
        return [line for _, line in sorted(placed, key=itemgetter(0))]


def load_on_folder(
    checkpoint: str, data: str, cpu: bool = False, int8: bool = False, truncate: bool = False, **overrides: Any
):
    """Return (model, task) of a checkpoint on a data folder, in evaluation mode, on the GPU if there is one.

    ``truncate``: cut examples that are too long at their ends; ``overrides``: options of the checkpoint. Raise
    InputError as ``load_state`` does, where nothing names the classes, and for caches of a model in ONNX.
    """
    caches = [flag_name(name) for name in NO_CACHES if overrides.get(name)]
    if caches and (int8 or onnx_file(checkpoint)):
        raise refused("int8", f"and {caches[0]}, which an ONNX file does not read: leave one of them out")
    if int8:
        checkpoint = in_int8(checkpoint, open_checkpoint, backbone=overrides.get("backbone"))
    read = reader(checkpoint, overrides.get("backbone"))
    state = load_state(checkpoint, "--path", {"data": data, **NO_CACHES, **overrides}, read=read)
    check_is_ours(state, f"--path {checkpoint}")
    keep_beginnings(state["cfg"].task, truncate)
    onnx = onnx_file(checkpoint)
    if onnx:
        return onnx_on_folder(onnx, state["cfg"], recorded(state, f"--path {checkpoint}"))
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([checkpoint], state=state)
    if not task.cfg.regression_target and not class_names(task.label_dictionary):
        raise InputError(
            f"--path {checkpoint} is of an earlier version and does not know its label names, and {data} has no "
            "label/dict.txt: add that of its training data"
        )
    model.merge_method()
    return put_on(usual_device(cpu), model, f"--path {checkpoint}").eval(), task


def onnx_on_folder(path: Path, cfg: Any, record: Record) -> tuple[OnnxModel, Any]:
    """Return (model, task) of an ONNX file, with the classes of the folder in the order of the file's."""
    name = cfg.task._name
    task = TASK_REGISTRY[name].setup_task(merge_with_parent(TASK_DATACLASS_REGISTRY[name](), cfg.task), True)
    model = OnnxModel(path, cfg.model, task.cfg.classification_head_name)
    take_order = None if task.labels is None else task.labels.take_order
    kept = KeptRecord(task.record, task.cfg.data, take_order, training=False)
    kept.load_state_dict(asdict(record))
    model.kept, task.prompt_length, task.judges = {SECTION: kept}, model.prompt_length, True
    if predicts_words(cfg.model):
        encoder, pairs = text_encoder(task.cfg.data, cfg.model.template), bool(record.pairs)
        task.template, _ = find_phrasing(cfg.model, task.cfg, task.source_dictionary, pairs, encoder)
    return model, task


def questions_of(task: Any, split: str) -> Questions:
    """Return which question each example of a split answers, for --choose."""
    questions = DataFolder(Path(task.cfg.data)).questions(split)
    names = [] if task.cfg.regression_target else class_names(task.label_dictionary)
    if questions is None or sorted(names) != ["0", "1"]:
        raise InputError(
            f"--choose needs {question_file(split)} in {task.cfg.data} and a model of the labels 0 and 1 (this one has "
            f"{listed(names)}): leave it out"
        )
    return questions


@torch.no_grad()
def predict_split(model: Any, task: Any, split: str, batch_size: int = 64, progress: bool = False) -> SplitPredictions:
    """Run a loaded model over a split, in batches of similar length; raise InputError unless all is finite."""
    dataset = task.load_dataset(split, need_labels=False)
    head = task.cfg.classification_head_name
    task.begin_valid_epoch(0, model)
    device = next(model.parameters()).device
    outputs: dict[int, np.ndarray] = {}  # by the number of the example
    targets: dict[int, float] = {}
    with warnings.catch_warnings():
        # fairseq asks torch's loader for it, also where there is no GPU; with a cache, the loop makes the loader
        warnings.filterwarnings("ignore", "'pin_memory'")
        batches = task.get_batch_iterator(dataset, max_sentences=batch_size).next_epoch_itr(shuffle=False)
        for sample in tqdm(batches, desc=split, unit="batch", disable=None if progress else True):
            inputs = utils.move_to_cuda(sample["net_input"], device) if device.type == "cuda" else sample["net_input"]
            with refuse_batch(inputs["src_tokens"], "give a smaller --batch-size", f"split {split}: "):
                logits, _ = model(**inputs, features_only=True, classification_head_name=head)
            ids = sample["id"].tolist()
            outputs.update(zip(ids, logits.float().cpu().numpy()))
            if "target" in sample:
                targets.update(zip(ids, sample["target"].view(-1).tolist()))
    model.check_backbone()
    rows = np.stack([outputs[i] for i in range(len(dataset))])
    scale = (model.kept[SECTION].of_model.scale or 1.0) if task.cfg.regression_target else 1.0
    with np.errstate(over="ignore"):
        unusable = np.flatnonzero(~np.isfinite(rows * scale).all(1))
    if len(unusable):
        raise InputError(
            f"{len(unusable)} of {len(rows)} predictions of split {split} are not finite, the first that of line "
            f"{unusable[0] + 1}: give another checkpoint"
        )
    gold = np.asarray([targets[i] for i in range(len(dataset))]) if targets else None
    if task.cfg.regression_target:
        return SplitPredictions(rows[:, 0], gold, [], scale)
    return SplitPredictions(rows, gold, class_names(task.label_dictionary))
