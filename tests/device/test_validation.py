"""What a validation waits for: the numbers of the log, and one list a batch where predictions are reported."""

import pytest
import torch

from preprocess.split_scores import METRICS
from tests.folders import write_folder, write_questions

from .cases import IDPG
from .steps import batch, started
from .watch import ASKED, META, Fetches, Watch

FAIRSEQS = {f"report_{name}": True for name in ("mcc", "acc_and_f1", "pearson_and_spearman")}
OURS = {f"report_{name}": True for name in METRICS}
LOG = "fairseq/logging/meters.py safe_round"
CRITERIA = ["sentence_prediction", "sentence_prediction_idpg"]


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    folder = write_folder(tmp_path_factory.mktemp("validation") / "pairs", splits={"train": 8, "valid": 4})
    return str(write_questions(folder, "valid", [0, 1, 1, 0], [0.5, 0, 1, 0.25]))


@pytest.mark.parametrize(("criterion", "predict_with"), [(CRITERIA[0], "mlm"), (CRITERIA[1], "head")])
def test_a_batch_without_reports_is_waited_for_by_the_log_alone(place, criterion, predict_with):
    trainer = started(place, device="meta", criterion=criterion, predict_with=predict_with, **IDPG)
    watch = Watch(META, ASKED)
    samples = batch(trainer, "valid")
    with watch:
        trainer.valid_step(samples)
    assert {who for who, _ in watch.reads} == {LOG} and not watch.strays


@pytest.mark.parametrize("reports", [FAIRSEQS, OURS, {**FAIRSEQS, **OURS}], ids=["fairseq's", "ours", "both"])
def test_all_reports_of_a_batch_are_one_list(place, asked, reports):
    """Before the log, which then has lists of the host."""
    options = {"task": {"data": asked}, "criterion": "sentence_prediction_idpg", "reports": reports}
    trainer = started(place, **IDPG, **options)
    samples = batch(trainer, "valid", size=4)
    with Fetches() as calls:
        trainer.task.valid_step(samples, trainer.model.eval(), trainer.criterion)
    assert calls.found == {("fairseq_idpg/criterions/sentence_prediction_idpg.py fetched_columns", "tolist"): 1}


@pytest.mark.parametrize("regression", [False, True])
def test_the_lists_are_fairseqs(place, tmp_path, regression):
    data = str(write_folder(tmp_path / "data", regression=regression))
    of_task, said = {"data": data, "regression_target": regression, "num_classes": 1 if regression else 2}, []
    reports = {"report_pearson_and_spearman": True} if regression else {"report_mcc": True, "report_acc_and_f1": True}
    for criterion in CRITERIA:
        options = {"task": of_task, "criterion": criterion, "reports": {**reports, "regression_target": regression}}
        trainer = started(place, **IDPG, **options)
        with torch.no_grad():
            _, _, log = trainer.criterion(trainer.model.eval(), batch(trainer, "valid", size=5))
        said.append({name: value for name, value in log.items() if not isinstance(value, torch.Tensor)})
    theirs, ours = said
    assert theirs == ours and len(ours["pred"]) == 5
    assert {type(value) for value in ours["pred"] + ours["targ"]} == {float if regression else int}
