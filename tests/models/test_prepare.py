"""Options and starts of a model, from what the task says of its data."""

import argparse
from types import SimpleNamespace

import pytest

from fairseq_idpg.errors import InputError
from fairseq_idpg.models.config import open_options
from fairseq_idpg.models.prepare import DataFacts, complete_options, prepare_model
from fairseq_idpg.saving.record import Record
from tests.helpers import dictionary, pair_batch, tiny_model


def facts(record: Record | None = None, **more) -> DataFacts:
    options = {"prompt_position": 0, "group_by_length": False, "classification_head_name": "head"}
    rows = {"representation_cache": None, "representation_cache_dtype": "float32"}
    states = {"state_cache": None, "state_cache_dtype": "model"}
    cfg = SimpleNamespace(data="DATA", **options, **rows, **states)
    return DataFacts(cfg, dictionary(), encode=lambda text: [4, 5], record=record, take_order=None)


def test_an_arch_without_a_method():
    with pytest.raises(InputError, match="^--arch roberta_base"):
        complete_options(argparse.Namespace(_name="roberta_base"), facts())


def test_pairs_are_asked_of_a_data_folder_alone():
    """A trained model that reads sentences from elsewhere needs no pairs."""
    with pytest.raises(InputError, match="^--method efl .* DATA"):
        complete_options(open_options(method="efl", backbone=None), facts(Record(pairs=False)))
    for record in (Record(pairs=True), None):
        cfg = open_options(method="efl", backbone=None)
        complete_options(cfg, facts(record))
        assert cfg.no_freeze_backbone


def test_an_idle_option_is_refused_in_a_new_run_alone():
    """A checkpoint may have been made by a version that took it."""
    model = tiny_model(method="m-idpg-phm", phm_n=4, prompt_layers="first", generator_sharing="S")
    model.args.head_init_from, model.args.no_save_optimizer_state = None, False
    with pytest.raises(InputError, match="^--generator-sharing S"):
        prepare_model(model, facts(), training=True)
    prepare_model(model, facts(), training=False)


@pytest.mark.parametrize(
    "method", [{"method": "prompt-tuning"}, {"method": "m-idpg-phm-glove", "representation_width": 8}], ids=str
)
def test_batches_of_fairseqs_own_task_are_refused(method):
    """They say neither where a prompt goes nor what the mean vector of the words is."""
    with pytest.raises(InputError, match="--task sentence_prediction_idpg"):
        tiny_model(**method)(pair_batch())


def test_a_model_without_its_backbone_predicts_nothing():
    model = tiny_model(method="head-only", backbone="nowhere.pt")
    model.backbone_loaded = False
    with pytest.raises(InputError, match="^--backbone nowhere.pt"):
        model(pair_batch())
