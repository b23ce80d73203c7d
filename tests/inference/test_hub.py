"""fairseq's own way to a trained model: tokens in, features and log-probabilities of these tokens out."""

import os
import shutil

import pytest
import torch
import torch.nn.functional as F
from fairseq.checkpoint_utils import load_model_ensemble_and_task

from fairseq_idpg import RobertaIDPGModel, load
from fairseq_idpg.errors import InputError
from tests.helpers import TINY
from tests.inference.conftest import KINDS, LABELS, inputs, make_folder

HEAD = "sentence_classification_head"


@pytest.fixture(scope="module")
def hub(idpg):
    return lambda kind: RobertaIDPGModel.from_pretrained(idpg(kind).parent, "checkpoint_last.pt")


@pytest.mark.parametrize("kind", KINDS)
def test_as_from_sentences(kind, hub):
    model, texts = hub(kind), inputs(kind)[:5]
    rows = [model.encode(*([text] if isinstance(text, str) else text)) for text in texts]
    assert [model.decode(row) for row in rows] == [text if isinstance(text, str) else list(text) for text in texts]
    found = model.predictor.predict(texts, features=True)
    together = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=1)
    together = F.pad(together, (0, 3), value=1)
    logits = model.predict(HEAD, together, return_logits=True)
    features, hiddens = model.extract_features(together), model.extract_features(together, return_all_hiddens=True)
    assert features.shape == (5, together.size(1), TINY["encoder_embed_dim"])
    assert torch.equal(hiddens[-1], features) and len(hiddens) == TINY["encoder_layers"] + 1
    assert torch.allclose(features[:, 0], torch.stack([p.features for p in found]), atol=1e-5)
    for number, (row, prediction) in enumerate(zip(rows, found)):
        assert torch.allclose(model.extract_features(row)[0], features[number, : len(row)], atol=1e-5)
        if kind == "scores":
            assert 5 * logits[number].item() == pytest.approx(prediction.score, abs=1e-4)
        else:
            expected = torch.tensor(list(prediction.probabilities.values())).log()
            assert torch.allclose(model.predict(HEAD, row)[0], expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["singles", "pairs", "shared", "fairseq's own"])
def test_the_name_of_a_class_by_the_recipe_of_fairseq(kind, hub, idpg, shared_folder):
    path = idpg("pairs" if kind == "shared" else "singles" if kind == "fairseq's own" else kind)
    if kind == "fairseq's own":
        _, _, task = load_model_ensemble_and_task([str(path)])
    else:
        task = (RobertaIDPGModel.from_pretrained(shared_folder) if kind == "shared" else hub(kind)).task
    names, expected = task.label_dictionary, load(path, device="cpu").labels
    assert [names.string([i + names.nspecial]) for i in range(2)] == expected
    assert [names.index(name) - names.nspecial for name in expected] == [0, 1]
    assert task.target_dictionary is task.source_dictionary and "<mask>" in task.source_dictionary.indices


def test_the_task_gives_targets_in_the_order_of_the_model(place, idpg, tmp_path):
    shutil.copytree(place / "vocab", tmp_path / "vocab")
    run = idpg("pairs").parent
    for order in (LABELS, LABELS[::-1]):
        data = make_folder(tmp_path, "pairs", "--labels", *order, "--overwrite")
        from_run = os.path.relpath(data, run)  # fairseq takes what begins with a dot from there
        model = RobertaIDPGModel.from_pretrained(run, "checkpoint_last.pt", data_name_or_path=from_run)
        expected = [model.predictor.labels.index(LABELS["red" in first]) for first, _ in inputs("pairs")]
        dataset = model.task.load_dataset("valid")
        items = [dataset[i] for i in range(16)]
        assert dataset.collater(items)["target"].flatten().tolist() == expected
        for item, text in zip(items, inputs("pairs")):
            assert torch.equal(item["net_input.src_tokens"], model.encode(*text))


def test_prompt_rows_are_left_out_of_the_features(hub):
    """The first layer's input: the words' embeddings, at their places among the prompt's rows."""
    model = hub("pairs")
    tokens = model.encode("red cat", "dog")
    embedded = model.extract_features(tokens, return_all_hiddens=True)[0][0]
    stack = model.model.encoder.sentence_encoder
    places = torch.tensor([2, *range(6, len(tokens) + 5)])  # <s>, then after three rows at position 0
    words = stack.embed_tokens(tokens) + stack.embed_positions.weight[places]
    assert torch.allclose(embedded, stack.layernorm_embedding(words), atol=1e-5)


@pytest.mark.parametrize("kind, row", [
    *(("pairs", row) for row in ([0, 5], [5, 2], [0, 5, 2, 6, 2])),
    *(("singles", row) for row in ([1, 0, 5, 6, 2], [0, 1, 5, 2, 6], [0, 2])),
])  # fmt: skip
def test_other_tokens_are_refused(hub, kind, row):
    """Pads that are not at the end, too: they would move the tokens, and give other answers."""
    model, tokens = hub(kind), torch.tensor([row])
    for read in (model.extract_features, lambda tokens: model.predict(HEAD, tokens)):
        with pytest.raises(InputError, match="row 1 of the tokens"):
            read(tokens)


def test_what_it_has_no_answer_to(hub):
    """fairseq's softmax over one number would be 0 for all scores; a text would lose its end."""
    scores, singles = hub("scores"), hub("singles")
    with pytest.raises(InputError, match="return_logits"):
        scores.predict(HEAD, scores.encode("red cat", "dog"))
    with pytest.raises(InputError, match="row 1 of the tokens"):
        singles.predict(HEAD, singles.encode("cat " * 40))
    with pytest.raises(InputError, match="input 1"):
        scores.encode("one")


def test_a_new_head_by_the_recipe_of_fairseq(idpg):
    model = RobertaIDPGModel.from_pretrained(idpg("singles").parent, "checkpoint_last.pt")
    model.model.args.pooler_dropout = 0.5
    model.register_classification_head("new_task", num_classes=3)
    tokens = model.encode("red cat")
    expected = model.model.classification_heads["new_task"](model.extract_features(tokens))
    found = model.predict("new_task", tokens, return_logits=True)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    assert found.shape == (1, 3)
