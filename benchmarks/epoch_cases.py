"""What benchmarks/epoch.py runs: trainings and predictions, each a whole process."""

from __future__ import annotations

from dataclasses import dataclass

METHODS = ("m-idpg-phm", "prompt-tuning", "p-tuning-v2", "adapter", "compacter", "fine-tuning")
REFERENCE = "prompt-tuning"  # what ratios are taken to
GROUPED = "-grouped"


@dataclass(frozen=True)
class Training:
    """A run of fairseq-train.

    Attributes:
        options: besides those that all runs have.
        cache: ``cold`` fills a new representation cache, ``warm`` reads one that fairseq_idpg.encode filled.
        brief: two updates are enough, for only the checkpoint counts.
    """

    name: str
    method: str
    options: tuple[str, ...] = ()
    cache: str = ""
    brief: bool = False


@dataclass(frozen=True)
class Prediction:
    """A run of ``tool`` (``predict`` of fairseq_idpg, or fairseq's ``validate``) on a checkpoint of ``method``."""

    method: str
    tool: str
    cached: bool = False

    @property
    def name(self) -> str:
        return f"{self.method}-{self.tool}{'-cached' if self.cached else ''}"


VARIANTS = (
    Training("m-idpg-phm-cache-cold", "m-idpg-phm", cache="cold"),
    Training("m-idpg-phm-cache-warm", "m-idpg-phm", cache="warm"),
    Training(f"m-idpg-phm{GROUPED}", "m-idpg-phm", ("--group-by-length",)),
    Training(f"prompt-tuning{GROUPED}", "prompt-tuning", ("--group-by-length",)),
    Training("m-idpg-phm-no-optimizer-state", "m-idpg-phm", ("--no-save-optimizer-state",), brief=True),
    Training("m-idpg-phm-full-model", "m-idpg-phm", ("--save-full-model",), brief=True),
)
PREDICTIONS = (
    Prediction("m-idpg-phm", "predict"),
    Prediction("m-idpg-phm", "predict", cached=True),
    Prediction("m-idpg-phm", "validate"),
    Prediction("prompt-tuning", "predict"),
    Prediction("prompt-tuning", "validate"),
)


def trainings(methods: list[str]) -> list[Training]:
    """A training of each method, then the variants of those chosen."""
    return [*(Training(name, name) for name in methods), *(case for case in VARIANTS if case.method in methods)]


def predictions(methods: list[str]) -> list[Prediction]:
    return [case for case in PREDICTIONS if case.method in methods]
