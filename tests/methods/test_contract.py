"""Every preset keeps every promise of ``tests/contract.py``."""

import itertools
from types import SimpleNamespace

import pytest
import torch

from fairseq_idpg import count
from fairseq_idpg.backbone.injection import filled_fields
from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.prompts.base import PromptMethod
from fairseq_idpg.methods.registry import PRESETS, find_preset
from fairseq_idpg.models.prepare import check_has_rows
from fairseq_idpg.options_table import COLUMNS, INPUTS, refusal
from tests import contract
from tests.helpers import ALWAYS_SAVED, PAD, enlarge, logits, pair_batch, prompted, single_batch, stock_twin
from tests.optim.test_half_precision import carried

TABLE = contract.table()
NAMES = sorted(PRESETS)
METHODS = [name for name in NAMES if PRESETS[name].methods]
STACK = "encoder.sentence_encoder."


def test_the_table_has_every_preset():
    assert TABLE.keys() == PRESETS.keys()


def build(name, **options):
    return contract.build(method=name, **{**TABLE[name].options, **options})


# --- nothing injected


@pytest.mark.parametrize("name", [name for name in NAMES if TABLE[name].start is not None])
def test_it_starts_as_stock_roberta(name):
    model, tokens = build(name), pair_batch()[:, :6]  # without pads, whose absence rounds otherwise
    ours, stock = model(tokens, features_only=True)[0], stock_twin(model)(tokens, features_only=True)[0]
    assert (ours - stock).abs().max() <= TABLE[name].start


# --- a pass by hand

SOME = [("add", "all"), ("key-value", "all"), ("late", "middle")]
LISTS = {("replace", "all"): "0,2", ("key-value-input", "all"): "1,2"}  # which stand where all does


def is_prompt(name):
    return bool(PRESETS[name].methods) and all(issubclass(method, PromptMethod) for method in PRESETS[name].methods)


def places(name, options, some=False):
    """``options`` of a prompt at every place, or at one of each kind; of another method as they are."""
    if not is_prompt(name):
        return [options]
    if options.keys() & {"prompt_layers", "prompt_insertion"}:
        return [options]
    shares = "generator_sharing" in options  # over several places
    columns = [column for column in SOME if column[1] == "all" or not shares] if some else COLUMNS
    return [{**options, "prompt_insertion": insertion, "prompt_layers": layers} for insertion, layers in columns]


def cases():
    """(options) of every pass that is compared, each kind once."""
    found = {}
    for name, row in TABLE.items():
        if PRESETS[name].methods and row.by_hand is None and len(PRESETS[name].methods) == 1:
            continue  # it has a test of its own
        reads = "generator_input" in PRESETS[name].options
        alone = [{"generator_input": read} for read in INPUTS] if reads else [{}]
        options = [each for start in alone for each in places(name, {**row.options, **start})]
        options += [each for variant in row.variants for each in places(name, {**row.options, **variant}, some=True)]
        for each in options:
            filled = {**PRESETS[name].defaults, **contract.small(method=name, **each), "prompt_init": None}
            kind = (PRESETS[name].methods, *sorted((n, str(v)) for n, v in filled.items() if n != "method"))
            found.setdefault(kind, {"method": name, **each})
    return list(found.values())


def makes_sense(method, prompt_insertion=None, prompt_layers=None, **options):
    """The rule behind the table of places.

    Embeddings are made after the input's prompt, and enter layer 0 themselves; <s> alone says nothing of an input in
    words and embeddings, nor below layer 0; the input's prompt reads words, whatever of the two a preset calls them.
    One dynamic prompt outside the input is the same for all.
    """
    defaults = PRESETS[method].defaults
    values = {**defaults, **options}
    reads, only_first = values.get("generator_input"), prompt_layers == "first"
    in_input = prompt_insertion in ("add", "replace")
    if values.get("dynamic_pool") == 1:
        return in_input
    if values.get("lpt_generator") == "npg":
        return reads == "last" or reads == "states" and not only_first
    if reads == "embeddings":
        return not in_input and not only_first
    return not (in_input and only_first and reads in ("states", "words")) or reads == defaults["generator_input"]


def compare_with_hand(model):
    """States, and the gradients of all that the method trains; with pads and without."""
    method = model.method
    length = getattr(method, "prompt_length", 0)
    straight_through = TABLE[model.args.method].straight_through if model.args.method in TABLE else ""
    for tokens in (pair_batch()[:2], single_batch()[:1]):
        extra = vars(prompted(tokens, 0, length)) if length else {}
        ours, _ = model(tokens, **extra, features_only=True)
        assert ours.shape[:2] == (len(tokens), tokens.size(1) + length)
        plain = [contract.plain_features(model, row[row != PAD], number) for number, row in enumerate(tokens)]
        for mine, theirs in zip(ours, plain):
            torch.testing.assert_close(mine[: len(theirs)], theirs, atol=1e-9, rtol=0)
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad and not n.startswith("classification")}
    if not ours.requires_grad:
        return
    draw = torch.randn(ours.size(-1))
    mine, theirs = (
        torch.autograd.grad(features[0] @ draw, list(trained.values()), allow_unused=True)
        for features in (ours[0], plain[0])
    )
    for name, one, other in zip(trained, mine, theirs):
        if other is None:  # AdaMix's experts, of whose mean evaluation reads a copy; the position of no token
            assert one is None or not one.any() or name.removeprefix("method.") in straight_through, name
            continue
        torch.testing.assert_close(one, other, atol=1e-9 * max(1, float(other.abs().max())), rtol=0)
        assert other.any() or "k_proj.bias" in name, name


@pytest.mark.parametrize("options", cases(), ids=lambda options: " ".join(map(str, options.values())))
def test_a_pass_is_the_one_by_hand_or_refused(options, double_precision):
    name, insertion, layers = (options.get(key) for key in ("method", "prompt_insertion", "prompt_layers"))
    if insertion is not None and layers is not None:
        rest = {key: value for key, value in options.items() if key not in ("prompt_insertion", "prompt_layers")}
        line = refusal(rest, insertion, layers)
        assert (line is None) == makes_sense(**options), line
        if line is not None:
            assert "\n" not in line and line.startswith(("--generator-input ", "--prompt-"))
            return
        options = {**options, "prompt_layers": LISTS.get((insertion, layers), layers)}
    compare_with_hand(contract.exact(contract.build(**options)))


JOINED = [
    *("lora+id-spam", "lora+dept", "p-tuning-v2-kv+lora", "prefix-tuning+lora", "bitfit+prompt-tuning"),
    *("bitfit+m-idpg-dnn", "adapter+lpt-mppg", "m-idpg-phm+adapter", "compacter-shared+smop", "lopa+lora"),
    *("ipl+adapter", "bitfit+prefix-propagation", "pt-moe+lora"),
]


TRAINED = [  # whose M(x) has a gradient
    {"method": "s-idpg-phm", "no_freeze_backbone": True},
    {"method": "m-idpg-dnn", "representation": "backbone", "no_freeze_backbone": True},
    {"method": "m-idpg-phm", "prompt_layers": "0,2", "no_freeze_backbone": True},
    {"method": "m-idpg-phm+adapter", "train_layer_norms": "true"},
]


@pytest.mark.parametrize(
    "options",
    [*({"method": name} for name in JOINED), *TRAINED],
    ids=lambda options: " ".join(map(str, options.values())),
)
def test_a_pass_of_joined_methods_or_over_a_trained_backbone_is_the_one_by_hand(options, double_precision):
    """What a prompt is made from is, where it is M(x), the backbone's alone."""
    compare_with_hand(contract.exact(contract.build(**options)))


# --- counts and defaults


@pytest.mark.parametrize("name", NAMES)
def test_counts_at_roberta_larges_size(name):
    row, found = TABLE[name], count.count_preset("roberta_idpg_large", name)
    folded = row.count if row.folded is None else row.folded
    assert (found.own, found.of_backbone, found.folded) == (row.count, row.of_backbone, folded)


@pytest.mark.parametrize("name", [name for name in NAMES if TABLE[name].published])
def test_options_are_the_papers(name):
    defaults = find_preset(name).defaults
    assert {option: defaults[option] for option in TABLE[name].published} == TABLE[name].published


# --- training, saving, loading


def expected_names(name, model):
    """Of the parameters that are trained."""
    stack = {n for n, _ in model.encoder.sentence_encoder.named_parameters() if TABLE[name].trains(n)}
    return contract.HEAD | {f"method.{own}" for own in TABLE[name].own.split()} | {STACK + n for n in stack}


def step(model, optimizer, steps=2):
    """Updates, of which the second reaches what a zero hides from the first."""
    for _ in range(steps):
        optimizer.zero_grad()
        loss = logits(model.train(), pair_batch()).square().sum()
        if getattr(model.method, "adds_loss", None):
            loss = loss + model.method.extra_loss()
        loss.backward()
        optimizer.step()


def adam(model):
    return torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_training_moves_its_parameters_and_nothing_else(name):
    model = build(name)
    before = {n: parameter.detach().clone() for n, parameter in model.named_parameters()}
    step(model, adam(model))
    moved = {n for n, parameter in model.named_parameters() if not torch.equal(parameter, before[n])}
    expected = expected_names(name, model)
    if name in ("adamix",):  # an expert that no batch has drawn stays as it is
        assert moved <= expected and moved >= contract.HEAD
    else:
        assert moved <= expected and expected - moved <= {n for n in expected if n.endswith("k_proj.bias")}
    assert expected == {n for n, p in model.named_parameters() if p.requires_grad} - {"encoder.lm_head"}


@pytest.mark.parametrize("name", NAMES)
def test_checkpoints_hold_what_is_trained_alone(name):
    model = build(name)
    kept = {f"method.{n}" for n in TABLE[name].kept.split()}
    expected = expected_names(name, model) | kept | ALWAYS_SAVED
    saved = set(model.state_dict())
    if PRESETS[name].trains_backbone:  # and the LM head and fairseq's version mark, as a --backbone has them
        assert expected <= saved and not {n for n in saved - expected if not n.startswith("encoder.")}
    else:
        assert saved == expected
    if TABLE[name].folded is not None:  # the network, or all experts, are for training
        model.args.no_save_optimizer_state = True
        count = sum(p.numel() for n, p in model.state_dict().items() if n.startswith("method."))
        assert count < sum(p.numel() for p in model.method.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_training_goes_on_from_a_checkpoint_to_the_same_bits(name):
    whole = build(name)
    optimizer = adam(whole)
    step(whole, optimizer)
    saved = carried({"model": whole.state_dict(), "optimizer": optimizer.state_dict()})
    rest = build(name)
    if rest.method is not None:
        enlarge(rest.method)  # of which nothing must be left
    rest.load_state_dict(saved["model"])
    again = adam(rest)
    again.load_state_dict(saved["optimizer"])
    for model, its in ((whole, optimizer), (rest, again)):
        torch.manual_seed(7)
        step(model, its)
    for ours, theirs in zip(whole.parameters(), rest.parameters()):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    ("name", "small"), [*((name, False) for name in NAMES), *((name, True) for name in NAMES if TABLE[name].folded)]
)
@torch.no_grad()
def test_a_saved_model_predicts_the_same(name, small):
    """A small checkpoint, too: what only training needs is left out, and is folded into what is kept."""
    given, other = build(name), build(name)
    for model in (given, other):
        if model.method is not None:
            enlarge(model.method)
    given.train().eval()
    given.args.no_save_optimizer_state = small
    other.load_state_dict(carried(given.state_dict()))
    other.train().eval()
    assert torch.equal(logits(other, pair_batch()), logits(given, pair_batch()))
    if small:  # what it was made from is no more
        with pytest.raises(InputError):
            logits(other.train(), pair_batch())


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_below_its_first_layer_states_are_the_backbones(name):
    model, tokens = build(name), pair_batch()
    enlarge(model)
    if model.first_layer:
        _, extra = model(tokens, features_only=True, return_all_hiddens=True)
        plain = model.encoder.sentence_encoder.states_before(model.first_layer, tokens)
        assert torch.equal(extra["inner_states"][model.first_layer], plain)


# --- batches, positions, precision


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_an_example_does_not_depend_on_its_batch(name):
    model, tokens, order = build(name), pair_batch(), torch.tensor([2, 0, 1])
    enlarge(model)
    model.eval()
    together = logits(model, tokens)
    assert torch.equal(logits(model, tokens), together)
    wider = torch.nn.functional.pad(tokens, (0, 4), value=PAD)
    torch.testing.assert_close(logits(model, wider), together, atol=1e-5, rtol=0)
    if getattr(model.method, "representation", None) != "glove":  # whose vectors are those of the rows
        torch.testing.assert_close(logits(model, tokens[order]), together[order], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_a_prompt_stands_at_every_position_or_is_refused_there(name):
    model = build(name)
    enlarge(model)
    task = SimpleNamespace(prompt_position=2)
    if not getattr(model.method, "prompt_length", 0):
        with pytest.raises(InputError, match="--prompt-position 2"):
            check_has_rows(task, model.args, model.method)
        return
    check_has_rows(task, model.args, model.method)
    outputs = [logits(model.eval(), pair_batch(), position) for position in range(5)]
    assert all(torch.isfinite(output).all() for output in outputs)
    assert all((one - other).abs().max() > 1e-5 for one, other in itertools.combinations(outputs, 2))


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_bfloat16(name):
    """Weights of half the size everywhere: no operation mixes precisions."""
    model = build(name)
    enlarge(model, 0.1)
    model.eval()
    expected = logits(model, pair_batch())
    torch.testing.assert_close(logits(model.bfloat16(), pair_batch()).float(), expected, atol=0.05, rtol=0)


# --- slots

INJECTED = [{}, {"prompt_insertion": "key-value"}, {"prompt_layers": "0,2"}, {"prompt_insertion": "late"}]


@pytest.mark.parametrize(
    ("name", "options"), [(n, each) for n in METHODS for each in INJECTED if each.keys() <= PRESETS[n].options.keys()]
)
def test_methods_fill_the_slots_that_they_name(name, options):
    model = build(name, **options)
    width = contract.VECTORS if model.method.representation == "glove" else contract.SIZES["encoder_embed_dim"]
    filled = filled_fields(model.method.injection(torch.randn(3, width) if model.method.representation else None))
    assert set(filled) - {"insertion"} == set(model.method.slots)


@pytest.mark.parametrize("name", [name for name in METHODS if is_prompt(name)])
def test_what_is_made_from_the_input_is_not_called_the_same_for_every_input(name):
    prompt = build(name).method
    if prompt.representation or prompt.reads_words:
        assert prompt.shared != PromptMethod.shared and prompt.shows_no_example != PromptMethod.shows_no_example
