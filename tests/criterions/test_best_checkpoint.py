"""A score that does not exist never decides which checkpoint is the best: fairseq's own loop, fairseq's own choice."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.criterions.sentence_prediction import SentencePredictionCriterion
from fairseq.data import Dictionary
from fairseq.dataclass.configs import FairseqConfig
from fairseq.logging import metrics
from fairseq_cli import train

from fairseq_idpg.criterions.sentence_prediction_idpg import SentencePredictionIDPGCriterion
from fairseq_idpg.errors import InputError
from fairseq_idpg.tasks.task import SentencePredictionIDPGTask

CRITERIA = [SentencePredictionCriterion, SentencePredictionIDPGCriterion]
SCORES = [1.0, 2.0, 3.0, 4.0]
NAN = float("nan")
# what each epoch predicts; Pearson's and Spearman's correlation with SCORES are the same: 0.8, none, 0.6
EIGHTY, CONSTANT, SIXTY = [1.0, 2.0, 4.0, 3.0], [2.5, 2.5, 2.5, 2.5], [2.0, 1.0, 4.0, 3.0]


class Trainer:
    """As much of fairseq's trainer as its loop and ``save_checkpoint`` ask for; ``saved`` holds the names."""

    data_parallel_rank, checkpoint_suffix = 0, ""
    should_save_checkpoint_on_current_rank = True

    def __init__(self, criterion, loss=1.0, report="report_pearson_and_spearman", targets=SCORES):
        self.task = object.__new__(SentencePredictionIDPGTask)
        self.task.datasets = {}
        self.criterion, self.loss, self.report, self.targets = criterion, loss, report, targets
        self.epoch, self.saved = 0, []

    def begin_valid_epoch(self, epoch):
        pass

    def get_valid_iterator(self, subset):
        return SimpleNamespace(next_epoch_itr=lambda **_: [self.predictions])

    def valid_step(self, predicted):
        examples = {"ntokens": 9, "nsentences": len(predicted), "sample_size": len(predicted)}
        log = {"loss": self.loss, **examples, "pred": predicted, "targ": self.targets[: len(predicted)]}
        if self.report:
            log[self.report] = True
        self.task.reduce_metrics([log], object.__new__(self.criterion))

    def get_num_updates(self):
        return self.epoch

    def get_model(self):
        return None

    def consolidate_optimizer(self):
        pass

    def save_checkpoint(self, filename, extra_state):
        self.saved.append(filename.rsplit("/", 1)[-1])
        open(filename, "w").close()
        return filename


@pytest.fixture
def choose(tmp_path, monkeypatch):
    """choose(criterion, epochs, ...) -> (scores as fairseq got them, the epoch whose checkpoint is the best)."""
    for function in (checkpoint_utils.save_checkpoint, train.should_stop_early):
        monkeypatch.delattr(function, "best", raising=False)

    def made(criterion, epochs, metric="pearson_and_spearman", **more):
        cfg = FairseqConfig()
        cfg.checkpoint.save_dir, cfg.checkpoint.no_last_checkpoints = str(tmp_path), True
        cfg.checkpoint.no_epoch_checkpoints = cfg.checkpoint.maximize_best_checkpoint_metric = True
        cfg.checkpoint.best_checkpoint_metric = metric
        trainer, scores, best = Trainer(criterion, **more), [], None
        for epoch, predictions in enumerate(epochs):
            trainer.epoch, trainer.predictions = epoch + 1, predictions
            position = SimpleNamespace(epoch=epoch + 1, end_of_epoch=lambda: True, state_dict=dict)
            metrics.reset()
            scores += train.validate(cfg, trainer, trainer.task, position, ["valid"])
            checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, position, scores[-1])
            best = epoch if trainer.saved else best
            trainer.saved.clear()
        return scores, best

    yield made
    for function in (checkpoint_utils.save_checkpoint, train.should_stop_early):
        vars(function).pop("best", None)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("criterion", CRITERIA)
def test_80_none_60(choose, criterion):
    assert choose(criterion, [EIGHTY, CONSTANT, SIXTY]) == ([80.0, 0.0, 60.0], 0)


F1, MCC = {"metric": "f1", "report": "report_acc_and_f1"}, {"metric": "mcc", "report": "report_mcc"}


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize(
    ("predicted", "targets", "more"),
    [  # one example, NaN, constant targets; no prediction or target of class 1
        *(([2.0], SCORES, {}), ([3.0, NAN, 1.0, 2.0], SCORES, {}), (EIGHTY, [1.0] * 4, {})),
        *(([1, 1], [0, 0], F1), ([0, 0], [0, 1], F1), ([1, 1], [0, 0], MCC), ([0, 0], [0, 1], MCC), ([0], [0], MCC)),
    ],
)
def test_a_score_that_is_not_defined_is_0(choose, criterion, predicted, targets, more):
    assert choose(criterion, [predicted], targets=targets, **more)[0] == [0.0]


def test_a_validation_loss_that_is_no_number_ends_the_run(choose):
    with pytest.raises(InputError, match="the run has diverged"):
        choose(SentencePredictionCriterion, [EIGHTY], loss=NAN)


def test_predictions_are_told_by_the_names_of_their_classes():
    """F1 is that of the class 1, the first where it is the more frequent one, as in MRPC."""
    criterion = object.__new__(SentencePredictionIDPGCriterion)
    criterion.label_dict, criterion.regression_target = Dictionary(), False
    criterion.fairseqs_reports = ["report_acc_and_f1"]
    for name in ("1", "0"):
        criterion.label_dict.add_symbol(name)
    found = criterion.logged_columns(
        torch.tensor([[2.0, 1.0], [2.0, 1.0], [1.0, 2.0]]), {"target": torch.tensor([[0], [1], [0]])}
    )
    assert (found["pred"], found["targ"]) == ([1, 1, 0], [1, 0, 1])
