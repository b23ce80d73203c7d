"""The cases of benchmarks/step_time.py: every preset of the registry, and what stands beside it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from fnmatch import filter as filter_names
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from preprocess.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from fairseq_idpg.methods.registry import Preset

REFERENCES = ("prompt-tuning", "floor")  # what every case is compared with
TOGETHER = 14  # cases that are measured at the same time, at most
FLOOR_ROWS = 5  # prompt tuning's
FAMILIES = {  # of a method with prompts, by its --prompt-insertion; of the others
    "add": "prompts in the input",
    "key-value": "keys and values",
    "late": "late prompts",
    "adapter": "adapters and weights",
    "": "baselines",
}


@dataclass(frozen=True)
class Case:
    """One line of the table.

    Attributes:
        maker: ``method`` (of this plugin), ``floor`` (stock fairseq), ``peft``, ``adapters`` or ``transformers``.
        what: the plugin's ``--method``, or the kind of tuning.
        family, group: what it belongs to: cases of a group are measured at the same time.
        options: of the method, or of the preset that a peer stands beside.
        cached: the batches bring M(x), as with --representation-cache.
        cached_states: they bring the states that enter the first layer that has a prompt, as with --state-cache.
        dropout: whether the backbone has its own; --state-cache needs it to be off.
        grouped: batches of examples of similar length, as with --group-by-length.
        checkpointed: layers are run again in the backward pass, as with --checkpoint-activations.
        checkout: another folder of this project whose code is measured; empty for this one.
    """

    name: str
    maker: str
    what: str
    family: str = FAMILIES[""]
    group: str = "floors"
    options: dict[str, Any] = field(default_factory=dict)
    cached: bool = False
    cached_states: bool = False
    dropout: bool = True
    grouped: bool = False
    checkpointed: bool = False
    checkout: str = ""

    @property
    def peer(self) -> bool:
        return self.maker in ("peft", "adapters", "transformers")

    @property
    def rows(self) -> int:
        """Rows of the prompt unless --prompt-length says another number."""
        return self.options.get("prompt_length", FLOOR_ROWS)


@dataclass(frozen=True)
class Peer:
    """A case of another library, with the sizes of the first of the presets that it stands ``beside``."""

    name: str
    maker: str
    what: str
    beside: tuple[str, ...]


VARIANTS: dict[str, dict[str, dict[str, Any]]] = {  # preset -> ending of the name -> what is different
    "m-idpg-phm": {"-cached": {"cached": True}, "-grouped": {"grouped": True}, "-checkpointed": {"checkpointed": True}},
    "fine-tuning": {"-checkpointed": {"checkpointed": True}},
    "prompt-tuning": {
        "-grouped": {"grouped": True},
        # for cached states to be compared with
        "-no-dropout": {"dropout": False, "family": FAMILIES["late"], "group": "late"},
    },
}
OF_LATE = {"-cached-states": {"cached_states": True, "dropout": False}}  # of every late preset
PEERS: tuple[Peer, ...] = (
    Peer("peft-prompt-tuning", "peft", "prompt-tuning", ("prompt-tuning",)),
    Peer("adapters-prompt-tuning", "adapters", "prompt-tuning", ("prompt-tuning",)),
    Peer("peft-p-tuning", "peft", "p-tuning", ("p-tuning",)),
    Peer("peft-prefix-tuning", "peft", "prefix-tuning", ("p-tuning-v2-kv",)),
    # peft's prefix tuning for classification takes the cache for the pooled output of a RoBERTa and fails; this is
    # its prefix tuning of the encoder, with the head put behind it here
    Peer("peft-prefix-features", "peft", "prefix-tuning-features", ("p-tuning-v2-kv",)),
    Peer("adapters-prefix-tuning", "adapters", "prefix-tuning", ("p-tuning-v2-kv",)),
    Peer("peft-prefix-mlp-features", "peft", "prefix-mlp-features", ("prefix-tuning",)),
    Peer("adapters-prefix-mlp", "adapters", "prefix-mlp", ("prefix-tuning",)),
    Peer("adapters-mam", "adapters", "mam", ("mam",)),
    Peer("adapters-adapter", "adapters", "adapter", ("adapter",)),
    Peer("adapters-adapter-pfeiffer", "adapters", "adapter-pfeiffer", ("adapter-pfeiffer",)),
    Peer("adapters-adapter-drop", "adapters", "adapter-drop", ("adapter-drop",)),
    Peer("adapters-adapter-parallel", "adapters", "adapter-parallel", ("adapter-parallel",)),
    Peer("adapters-adapter-scaled-parallel", "adapters", "adapter-parallel", ("adapter-scaled-parallel",)),
    Peer("adapters-compacter", "adapters", "compacter", ("compacter", "compacter-shared")),
    Peer("peft-lora", "peft", "lora", ("lora",)),
    Peer("adapters-lora", "adapters", "lora", ("lora",)),
    Peer("peft-lora-all", "peft", "lora", ("lora-all",)),  # AdapterHub's LoRA leaves the output projection out
    Peer("transformers-bitfit", "transformers", "bitfit", ("bitfit",)),  # neither library has one of its own
    Peer("transformers-fine-tuning", "transformers", "fine-tuning", ("fine-tuning",)),
)
# a frozen forward and a gradient to the word embeddings: of the rows that prompt tuning runs, or of the text
_FLOORS = (Case("floor", "floor", "prompted"), Case("floor-text", "floor", "text"))


def family(preset: Preset) -> str:
    """Of FAMILIES' values."""
    kind = "adapter" if preset.methods else ""
    return FAMILIES[preset.defaults.get("prompt_insertion", kind)]


@cache
def all_cases() -> dict[str, Case]:
    """In the table's order: by family, each preset with its variants and peers behind it.

    Reads the registry, and so imports fairseq, which the peers' processes do without.
    """
    logging.disable(logging.INFO)  # fairseq's hints at libraries that it does without
    try:
        from fairseq_idpg.methods.registry import PRESETS
    finally:
        logging.disable(logging.NOTSET)

    leaders = {preset: peer.beside[0] for peer in PEERS for preset in peer.beside}
    cases: list[Case] = []
    for name, preset in PRESETS.items():
        own = Case(name, "method", name, family(preset), leaders.get(name, name), preset.defaults)
        if own.family == FAMILIES["late"]:
            own = replace(own, group="late")
        variants = OF_LATE if own.group == "late" else VARIANTS.get(name, {})
        cases += [own, *(replace(own, name=name + end, **change) for end, change in variants.items())]
        cases += [
            replace(own, name=peer.name, maker=peer.maker, what=peer.what) for peer in PEERS if peer.beside[0] == name
        ]
    order = list(FAMILIES.values())
    cases.sort(key=lambda case: order.index(case.family))  # stable
    return {case.name: case for case in (*cases, *_FLOORS)}


def chosen(patterns: list[str]) -> list[Case]:
    """Those whose names one of the patterns (``lora``, ``*lora*``) fits, in the table's order.

    Raises:
        InputError: a pattern that fits none.
    """
    for pattern in patterns:
        if not filter_names(all_cases(), pattern):
            hint = did_you_mean(pattern, all_cases())
            raise InputError(f"--cases {pattern} is unknown: {hint}--list names all cases")
    found = {name for pattern in patterns for name in filter_names(all_cases(), pattern)}
    return [case for name, case in all_cases().items() if name in found]


def blocks(cases: list[Case], together: int = TOGETHER) -> list[tuple[str, list[Case]]]:
    """(family, some of its cases) to be measured one after another, each with the references that are among ``cases``.

    What is compared must be measured at the same time, but every case's process lives, and holds its memory, as long as
    its block: a preset stays with its variants and peers, and else there are ``together`` cases at most.
    """
    if len(cases) <= together:
        return [("", cases)]
    references = [case for case in cases if case.name in REFERENCES]
    found: list[tuple[str, list[Case]]] = []
    for (family, _), group in groupby(cases, lambda case: (case.family, case.group)):
        members = list(group)
        beside = [case for case in references if case not in members]
        if found and found[-1][0] == family and len({*_names(found[-1][1]), *_names(members)}) <= together:
            found[-1][1].extend(case for case in members if case not in found[-1][1])
        else:
            found.append((family, [*members, *beside]))
    return found


def _names(cases: list[Case]) -> list[str]:
    return [case.name for case in cases]
