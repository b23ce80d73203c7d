"""One word for each class, in the order of the classes."""

from types import SimpleNamespace

import pytest

from fairseq_idpg.errors import InputError
from fairseq_idpg.saving.record import Record
from fairseq_idpg.tasks.template import PUBLISHED, complete_phrasing, verbaliser_tokens, words_of_classes
from preprocess.encoders import load_encoder
from preprocess.tasks import TASKS
from tests.phrases import write_vocab


def completed(labels=("0", "1"), task=None, regression=False, **options):
    cfg = SimpleNamespace(**{"predict_with": "mlm", "template": None, "verbalisers": None, **options})
    task_cfg = SimpleNamespace(data="DATA", regression_target=regression, num_classes=len(labels))
    complete_phrasing(cfg, task_cfg, Record(task=task, labels=list(labels) or None))
    return cfg.template, cfg.verbalisers


def test_published_words_fit_the_known_tasks():
    names = {name.lower(): task for name, task in TASKS.items()}
    assert PUBLISHED.keys() - names.keys() == {"trec"}
    for name, published in PUBLISHED.items():
        if task := names.get(name):
            assert {*published.words} == {*task.labels} and ("{1}" in published.template) == task.pairs


def test_published_words_are_in_the_order_of_the_classes():
    assert completed(task="SST-2", labels=("1", "0")) == ("{0} . It was <mask> .", "great,terrible")
    assert completed(task="MNLI", labels=("neutral", "contradiction", "entailment"))[1] == "Maybe,No,Yes"
    assert completed(task="QQP")[0] == "{0} <mask> , {1}"
    assert completed(task="MR", template="{0} <mask>") == ("{0} <mask>", "terrible,great")
    assert completed(task="MR", verbalisers="1=fine,0=bad", labels=("1", "0"))[1] == "fine,bad"
    assert completed(template="{0} <mask>", verbalisers="bad, good") == ("{0} <mask>", "bad,good")


def test_a_second_time_nothing_changes():
    """A checkpoint records the words; the folder it is read with may have its classes in another order."""
    template, words = completed(task="MR", labels=("1", "0"))
    assert completed(task="MR", labels=("0", "1"), template=template, verbalisers=words) == (template, words)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"task": "MR", "regression": True}, "--regression-target"),
        ({}, "--template"),
        ({"task": "CoLA", "template": "{0} <mask>"}, "--verbalisers"),
        ({"task": "MR", "labels": ("no", "yes")}, "no, yes"),
        ({"task": "MR", "verbalisers": "bad,,good"}, "--verbalisers bad,,good"),
        ({"task": "MR", "verbalisers": "2=bad,1=good"}, "--verbalisers 2=bad,1=good"),
        ({"task": "MR", "verbalisers": "0=bad,1=good,1=fine"}, "--verbalisers 0=bad,1=good,1=fine"),
        ({"predict_with": "head", "verbalisers": "a,b"}, "--verbalisers has no effect"),
    ],
)
def test_refused(options, named):
    with pytest.raises(InputError, match=named):
        completed(**options)


def test_words_by_the_names_of_classes():
    assert words_of_classes("bad,good", [], 2) == ["bad", "good"]
    assert words_of_classes("a=b=good,c=bad", ["a=b", "c"], 2) == ["good", "bad"]


def test_words_of_several_tokens(tmp_path):
    encoder = load_encoder("gpt2", write_vocab(tmp_path))
    expected = [encoder.encode_joined([f" {word}"])[0] for word in ("terrible", "great")]
    assert verbaliser_tokens("terrible,great", encoder) == expected
    for text, named in (("great,bad", "'bad' is 4 tokens"), ("great,great", "'great' is the token of 'great'")):
        with pytest.raises(InputError, match=f"--verbalisers {text}: {named}"):
            verbaliser_tokens(text, encoder)
