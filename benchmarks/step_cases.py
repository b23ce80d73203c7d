"""The cases of benchmarks/step_time.py, and the targets that they are measured for."""

from __future__ import annotations

from dataclasses import dataclass

HIDDEN = 16  # adapters' m


@dataclass(frozen=True)
class Case:
    """One line of the table.

    Attributes:
        maker: ``method`` (of this plugin), ``floor`` (stock fairseq), ``peft`` or ``adapters``.
        what: the plugin's ``--method``, or the kind of tuning.
        cached: the batches bring M(x), as with --representation-cache.
        grouped: batches of examples of similar length, as with --group-by-length.
    """

    name: str
    maker: str
    what: str
    cached: bool = False
    grouped: bool = False

    @property
    def peer(self) -> bool:
        return self.maker in ("peft", "adapters")


CASES: dict[str, Case] = {
    case.name: case
    for case in (
        Case("m-idpg-phm", "method", "m-idpg-phm"),
        Case("m-idpg-phm-cached", "method", "m-idpg-phm", cached=True),
        Case("m-idpg-phm-grouped", "method", "m-idpg-phm", grouped=True),
        Case("prompt-tuning", "method", "prompt-tuning"),
        Case("prompt-tuning-grouped", "method", "prompt-tuning", grouped=True),
        Case("p-tuning-v2", "method", "p-tuning-v2"),
        Case("p-tuning-v2-kv", "method", "p-tuning-v2-kv"),
        Case("adapter", "method", "adapter"),
        Case("compacter", "method", "compacter"),
        Case("fine-tuning", "method", "fine-tuning"),
        # a frozen forward and a gradient to the word embeddings: of the rows that prompt tuning runs, or of the text
        Case("floor", "floor", "prompted"),
        Case("floor-text", "floor", "text"),
        Case("peft-prompt-tuning", "peft", "prompt-tuning"),
        Case("peft-prefix-tuning", "peft", "prefix-tuning"),
        # peft's prefix tuning for classification takes the cache for the pooled output of a RoBERTa and fails; this is
        # its prefix tuning of the encoder, with the head put behind it here
        Case("peft-prefix-features", "peft", "prefix-tuning-features"),
        Case("adapters-prompt-tuning", "adapters", "prompt-tuning"),
        Case("adapters-prefix-tuning", "adapters", "prefix-tuning"),
        Case("adapters-compacter", "adapters", "compacter"),
    )
}


@dataclass(frozen=True)
class Target:
    """``case`` takes at most ``factor`` times what ``of`` takes, in ``median_s`` or ``peak_mib``."""

    case: str
    factor: float
    of: str
    figure: str = "median_s"


TARGETS: tuple[Target, ...] = (
    Target("m-idpg-phm-cached", 1.10, "prompt-tuning"),
    Target("m-idpg-phm-cached", 1.15, "floor"),
    Target("m-idpg-phm", 1.75, "prompt-tuning"),
    Target("prompt-tuning", 1.0, "peft-prompt-tuning"),
    Target("prompt-tuning", 1.0, "adapters-prompt-tuning"),
    Target("p-tuning-v2-kv", 1.0, "peft-prefix-tuning"),
    Target("p-tuning-v2-kv", 1.0, "peft-prefix-features"),
    Target("p-tuning-v2-kv", 1.0, "adapters-prefix-tuning"),
    Target("compacter", 1.0, "adapters-compacter"),
    Target("m-idpg-phm", 0.6, "fine-tuning", "peak_mib"),
    Target("m-idpg-phm-grouped", 0.8, "m-idpg-phm"),
    Target("prompt-tuning-grouped", 0.8, "prompt-tuning"),
)


def chosen(names: list[str]) -> list[Case]:
    """In the table's order."""
    return [case for case in CASES.values() if case.name in names]
