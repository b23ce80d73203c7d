"""--prompt-init: every way to start, at the rows it is meant for."""

from __future__ import annotations

import pytest
import torch

from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.base import WordEmbeddings
from fairseq_idpg.methods.prompts.base import PromptMethod
from fairseq_idpg.methods.prompts.initial import vocabulary_rows
from fairseq_idpg.models.config import METHOD_OPTIONS
from tests.folders import same_tensors
from tests.helpers import dictionary, tiny_model

SPECIALS = dictionary().nspecial
METHODS = ("prompt-tuning", "p-tuning-v2", "m-idpg-phm", "s-idpg-dnn")


def words_of(model) -> WordEmbeddings:
    """Text is numbers of words: '0 3' are the first and the fourth word of the dictionary."""
    encode = lambda text: [SPECIALS + int(word) for word in text.split()]  # noqa: E731
    embeddings = model.encoder.sentence_encoder.embed_tokens.weight
    return WordEmbeddings(embeddings, SPECIALS, encode, model.backbone_fingerprint)


def initialised(method="prompt-tuning", **options):
    model = tiny_model(method=method, **options)
    before = model.method.initial_rows.detach().clone()
    model.method.set_initial_values(model.args, words_of(model))
    words = model.encoder.sentence_encoder.embed_tokens.weight[SPECIALS:]
    return model.method.initial_rows.detach(), before, words.detach()


@pytest.mark.parametrize("method", METHODS)
def test_normal_is_what_the_method_builds(method):
    rows, before, _ = initialised(method)
    assert torch.equal(rows, before)


@pytest.mark.parametrize(
    ("method", "std"),
    [
        *[(method, 0.02) for method in ("prompt-tuning", "p-tuning-v2-kv", "lpt-naive", "m-idpg-phm", "m-idpg-dnn")],
        *[(method, 20**-0.5 / 3**0.5) for method in ("lpt-npg", "id-spam")],
        ("s-idpg-dnn", 0),
    ],
)
def test_normal_as_the_option_says(method, std):
    more = {"generator_hidden_size": 20} if std > 0.1 else {}
    more.update({"generator_bias": "true"} if method == "id-spam" else {})
    rows, _, _ = initialised(method, prompt_init="normal", prompt_length=50, **more)
    assert rows.std().item() == pytest.approx(std, rel=0.1)
    if std > 0.1:
        assert rows.abs().max() <= 20**-0.5
    said = " ".join(METHOD_OPTIONS["prompt_init"].metadata["help"].split())
    for part in ("'normal' N(0, 0.02^2)", "read states within 1/sqrt(m)", "a dnn with --prompt-layers first 0"):
        assert part in said


@pytest.mark.parametrize("method", [*METHODS, "p-tuning-v2-kv"])
def test_uniform(method):
    rows, _, _ = initialised(method, prompt_init="uniform")
    assert rows.abs().max() <= 0.5 and 0.2 < rows.std() < 0.38  # 0.289


@pytest.mark.parametrize("method", METHODS)
def test_vocabulary_rows_are_different_words_at_the_input_only(method):
    rows, before, words = initialised(method, prompt_init="vocabulary")
    chosen = [(words == row).all(1).nonzero().flatten().tolist() for row in rows[0]]
    assert all(len(found) == 1 for found in chosen) and len({found[0] for found in chosen}) == 5
    assert torch.equal(rows[1:], before[1:])


def test_vocabulary_is_the_most_frequent_words_and_never_a_special():
    embeddings = torch.arange(6000.0)[:, None]  # the embedding of a symbol is its id
    rows = vocabulary_rows(None, WordEmbeddings(embeddings, 4, list), 5000).flatten()
    assert sorted(rows.tolist()) == list(range(4, 5004))
    few = vocabulary_rows(None, WordEmbeddings(embeddings[:8], 4, list), 7).flatten()
    assert sorted(few.tolist().count(word) for word in (4, 5, 6)) == [2, 2, 3]  # 7 is <mask>


def test_vocabulary_leaves_out_symbols_that_are_no_words():
    """A converted BERT's dictionary begins with [unused0] to [unused993]; one that fairseq builds ends with fillers."""
    symbols = [*"0123", *(f"[unused{i}]" for i in range(3)), "the", "[of]", "madeupword0000", "unused1", "<mask>"]
    known = WordEmbeddings(torch.arange(12.0)[:, None], 4, list, symbols=symbols)
    assert sorted(vocabulary_rows(None, known, 3).flatten().tolist()) == [7, 8, 10]


def test_class_labels_are_means_of_their_pieces():
    rows, _, words = initialised(prompt_init="class-labels", prompt_init_text="0 3|7")
    assert torch.allclose(rows[0, 0], (words[0] + words[3]) / 2) and torch.equal(rows[0, 1], words[7])
    assert all((words == row).all(1).any() for row in rows[0, 2:])


def test_class_labels_for_every_row():
    rows, _, words = initialised(prompt_init="class-labels", prompt_init_text="0 3|7", prompt_length=2)
    assert torch.allclose(rows[0, 0], (words[0] + words[3]) / 2) and torch.equal(rows[0, 1], words[7])


def test_text_is_cut_or_repeated():
    rows, _, words = initialised(prompt_init="text", prompt_init_text="4 5 6")
    assert torch.equal(rows[0], words[[4, 5, 6, 4, 5]])
    rows, _, words = initialised(prompt_init="text", prompt_init_text="4 5 6", prompt_length=2)
    assert torch.equal(rows[0], words[[4, 5]])


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_prompt(method, tmp_path):
    source = tiny_model(method=method)
    with torch.no_grad():
        for parameter in source.method.parameters():
            parameter.add_(1)
    path = tmp_path / "checkpoint_best.pt"
    torch.save({"args": None, "cfg": {"model": {}}, "model": source.state_dict()}, path)
    model = tiny_model(method=method, prompt_init="saved", prompt_init_from=str(path))
    model.method.set_initial_values(model.args, words_of(model))
    for ours, theirs in zip(model.method.parameters(), source.method.parameters()):
        assert torch.equal(ours, theirs)
    other = tiny_model(method=method, prompt_init="saved", prompt_init_from=str(path), prompt_length=4)
    with pytest.raises(InputError, match="holds another method or other sizes"):
        other.method.set_initial_values(other.args, words_of(other))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("prompt-tuning+adapter", "prompt-tuning"),
        ("prompt-tuning", "lora+prompt-tuning"),
        ("adapter+id-spam", "id-spam+lora"),
        ("m-idpg-dnn+bitfit", "bitfit+m-idpg-dnn"),
        ("mam", "prefix-tuning"),
        ("dept+lora", "dept+lora"),
    ],
)
def test_a_saved_prompt_of_joined_methods(source, target, tmp_path):
    """The prompt's values are taken over, wherever it stands in either; those of the others are not."""
    sizes = {"reparameterization_hidden_size": 7, "prompt_length": 3} if "mam" in source else {}
    given = tiny_model(method=source, **sizes)
    with torch.no_grad():
        for parameter in given.method.parameters():
            parameter.add_(1)
    path = tmp_path / "checkpoint_best.pt"
    torch.save({"args": None, "cfg": {"model": {}}, "model": given.state_dict()}, path)
    model = tiny_model(method=target, **sizes, prompt_init="saved", prompt_init_from=str(path))
    before = {name: value.clone() for name, value in model.method.state_dict().items()}
    model.method.set_initial_values(model.args, words_of(model))
    (ours,), (theirs,) = (
        [part for part in getattr(each.method, "parts", [each.method]) if isinstance(part, PromptMethod)]
        for each in (model, given)
    )
    assert ours.state_dict() and same_tensors(ours.state_dict(), theirs.state_dict())
    changed = {name for name, value in model.method.state_dict().items() if not torch.equal(value, before[name])}
    prefix = next((f"parts.{i}." for i, part in enumerate(getattr(model.method, "parts", [])) if part is ours), "")
    assert changed == {f"{prefix}{name}" for name in ours.state_dict()}


@pytest.mark.parametrize(
    ("source", "target"),
    [("p-tuning-v2-kv", "p-tuning-v2"), ("p-tuning-v2", "p-tuning-v2-kv"), ("p-tuning-v2-kv", "key-value-input")],
)
def test_keys_and_values_are_no_rows_of_another_kind(source, target, tmp_path):
    """Though they have the same shape: 5 keys and 5 values, 10 rows."""

    def of(name, **more):
        options = {"method": "p-tuning-v2-kv", "prompt_insertion": name} if "input" in name else {"method": name}
        return tiny_model(**options, prompt_length=10 if name == "p-tuning-v2" else 5, **more)

    path, given = tmp_path / "checkpoint_best.pt", of(source)
    torch.save({"args": None, "cfg": {"model": vars(given.args)}, "model": given.state_dict()}, path)
    model = of(target, prompt_init="saved", prompt_init_from=str(path))
    kinds = given.args.prompt_insertion, model.args.prompt_insertion
    with pytest.raises(InputError, match="a prompt for --prompt-insertion {}, and this run's is for {}".format(*kinds)):
        model.method.set_initial_values(model.args, words_of(model))


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        ({"representation": "mean-pooled"}, {}, "with --representation mean-pooled"),
        ({}, {"generator_residual": True}, "without --generator-residual"),
        ({"prompt_init": "uniform"}, {}, ""),
        ({}, {}, ""),
    ],
)
def test_values_of_other_options_are_told_of(source, target, told, tmp_path, caplog):
    """They have the same shapes, and nothing else would say that they were fitted to something else."""
    path, given = tmp_path / "checkpoint_best.pt", tiny_model(method="m-idpg-phm", **source)
    torch.save({"args": None, "cfg": {"model": vars(given.args)}, "model": given.state_dict()}, path)
    model = tiny_model(method="m-idpg-phm", **target, prompt_init="saved", prompt_init_from=str(path))
    model.method.set_initial_values(model.args, words_of(model))
    assert same_tensors(model.method.state_dict(), given.method.state_dict())
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == bool(told) and all(f"{path} was trained {told}, which" in text for text in warnings)


@pytest.mark.parametrize("method", ["prompt-tuning", "m-idpg-phm", "ept", "mpt", "spot"])
@pytest.mark.parametrize("other", [True, False])
def test_values_fitted_to_another_backbone_are_told_of(method, other, tmp_path, caplog):
    path, given = tmp_path / "checkpoint_best.pt", tiny_model(method=method)
    given.backbone_fingerprint[0] = 1
    torch.save({"args": None, "cfg": {"model": vars(given.args)}, "model": given.state_dict()}, path)
    model = tiny_model(method=method, prompt_init="saved", prompt_init_from=str(path))
    model.backbone_fingerprint[0] = 2 if other else 1
    model.method.set_initial_values(model.args, words_of(model))
    assert same_tensors(model.method.state_dict(), given.method.state_dict())
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == other and all(
        f"{path} was trained on another backbone or with another" in w for w in warnings
    )


def test_a_saved_prompt_of_joined_methods_of_other_sizes(tmp_path):
    path = tmp_path / "checkpoint_best.pt"
    given = tiny_model(method="adapter+prompt-tuning", prompt_length=4)
    torch.save({"args": None, "cfg": {"model": {}}, "model": given.state_dict()}, path)
    model = tiny_model(method="prompt-tuning+adapter", prompt_init="saved", prompt_init_from=str(path))
    with pytest.raises(InputError, match=r"holds another method or other sizes \(table differs\)"):
        model.method.set_initial_values(model.args, words_of(model))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt_init": "class-labels"}, "class-labels needs the classes' texts"),
        ({"prompt_init": "class-labels", "prompt_init_text": "1|2|3", "prompt_length": 2}, "3 classes for 2"),
        ({"prompt_init": "class-labels", "prompt_init_text": "1|"}, "'' has no words"),
        ({"prompt_init": "text"}, "text needs a text"),
        ({"prompt_init": "saved"}, "saved needs a checkpoint"),
        ({"prompt_init": "saved", "prompt_init_from": "/nowhere.pt"}, "--prompt-init-from /nowhere.pt is not"),
        ({"prompt_init": "vocabulary", "method": "p-tuning-v2-kv"}, "vocabulary is for rows of the input"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(InputError, match=message):
        initialised(**options)
