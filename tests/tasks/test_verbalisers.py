"""One word for each class, in the order of the classes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fairseq_idpg.errors import InputError
from fairseq_idpg.saving.record import Record
from fairseq_idpg.tasks.verbalisers import PUBLISHED, complete_phrasing, verbaliser_tokens, words_of_classes
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
        task = names.get(name)
        assert task is None or (
            set(published.words) == set(task.labels) and ("{1}" in published.template) == task.pairs
        )


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
    ("options", "message"),
    [
        ({"task": "MR", "regression": True}, "--predict-with mlm is for classes, and --regression-target for scores"),
        ({}, "DATA is of no task with a published template (sst-2, mr, cr"),
        ({"task": "CoLA", "template": "{0} <mask>"}, "is of no task with a published template"),
        ({"verbalisers": "bad,good"}, "is of no task with a published template"),
        (
            {"task": "MR", "labels": ("no", "yes")},
            "has the labels no, yes, and the published verbalisers of MR are for",
        ),
        ({"task": "MR", "verbalisers": "good"}, "--verbalisers good: give a word for each of the 2 classes (0, 1)"),
        ({"task": "MR", "verbalisers": "bad,,good"}, "give a word for each of the 2 classes"),
        ({"task": "MR", "verbalisers": "2=bad,1=good"}, "name each class once, 0, 1, as 0=bad,1=good"),
        ({"task": "MR", "verbalisers": "1=bad,1=good"}, "name each class once"),
        ({"predict_with": "head", "template": "{0} <mask>"}, "--template has no effect with --predict-with head"),
        ({"predict_with": "head", "verbalisers": "a,b"}, "--verbalisers has no effect with --predict-with head"),
    ],
)
def test_refused(options, message):
    with pytest.raises(InputError) as refused:
        completed(**options)
    assert message in str(refused.value)


def test_classes_by_name_need_names():
    assert words_of_classes("bad,good", [], 2) == ["bad", "good"]
    with pytest.raises(InputError, match="name each class once, unknown"):
        words_of_classes("0=bad,1=good", [], 2)


def test_words_of_several_tokens(tmp_path):
    encoder = load_encoder("gpt2", write_vocab(tmp_path))
    assert verbaliser_tokens("terrible,great", encoder) == [
        encoder.encode_joined([f" {word}"])[0] for word in ("terrible", "great")
    ]
    for text, message in (
        ("great,bad", "'bad' is 4 tokens (' ', 'b', 'a', 'd'): use words of one token"),
        ("great,great", "'great' and 'great' are one token: use different words"),
    ):
        with pytest.raises(InputError) as refused:
            verbaliser_tokens(text, encoder)
        assert str(refused.value) == f"--verbalisers {text}: {message}"


def test_a_class_whose_name_has_the_sign():
    assert words_of_classes("a=b=good,c=bad", ["a=b", "c"], 2) == ["good", "bad"]


def test_a_class_twice_beside_all_others():
    with pytest.raises(InputError, match="name each class once"):
        words_of_classes("0=bad,1=good,1=fine", ["0", "1"], 2)
