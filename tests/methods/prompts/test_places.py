"""Every generator at every place: equal to a pass written out, in values and gradients, or refused in one line.

The rows and columns are those of the table in OPTIONS.md (``fairseq_idpg/places_table.py``). VARIANTS are made in other
ways, which no place knows of: a place of each kind is enough for them.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.base import WordEmbeddings
from fairseq_idpg.methods.prompts.base import PromptMethod
from fairseq_idpg.methods.registry import PRESETS, find_preset
from fairseq_idpg.places_table import COLUMNS, GENERATORS, INPUTS, command, refusal
from tests.helpers import PAD, enlarge, pair_batch, prompted, single_batch, tiny_model
from tests.methods.prompts.plain_prompts import plain_features
from tests.sources import give_sources

EPT = {"method": "ept", "prompt_init": "normal"}
WITHOUT_WORDS = {**EPT, "ept_decomposition": "false"}
VARIANTS = [
    {"method": "prefix-tuning", "prompt_reparameterization": "none"},
    {**EPT, "ept_fusion": "printed"},
    {**EPT, "ept_fusion": "none"},  # from here on the components that EPT's Table 2 leaves out
    {**EPT, "ept_experts": 0},
    {**EPT, "ept_fusion": "none", "ept_experts": 0},
    {**WITHOUT_WORDS, "ept_fusion": "printed"},
    {**WITHOUT_WORDS, "ept_fusion": "none"},
    {**WITHOUT_WORDS, "ept_fusion": "none", "ept_experts": 0},
    {"method": "smop", "smop_chosen": 2, "smop_prompts": 3},
    {"method": "s-idpg-dnn"},
    {"method": "m-idpg-dnn"},
    {"method": "m-idpg-dnn", "representation": "backbone", "generator_sharing": "S"},
    {"method": "m-idpg-phm", "generator_sharing": "L"},
    {"method": "lpt-npg", "generator_sharing": "M"},
    {"method": "lpt-mppg", "generator_bias": "false"},
    *({"method": "lpt-appg", "generator_input": read} for read in INPUTS),
    {"method": "lpt-appg", "generator_sharing": "L"},
    {"method": "id-spam", "generator_bias": "true", "id_spam_output": "linear"},
    {"method": "id-spam", "generator_input": "states", "generator_sharing": "L"},
    *({"method": "id-spam", "generator_input": read, "id_spam_pooling": "mean"} for read in INPUTS),
]
SOME = [("add", "all"), ("key-value", "all"), ("late", "middle")]
CELLS = [(generator, *place) for generator in GENERATORS for place in COLUMNS]
CELLS += [
    (generator, *place)
    for generator in VARIANTS
    for place in SOME
    if place[1] == "all" or "generator_sharing" not in generator  # at one place there is nothing to share
]

LENGTH, VECTORS = 3, 8
SMALL = {
    "prompt_length": LENGTH,
    "generator_hidden_size": 8,
    "phm_n": 4,
    "reparameterization_hidden_size": 5,
    "words_rank": 2,
    "words_length": 4,
    "ept_hidden_size": 3,
    "representation_width": VECTORS,
}
SIZES = {"encoder_embed_dim": 16, "encoder_ffn_embed_dim": 32, "encoder_attention_heads": 2}
LISTS = {("replace", "all"): "0,2", ("key-value-input", "all"): "1,2"}  # which stand where all does


@pytest.fixture(autouse=True)
def double_precision():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def small(generator):
    """The options of a generator with small sizes, those that it has and that act."""
    preset = find_preset(generator["method"])
    values = {**preset.defaults, **generator}
    needs = {name: declared.metadata["only_with"] for name, declared in preset.options.items()}
    acting = {name for name, need in needs.items() if need is None or str(values[need[0]]) in need[1]}
    return {**generator, **{name: value for name, value in SMALL.items() if name in acting}}


def makes_sense(generator, insertion, layers):
    """The rule behind the table.

    Embeddings are made after the input's prompt, and enter layer 0 themselves; <s> alone says nothing of an input in
    words and embeddings, nor below layer 0; the input's prompt reads words, whatever of the two a preset calls them.
    """
    preset = find_preset(generator["method"])
    values = {**preset.defaults, **generator}
    reads, only_first = values.get("generator_input"), layers == "first"
    in_input = insertion in ("add", "replace")
    if values.get("lpt_generator") == "npg":
        return reads == "last" or reads == "states" and not only_first
    if reads == "embeddings":
        return not in_input and not only_first
    return not (in_input and only_first and reads in ("states", "words")) or reads == preset.defaults["generator_input"]


def built(generator, insertion, layers):
    model = tiny_model(**small(generator), **SIZES, prompt_insertion=insertion, prompt_layers=layers)
    give_sources(model)
    embeddings = model.encoder.sentence_encoder.embed_tokens.weight
    model.method.set_initial_values(model.args, WordEmbeddings(embeddings, 4, lambda text: []))
    enlarge(model.encoder)
    enlarge(model.method)
    for layer in model.encoder.sentence_encoder.layers:
        layer.activation_fn = nn.functional.gelu  # fairseq's own rounds to float32
    if getattr(model.method, "reparameterization", None) is not None:
        model.method.train()  # in evaluation it is folded
    return model


def name_of(value):
    return command(value) if isinstance(value, dict) else value


def test_every_prompt_method_is_in_the_table():
    def kinds(names):
        return {kind for name in names for kind in PRESETS[name].methods if issubclass(kind, PromptMethod)}

    assert kinds(generator["method"] for generator in GENERATORS) == kinds(PRESETS)


@pytest.mark.parametrize("generator", GENERATORS, ids=name_of)
def test_what_is_made_from_the_input_is_not_called_the_same_for_every_input(generator):
    for part in tiny_model(**small(generator), **SIZES).method.modules():
        if isinstance(part, PromptMethod) and (part.representation or part.reads_words):
            assert part.shared != PromptMethod.shared
            assert part.shows_no_example != PromptMethod.shows_no_example


@pytest.mark.parametrize(("generator", "insertion", "layers"), CELLS, ids=name_of)
def test_cell(generator, insertion, layers):
    line = refusal(generator, insertion, layers)
    assert (line is None) == makes_sense(generator, insertion, layers), line
    if line is not None:
        assert "\n" not in line and line.startswith(("--generator-input ", "--prompt-layers ")) and ": " in line
        return
    model = built(generator, insertion, LISTS.get((insertion, layers), layers))
    for tokens in (pair_batch()[:2], single_batch()[:1]):  # with pads and without
        extra = vars(prompted(tokens, 0, model.prompt_length)) if model.prompt_length else {}
        vectors = torch.randn(len(tokens), VECTORS) if model.method.representation == "glove" else None
        ours, _ = model(tokens, **extra, representation=vectors, features_only=True)
        assert ours.shape == (len(tokens), tokens.size(1) + model.prompt_length, SIZES["encoder_embed_dim"])
        assert model.prompt_length == (LENGTH if insertion in ("add", "replace") else 0)
        plain = [
            plain_features(model, row[row != PAD], None if vectors is None else vectors[i])
            for i, row in enumerate(tokens)
        ]
        for mine, theirs in zip(ours, plain):
            torch.testing.assert_close(mine[: len(theirs)], theirs, atol=1e-9, rtol=0)
    trained = {name: p for name, p in model.method.named_parameters() if p.requires_grad}
    draw = torch.randn(SIZES["encoder_embed_dim"])
    mine = torch.autograd.grad(ours[0, 0] @ draw, list(trained.values()))
    theirs = torch.autograd.grad(plain[0][0] @ draw, list(trained.values()))
    for one, other in zip(mine, theirs):
        torch.testing.assert_close(one, other, atol=1e-9 * max(1, float(other.abs().max())), rtol=0)
    assert all(gradient.any() for gradient in mine), [name for name, g in zip(trained, mine) if not g.any()]


@pytest.mark.parametrize("insertion", ["add", "replace"])
def test_rows_that_nothing_makes_room_for_are_refused(insertion):
    message = "--prompt-layers middle: add 0, the input, which makes the rows .* or give --prompt-insertion late"
    with pytest.raises(InputError, match=message):
        tiny_model(method="lpt-npg", prompt_insertion=insertion)
    line = refusal({"method": "prompt-tuning"}, "replace", "first")
    assert line.startswith("--prompt-insertion replace has no effect: with a prompt in the input alone")


@pytest.mark.parametrize("option", ["generator_residual", "generator_layer_norm"])
@pytest.mark.parametrize("insertion", ["key-value", "key-value-input", "late"])
def test_changes_of_the_inputs_prompt_need_one(option, insertion):
    """Of Table 7; they would change the rows of layer 0 alone."""
    line = refusal({"method": "m-idpg-phm"}, insertion, "all", **{option: True})
    assert f"has no effect: --prompt-insertion {insertion} puts no rows into the input" in line
    assert refusal({"method": "m-idpg-phm"}, "add", "all", **{option: True}) is None


@pytest.mark.parametrize(("layers", "place"), [(1, 0), (2, 1), (3, 2), (6, 4), (12, 7), (24, 13)])
def test_the_middle_is_the_papers_best_layer(layers, place):
    """LPT's k = 13 of 24; in a stack of two there is nothing above the second layer."""
    for method in ("lpt-naive", "lpt-npg", "id-spam"):
        assert tiny_model(method=method, encoder_layers=layers).method.places == (place,)
