"""The cases of benchmarks/step_time.py: every preset of the registry, and what stands beside it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import filter as filter_names
from functools import cache
from itertools import groupby
from typing import Any

from preprocess.errors import InputError, did_you_mean

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
LATE = FAMILIES["late"]


@dataclass(frozen=True)
class Case:
    """One line of the table; cases of a group are measured at the same time."""

    name: str
    maker: str  # method (of this plugin), floor (stock fairseq), peft, adapters or transformers
    what: str  # the plugin's --method, or the kind of tuning
    family: str = FAMILIES[""]
    group: str = "floors"
    options: dict[str, Any] = field(default_factory=dict)  # of the method, or of the preset that a peer stands beside
    cached: bool = False  # the batches bring M(x), as with --representation-cache
    cached_states: bool = False  # they bring what enters the first layer with a prompt, as with --state-cache
    dropout: bool = True  # whether the backbone has its own; --state-cache needs it to be off
    grouped: bool = False  # as with --group-by-length
    checkpointed: bool = False  # as with --checkpoint-activations
    checkout: str = ""  # another folder of this project whose code is measured; empty for this one

    @property
    def peer(self) -> bool:
        return self.name in PEERS

    @property
    def rows(self) -> int:
        """Rows of the prompt unless --prompt-length says another number."""
        return self.options.get("prompt_length", FLOOR_ROWS)


VARIANTS: dict[str, dict[str, dict[str, Any]]] = {  # preset -> ending of the name -> what is different
    "m-idpg-phm": {"-cached": {"cached": True}, "-grouped": {"grouped": True}, "-checkpointed": {"checkpointed": True}},
    "fine-tuning": {"-checkpointed": {"checkpointed": True}},
    # without dropout it stands beside cached states
    "prompt-tuning": {"-grouped": {"grouped": True}, "-no-dropout": {"dropout": False, "family": LATE, "group": LATE}},
}
OF_LATE = {"-cached-states": {"cached_states": True, "dropout": False}}  # of every late preset
# MAKER-KIND of other libraries -> the presets that it stands beside; the sizes are those of the first
PEERS: dict[str, tuple[str, ...]] = {
    "peft-prompt-tuning": ("prompt-tuning",),
    "adapters-prompt-tuning": ("prompt-tuning",),
    "peft-p-tuning": ("p-tuning",),
    "peft-prefix-tuning": ("p-tuning-v2-kv",),
    # peft's prefix tuning for classification takes the cache for the pooled output of a RoBERTa and fails; this is
    # its prefix tuning of the encoder, with the head put behind it here
    "peft-prefix-features": ("p-tuning-v2-kv",),
    "adapters-prefix-tuning": ("p-tuning-v2-kv",),
    "peft-prefix-mlp-features": ("prefix-tuning",),
    "adapters-prefix-mlp": ("prefix-tuning",),
    "adapters-mam": ("mam",),
    "adapters-adapter": ("adapter",),
    "adapters-adapter-pfeiffer": ("adapter-pfeiffer",),
    "adapters-adapter-drop": ("adapter-drop",),
    "adapters-adapter-parallel": ("adapter-parallel",),
    "adapters-adapter-scaled-parallel": ("adapter-scaled-parallel",),
    "adapters-compacter": ("compacter", "compacter-shared"),
    "peft-lora": ("lora",),
    "adapters-lora": ("lora",),
    "peft-lora-all": ("lora-all",),  # AdapterHub's LoRA leaves the output projection out
    "transformers-bitfit": ("bitfit",),  # neither library has one of its own
    "transformers-fine-tuning": ("fine-tuning",),
}
# a frozen forward and a gradient to the word embeddings: of the rows that prompt tuning runs, or of the text
_FLOORS = (Case("floor", "floor", "prompted"), Case("floor-text", "floor", "text"))


@cache
def all_cases() -> dict[str, Case]:
    """In the table's order: by family, each preset with its variants and peers behind it."""
    from fairseq_idpg.methods.registry import PRESETS  # imports fairseq, which the peers' processes do without

    leaders = {preset: beside[0] for beside in PEERS.values() for preset in beside}
    cases: list[Case] = []
    for name, preset in PRESETS.items():
        family = FAMILIES[preset.defaults.get("prompt_insertion", "adapter" if preset.methods else "")]
        group = LATE if family == LATE else leaders.get(name, name)
        own = Case(name, "method", name, family, group, preset.defaults)
        variants = OF_LATE if family == LATE else VARIANTS.get(name, {})
        cases += [own, *(replace(own, name=name + end, **change) for end, change in variants.items())]
        for peer in (peer for peer, beside in PEERS.items() if beside[0] == name):
            maker, _, what = peer.partition("-")
            cases.append(replace(own, name=peer, maker=maker, what=what))
    order = list(FAMILIES.values())
    cases.sort(key=lambda case: order.index(case.family))  # stable
    return {case.name: case for case in (*cases, *_FLOORS)}


def chosen(patterns: list[str]) -> list[Case]:
    """Return those whose names a pattern (``lora``, ``*lora*``) fits, in the table's order; InputError for no match."""
    found: set[str] = set()
    for pattern in patterns:
        names = filter_names(all_cases(), pattern)
        if not names:
            hint = did_you_mean(pattern, all_cases())
            raise InputError(f"--cases {pattern} is unknown: {hint}--list names all cases")
        found.update(names)
    return [case for name, case in all_cases().items() if name in found]


def blocks(cases: list[Case]) -> list[tuple[str, list[Case]]]:
    """(family, some of its cases) to be measured one after another, each with the references that are among ``cases``.

    What is compared must be measured at the same time, but every case's process lives, and holds its memory, as long as
    its block: a preset stays with its variants and peers, and else there are TOGETHER cases at most.
    """
    if len(cases) <= TOGETHER:
        return [("", cases)]
    references = [case for case in cases if case.name in REFERENCES]
    found: list[tuple[str, list[Case]]] = []
    for (family, _), group in groupby(cases, lambda case: (case.family, case.group)):
        members = list(group)
        members += [case for case in references if case not in members]
        # a group joins the block before it where both are of one family and fit
        more = [case for case in members if found and case not in found[-1][1]]
        if found and found[-1][0] == family and len(found[-1][1]) + len(more) <= TOGETHER:
            found[-1][1].extend(more)
        else:
            found.append((family, members))
    return found
