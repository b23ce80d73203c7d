"""Our model with a case's weights in it, and everything that one pass of it shows."""

from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
from tests.golden.golden2 import adapters, prompts
from tests.golden.golden2.case import Case, backbone, sizes, words
from tests.golden.golden2.family import STACK, Family
from tests.helpers import dictionary, tiny_model

SPECIALS_AND_MASK = 5
PLACEHOLDER = 3


class Pass(NamedTuple):
    """What one pass shows, in the file's order of slots.

    Attributes:
        states: B x slots x d each, what enters each layer and what the last one gives.
        prompt: B x t x d, the rows as they joined; None without any.
        final: B x d, the last state of <s>.
        gradients: our parameters' names -> gradients of sum(final * random).
    """

    states: list[Tensor]
    prompt: Tensor | None
    final: Tensor
    gradients: dict[str, Tensor]


def family_of(name: str) -> Family | None:
    fitting = [each for each in (*adapters.FAMILIES, *prompts.FAMILIES) if name.startswith(each.prefix)]
    return max(fitting, key=lambda family: len(family.prefix), default=None)


def build(case: Case, family: Family) -> RobertaIDPGModel:
    """In evaluation mode, with the case's values in all that is trained."""
    options = {"method": "head-only", **family.options(case)}
    model = tiny_model(symbols=dictionary(words() - SPECIALS_AND_MASK), **sizes(), **options)
    trained = family.tensors(case.below("train/"), case)
    result = torch.nn.Module.load_state_dict(model, {**backbone(), **trained}, strict=False)
    assert not result.unexpected_keys, result.unexpected_keys
    parameters = {name: p for name, p in model.named_parameters() if name.startswith((STACK, "method."))}
    assert not parameters.keys() & set(result.missing_keys), result.missing_keys
    if model.method is None:  # nothing of ours is trained: the file's own choice
        for name in trained:
            parameters[name].requires_grad_()
    family.prepare(model, case)
    return model


def run(model: RobertaIDPGModel, case: Case) -> Pass:
    """One pass and its gradients. Prompt rows of the input stand where the file has them, rows that join late last."""
    at, stack = case.prompt_slots, model.encoder.sentence_encoder
    in_input = model.prompt_length > 0
    seen = SimpleNamespace(states=[], embeddings=None)
    hooks = [layer.register_forward_pre_hook(lambda _, given: seen.states.append(given[0].x)) for layer in stack.layers]
    hooks.append(stack.layers[-1].register_forward_hook(lambda _, given, out: seen.states.append(out)))
    embed = stack.forward_embedding

    def forward_embedding(tokens, embeddings=None):
        seen.embeddings = embeddings
        return embed(tokens, embeddings)

    stack.forward_embedding = forward_embedding
    features, _ = model(case.ids, **_prompted(case, len(at) if in_input else 0), features_only=True)
    del stack.forward_embedding
    for hook in hooks:
        hook.remove()

    final = features[:, case.cls_index if in_input else 0]
    model.zero_grad()
    (final * case.arrays["random"]).sum().backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.requires_grad and not n.startswith("classif")}
    states = [state.detach().transpose(0, 1) for state in seen.states]
    if not in_input:
        states = [_in_order(case, state) for state in states]
    prompt = None
    if len(at):
        joined = next(state for state in states if state.size(1) > case.ids.size(1))
        prompt = (seen.embeddings.detach() if in_input else joined)[:, at]
    return Pass(states, prompt, final.detach(), gradients)


def _prompted(case: Case, rows: int) -> dict[str, Tensor]:
    """What the task adds to a batch whose input has ``rows`` prompt rows, at the file's slots (0: in front of <s>)."""
    if not rows:
        return {}
    tokens = torch.full((len(case.ids), case.ids.size(1) + rows), PLACEHOLDER)
    tokens[:, case.text_slots] = case.ids
    return {"prompted_tokens": tokens, "prompt_offset": case.prompt_slots[:1].expand(len(tokens))}


def _in_order(case: Case, state: Tensor) -> Tensor:
    """A state in the file's order of slots: rows that joined late stand last here."""
    slots = torch.cat([case.text_slots, case.prompt_slots])
    if state.size(1) != len(slots):
        return state
    return torch.empty_like(state).index_copy_(1, slots, state)
