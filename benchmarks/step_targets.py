"""The targets that the cases of benchmarks/step_time.py are measured for."""

from __future__ import annotations

from dataclasses import dataclass

from step_cases import PEERS, Case
from step_settings import Settings

TOLERANCE = 1.10


@dataclass(frozen=True)
class Target:
    """``case`` takes at most ``factor`` times what ``of`` takes, in ``median_s``, ``peak_mib`` or ``kept_mib``."""

    case: str
    factor: float
    of: str
    figure: str = "median_s"


OF_IDPG: tuple[Target, ...] = (
    Target("m-idpg-phm-cached", 1.10, "prompt-tuning"),
    Target("m-idpg-phm-cached", 1.15, "floor"),
    Target("m-idpg-phm", 1.75, "prompt-tuning"),
    Target("m-idpg-phm", 0.6, "fine-tuning", "peak_mib"),
    Target("m-idpg-phm-grouped", 0.8, "m-idpg-phm"),
    Target("prompt-tuning-grouped", 0.8, "prompt-tuning"),
)
OF_PEERS = tuple(Target(preset, 1.0, peer.name) for peer in PEERS for preset in peer.beside)


def of_late(case: Case, settings: Settings) -> list[Target]:
    """A prompt before layer k: no gradient comes below, autograd keeps nothing of what lies there; or it is not run."""
    from fairseq_idpg.methods.prompts.base import parse_places

    first = parse_places(case.options["prompt_layers"], settings.layers, needs_input=False)[0]
    above = (settings.layers - first) / settings.layers
    if case.cached_states:
        return [Target(case.name, TOLERANCE * above, "prompt-tuning-no-dropout")]
    return [
        Target(case.name, TOLERANCE * (1 + above) / 2, "prompt-tuning"),
        Target(case.name, TOLERANCE * above, "prompt-tuning", "kept_mib"),
    ]


def targets_of(cases: list[Case], settings: Settings) -> list[Target]:
    """Those of which both cases are among ``cases``."""
    names = {case.name for case in cases}
    late = [case for case in cases if case.options.get("prompt_insertion") == "late"]
    found = [*OF_IDPG, *OF_PEERS, *(target for case in late for target in of_late(case, settings))]
    return [target for target in found if {target.case, target.of} <= names]
