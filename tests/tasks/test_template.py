"""Templates in tokens are the tokens of the whole text."""

from pathlib import Path

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fairseq_idpg.errors import InputError
from fairseq_idpg.tasks.template import PUBLISHED, encode_template, verbaliser_tokens
from preprocess.encoders import load_encoder
from tests.phrases import write_vocab

GPT2_BPE = Path(__file__).parents[3] / "shared" / "data" / "gpt2_bpe"
MASK, START, END = 50264, 0, 2
SENTENCE = st.one_of(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30),
    st.lists(st.sampled_from(["It's", "fine", "5th", "(no)", "naïve", "'s", "...", "Was", "中文"]), min_size=1).map(
        " ".join
    ),
)


@pytest.fixture(scope="module")
def roberta():
    if not GPT2_BPE.is_dir():
        pytest.skip(f"{GPT2_BPE} is not there")
    return load_encoder("gpt2", GPT2_BPE)


def alone(encoder, text):
    return torch.from_numpy(encoder.encode([text])[0][:-1].astype("int64"))


def check(encoder, text, *sentences):
    template = encode_template(text, len(sentences) == 2, encoder, MASK, START, END)
    placed = [template.place(number, alone(encoder, sentence)) for number, sentence in enumerate(sentences)]
    tokens, at = template.join(placed), template.mask_index([*map(len, placed)])
    whole = text
    for number, sentence in enumerate(sentences):
        whole = whole.replace(f"{{{number}}}", sentence.strip())
    left, _, right = whole.partition("<mask>")
    expected = [encoder.encode_joined([part])[:-1].tolist() for part in (left.rstrip(), right)]
    assert tokens.tolist() == [START, *expected[0], MASK, *expected[1], END]
    assert tokens[at] == MASK and at == 1 + len(expected[0])
    assert len(tokens) == template.words + sum(map(len, placed))


@settings(max_examples=200)
@given(a=SENTENCE, b=SENTENCE)
def test_tokens_are_those_of_the_text(roberta, a, b):
    assume(a.strip() and b.strip() and "<mask>" not in a + b and "{" not in a + b)
    for published in {published.template for published in PUBLISHED.values()}:
        check(roberta, published, *((a, b) if "{1}" in published else (a,)))
    check(roberta, "{1} . So it was <mask>. ( {0} )", a, b)


def test_a_small_vocabulary(tmp_path):
    encoder = load_encoder("gpt2", write_vocab(tmp_path))
    assert len(encoder.encode_part(" great")) == 1 and len(encoder.encode_part("", behind="great")) == 0
    assert encoder.behind_space(alone(encoder, "great").tolist()) == encoder.encode_part(" great")
    check(encoder, "<mask> : {0}", "great")
    check(encoder, "{0} ? <mask> , {1}", "it was great", "Yes")


def test_published_words_are_single_tokens_of_roberta(roberta):
    for published in PUBLISHED.values():
        assert len(verbaliser_tokens(",".join(published.words.values()), roberta)) == len(published.words)


@pytest.mark.parametrize(
    ("text", "pairs", "named"),
    [
        ("{0} It was great .", False, "<mask>"),
        ("{0} <mask> <mask>", False, "<mask>"),
        ("{0} ? <mask>", True, "{1}"),
        ("{0} ? <mask> , {1}", False, "{1}"),
        ("{0} </s> <mask>", False, "</s>"),
        ("{0} {2} <mask>", False, "{"),
        ("{0}ish <mask>", False, "'ish'"),
    ],
)
def test_what_is_no_template(tmp_path, text, pairs, named):
    encoder = load_encoder("gpt2", write_vocab(tmp_path))
    with pytest.raises(InputError) as refused:
        encode_template(text, pairs, encoder, MASK, START, END)
    start, _, said = str(refused.value).partition(text)
    assert start == "--template " and named in said
