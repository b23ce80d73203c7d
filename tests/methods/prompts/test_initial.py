"""--prompt-init: every way to start, at the rows it is meant for."""

import pytest
import torch

from fairseq_idpg.methods.base import WordEmbeddings
from fairseq_idpg.methods.prompts.initial import vocabulary_rows
from tests.helpers import dictionary, tiny_model
from tests.models.started import start

SPECIALS = dictionary().nspecial


def initialised(method="prompt-tuning", **options):
    model = tiny_model(method=method, **options)
    before = model.method.initial_rows.detach().clone()
    start(model)
    words = model.encoder.sentence_encoder.embed_tokens.weight[SPECIALS:]
    return model.method.initial_rows.detach(), before, words.detach()


@pytest.mark.parametrize("method", ["m-idpg-phm", "p-tuning-v2-kv"])
def test_uniform(method):
    rows, _, _ = initialised(method, prompt_init="uniform")
    assert rows.abs().max() <= 0.5 and 0.2 < rows.std() < 0.38  # 0.289


def test_vocabulary_rows_are_different_words_at_the_input_only():
    rows, before, words = initialised("p-tuning-v2", prompt_init="vocabulary")
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
    fillers = ["[unused0]", "[unused12]", "madeupword0000"]
    symbols = [*"0123", *fillers, "the", "[of]", "unused1", "[unused1]s", "madeupword0s", "<mask>"]
    known = WordEmbeddings(torch.arange(13.0)[:, None], 4, list, symbols=symbols)
    assert sorted(vocabulary_rows(None, known, 5).flatten().tolist()) == [7, 8, 9, 10, 11]


def test_class_labels_are_means_of_their_pieces():
    rows, _, words = initialised(prompt_init="class-labels", prompt_init_text="0 3|7")
    assert torch.allclose(rows[0, 0], (words[0] + words[3]) / 2) and torch.equal(rows[0, 1], words[7])
    assert all((words == row).all(1).any() for row in rows[0, 2:])


def test_text_is_cut_or_repeated():
    rows, _, words = initialised(prompt_init="text", prompt_init_text="4 5 6")
    assert torch.equal(rows[0], words[[4, 5, 6, 4, 5]])
    rows, _, words = initialised(prompt_init="text", prompt_init_text="4 5 6", prompt_length=2)
    assert torch.equal(rows[0], words[[4, 5]])
