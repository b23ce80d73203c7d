"""Who finds rows of M(x), and by what those of a cache are named."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fairseq_idpg.errors import InputError
from fairseq_idpg.models.config import Activation
from fairseq_idpg.representations.cache import RepresentationCache, SplitText
from fairseq_idpg.representations.stored import stored_representations
from tests.folders import write_folder
from tests.helpers import tiny_model


def options(folder=None, shorten_method="none"):
    cache = {"representation_cache": folder, "representation_cache_dtype": "float32"}
    return SimpleNamespace(**cache, shorten_method=shorten_method)


@pytest.fixture
def text(pairs):
    return SplitText(str(pairs), "valid", ["input0", "input1"], False, 13, 1, [0, 2, False, np.arange(13)])


@pytest.mark.parametrize("method", [{"method": "lpt-appg", "generator_input": "last"}, {"method": "id-spam"}])
def test_no_cache_of_what_is_no_row(tmp_path, caplog, method):
    caplog.set_level("INFO")
    assert stored_representations(options(str(tmp_path)), tiny_model(**method)) is None
    assert f"--representation-cache is not used: --method {method['method']}" in caplog.text


def test_a_cache_of_every_split(text, tmp_path):
    found = stored_representations(options(str(tmp_path)), tiny_model(method="m-idpg-phm"))
    one, twice = (found(replace(text, copies=copies)) for copies in (1, 2))
    assert isinstance(one, RepresentationCache) and not one.complete
    assert (one.key.kind, one.key.rows, one.key.width, one.key.precision) == ("backbone", 13, 32, "float32")
    assert twice.key.rows == 26


@pytest.mark.parametrize(
    "other", [{"encoder_attention_heads": 8}, {"layer_norm_eps": 1e-12}, {"activation_fn": "relu"}]
)
def test_the_same_tensors_read_in_another_way_are_another_backbone(text, tmp_path, other):
    """The digest of tensors does not tell heads, activation and eps."""
    same = {"activation_fn": Activation("gelu")}  # as a command line gives it
    models = [tiny_model(method="m-idpg-phm", **more) for more in ({}, same, other)]
    names = [stored_representations(options(str(tmp_path)), model)(text).key.name for model in models]
    assert names[0] == names[1] != names[2]


@pytest.mark.parametrize(
    ("method", "shorten_method", "message"),
    [
        ({"no_freeze_backbone": True}, "none", "--no-freeze-backbone"),
        ({"representation_dropout": True}, "none", "--representation-dropout"),
        ({}, "random_crop", "--shorten-method random_crop"),
    ],
)
def test_no_cache_of_what_changes(tmp_path, method, shorten_method, message):
    with pytest.raises(InputError, match=f"^--representation-cache with {message}"):
        stored_representations(options(str(tmp_path), shorten_method), tiny_model(method="m-idpg-phm", **method))


def test_other_texts_have_other_digests(text, tmp_path):
    other = write_folder(tmp_path / "b", longest=11)
    changes = [{"data": str(other)}, {"split": "train"}, {"inputs": ["input0"]}]
    changes += [{"arrangement": [0, 2, True, np.arange(13)]}, {"arrangement": [0, 2, False, np.arange(1, 14)]}]
    digests = {text.digest(), *(replace(text, **change).digest() for change in changes)}
    assert len(digests) == 1 + len(changes)
    assert text.digest() == replace(text, arrangement=[0, 2, False, np.arange(13)]).digest()
    many, others = np.arange(5000), np.where(np.arange(5000) == 2500, 0, np.arange(5000))
    assert replace(text, arrangement=[many]).digest() != replace(text, arrangement=[others]).digest()
