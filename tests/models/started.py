"""Models as runs have them at their start, and whether two of them do the same."""

import torch

from fairseq_idpg.methods.base import WordEmbeddings
from fairseq_idpg.models.prepare import check_method_effects
from fairseq_idpg.representations.kinds import GLOVE
from tests.helpers import logits, pair_batch, tiny_model
from tests.sources import give_sources


def usual(method):
    options = {"phm_n": 4} if "phm" in method and "glove" not in method else {}
    return {**options, **({"representation_width": 8} if "glove" in method else {})}


def made(method, **options):
    """A model as a run has it at its start.

    Raises:
        InputError: an option is refused.
    """
    model = tiny_model(method=method, max_positions=160, **options)
    give_sources(model)
    return start(model)


def set_initial_values(model):
    """As a run does at its start; text is numbers of words: '0 3' are the first and the fourth."""
    if model.method is not None:
        encode = lambda text: [4 + int(word) for word in text.split()]  # noqa: E731
        words = model.encoder.sentence_encoder.embed_tokens.weight
        known = WordEmbeddings(words, 4, encode, model.backbone_fingerprint)
        model.method.set_initial_values(model.args, known)


def start(model):
    """What a run does with a model at its start, options without effect refused."""
    set_initial_values(model)
    check_method_effects(model.args, model.method)
    return model


def started(method, **options):
    """The same of a model that is given no sources, and as many positions as usual."""
    return start(tiny_model(method=method, **options))


def behaviour(model):
    """Logits in evaluation and in training, with the gradients of what is trained."""
    tokens, more = pair_batch(), {}
    if getattr(model.method, "representation", None) == GLOVE:
        more = {"representation": torch.linspace(-1, 1, 3 * model.args.representation_width).view(3, -1)}
    forward = model.forward
    model.forward = lambda *args, **given: forward(*args, **given, **more)
    found = []
    for training in (False, True):
        torch.manual_seed(5)
        model.zero_grad()
        out = logits(model.train(training), tokens)
        added = training and getattr(model.method, "adds_loss", None)
        (out.square().sum() + (model.method.extra_loss() if added else 0)).backward()
        found.append(out.detach())
        found += [p.grad for _, p in sorted(model.named_parameters()) if p.requires_grad and p.grad is not None]
    del model.forward
    return found


def differ(ours, theirs):
    return any(not torch.equal(one, other) for one, other in zip(ours, theirs))
