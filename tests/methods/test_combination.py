"""--method A+B: prompts and adapters together; whatever would enter at one place is refused."""

import pytest
import torch

from fairseq_idpg.backbone.injection import Injection
from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.base import Method
from fairseq_idpg.methods.registry import Combination
from tests.helpers import logits, pair_batch, tiny_model

PHM = {"phm_n": 4}


def test_dropout_of_the_input_of_one_part_is_the_whole_ones():
    for dropout in (True, False):
        model, seen = tiny_model(method="adapter+s-idpg-phm", representation_dropout=dropout, dropout=0.5, **PHM), []
        prompts = model.train().method.parts[1]
        prompts.injection = lambda read, inject=prompts.injection, seen=seen: seen.append(read) or inject(read)
        for _ in range(2):
            logits(model, pair_batch())
        assert torch.equal(*seen) != dropout


class Filling(Method):
    """Fills the slots it is given with values of its own."""

    def __init__(self, *slots: str):
        super().__init__()
        self.slots = slots

    def injection(self, representation):
        return Injection(**dict.fromkeys(self.slots, self))

    def describe(self):
        return ""


def test_two_parts_in_one_slot_are_refused():
    with pytest.raises(InputError, match=r"--method a\+b\+c: a and c .*\(late\)"):
        Combination("a+b+c", [Filling("late"), Filling(), Filling("late", "input")])


class Reading(Filling):
    """Reads M(x) of a kind."""

    def __init__(self, slot: str, kind: str, dropout: bool = False):
        super().__init__(slot)
        self.representation, self.representation_dropout = kind, dropout


@pytest.mark.parametrize(
    ("kinds", "refused"),
    [
        ([("backbone",), ("mean-pooled",)], True),
        ([("previous-layer",), ("last-states",)], True),
        ([("backbone", True), ("backbone",)], True),
        ([("backbone",), ("previous-layer",)], False),  # which is M(x) of the backbone at the input
        ([("glove",), ("glove",)], False),
    ],
)
def test_parts_that_read_different_representations_are_refused(kinds, refused):
    one, other = (Reading(slot, *kind) for slot, kind in zip(("input", "late"), kinds))
    parts = [one, Filling("projection"), other]
    if not refused:
        assert Combination("a+b+c", parts).representation == kinds[0][0]
        return
    with pytest.raises(InputError, match=r"--method a\+b\+c: a .* c "):
        Combination("a+b+c", parts)
