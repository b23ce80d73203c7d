"""What benchmarks/gpu.sh runs: parts, each a command that leaves a JSON file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from step_cases import REFERENCES, TOGETHER, Case, blocks, chosen
from step_time import PEERS_FOLDER

from preprocess.errors import InputError

KINDS = ("environment", "checks", "agree", "inspect", "steps", "predict", "sizes")
DTYPES = ("bfloat16", "float16", "float32")
SHAPE = {"roberta-large": (32, 128), "tiny": (2, 8)}  # sentences of a batch, tokens of each: steps and predict
CORE = ("floor", "prompt-tuning", "p-tuning-v2", "p-tuning-v2-kv", "m-idpg-phm", "m-idpg-phm-cached", "fine-tuning")
CORE_PEERS = ("peft-prompt-tuning", "peft-prefix-features")
# defaults of DTYPES, BATCHES, LENGTHS and CASES for kind "sizes"
LARGE = {"DTYPES": "float16 bfloat16", "BATCHES": "16 32", "LENGTHS": "32 128 512", "CASES": " ".join(CORE)}
TINY = {"DTYPES": "bfloat16", "BATCHES": "2", "LENGTHS": "8 16", "CASES": "floor m-idpg-phm"}
ROUNDS = ("--rounds", "3", "--steps", "4")
# a case's process, with the Adam of its method: GiB of a GPU in float32 at RoBERTa-large size, and the room of a step
PROCESS_GIB, STEP_GIB = 2.5, 8.0
# seconds that a part takes: of itself, and for each case; environment, inspect and steps as on an H100 with 16 cores,
# the others guessed; corrected by those that are done
ITSELF = {"environment": 5, "checks": 180, "agree": 15, "inspect": 15, "steps": 30, "predict": 15, "sizes": 25}
A_CASE = {"agree": 1.5, "inspect": 1.5, "steps": 6.5, "predict": 3.0, "sizes": 6.5}


@dataclass(frozen=True)
class Part:
    """
    Attributes:
        name: of its files.
        kind: of KINDS.
        command: without the interpreter in front and --json behind.
        seconds: about what it takes.
        peers: whether it needs the libraries of setup_peers.sh.
    """

    name: str
    kind: str
    command: tuple[str, ...]
    seconds: float
    peers: bool = False

    def full_command(self, out: Path) -> list[str]:
        return [sys.executable, *self.command, "--json", str(self.file(out))]

    def file(self, out: Path) -> Path:
        return out / f"{self.name}.json"


@dataclass(frozen=True)
class Wishes:
    """What is asked for, from the environment's variables.

    Attributes:
        kinds: of KINDS, in this order.
        dtypes, batches, lengths, cases: None where the defaults are meant.
        more: arguments of step_time.py.
        memory_gib: of the GPU, or None where nobody knows.
    """

    device: str
    size: str
    kinds: tuple[str, ...]
    dtypes: tuple[str, ...] | None = None
    batches: tuple[str, ...] | None = None
    lengths: tuple[str, ...] | None = None
    cases: tuple[str, ...] | None = None
    more: tuple[str, ...] = ()
    memory_gib: float | None = None


def wishes(variables: Mapping[str, str], more: tuple[str, ...], memory_gib: float | None = None) -> Wishes:
    """What environment variables and command line ask for.

    Raises:
        InputError: a part that is none of KINDS.
    """
    device, size = variables.get("DEVICE") or "cuda", variables.get("SIZE") or "roberta-large"
    usual = KINDS if device == "cuda" else tuple(kind for kind in KINDS if kind != "checks")  # they are in the tests
    kinds = _words(variables, "PARTS") or usual
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(f"PARTS={kind} is unknown: give some of {' '.join(KINDS)}")
    return Wishes(
        device,
        size,
        kinds,
        dtypes=_words(variables, "DTYPES"),
        batches=_words(variables, "BATCHES"),
        lengths=_words(variables, "LENGTHS"),
        cases=_words(variables, "CASES"),
        more=more,
        memory_gib=memory_gib,
    )


def _words(variables: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    return tuple(variables.get(name, "").split()) or None


def parts(asked: Wishes) -> list[Part]:
    """In the order in which they are run: what says whether figures can be trusted first, the longest last."""
    makers = {"environment": _environment, "checks": _checks, "steps": _steps, "sizes": _sizes}
    found: list[Part] = []
    for kind in (kind for kind in KINDS if kind in asked.kinds):
        found += makers[kind](asked) if kind in makers else _looks(kind, asked)
    return found


def _part(name: str, kind: str, command: list[str], cases: list[Case] | None = None) -> Part:
    given = [] if cases is None else ["--cases", *(case.name for case in cases)]
    seconds = ITSELF[kind] + A_CASE.get(kind, 0) * len(cases or [])
    return Part(name, kind, (*command, *given), seconds, any(case.peer for case in cases or []))


def _environment(asked: Wishes) -> list[Part]:
    return [_part("environment", "environment", ["benchmarks/gpu/looking.py", "environment", "--device", asked.device])]


def _checks(asked: Wishes) -> list[Part]:
    return [_part("checks", "checks", ["benchmarks/gpu/looking.py", "checks", "--device", asked.device])]


def defaults(size: str) -> dict[str, str]:
    return TINY if size == "tiny" else LARGE


def measured_cases(asked: Wishes) -> list[Case]:
    """All cases, with the peers whose library is here."""
    patterns = asked.cases or (TINY["CASES"].split() if asked.size == "tiny" else ["*"])
    return [case for case in chosen(list(patterns)) if asked.cases or not case.peer or is_here(case.maker)]


def is_here(library: str) -> bool:
    return find_spec(library) is not None or (PEERS_FOLDER / library).is_dir()


def _all_dtypes(asked: Wishes) -> tuple[str, ...]:
    return asked.dtypes or (("bfloat16",) if asked.size == "tiny" else DTYPES)


def _shape(asked: Wishes) -> list[str]:
    batch, length = SHAPE.get(asked.size, SHAPE["roberta-large"])
    return ["--device", asked.device, "--size", asked.size, "--batch", str(batch), "--length", str(length)]


def _looks(kind: str, asked: Wishes) -> list[Part]:
    """One process for all cases of ours and one for all peers, which have libraries of their own."""
    found = []
    same = {"agree": ("peer", "grouped"), "inspect": ("grouped",), "predict": ("grouped", "checkpointed")}[kind]
    cases = [case for case in measured_cases(asked) if not any(getattr(case, name) for name in same)]
    for dtype in ("float32",) if kind == "agree" else _all_dtypes(asked):
        for ending, some in (("", [c for c in cases if not c.peer]), ("-peers", [c for c in cases if c.peer])):
            command = ["benchmarks/gpu/looking.py", kind, *_shape(asked), "--dtype", dtype]
            found += [_part(f"{kind}-{dtype}{ending}", kind, command, some)] if some else []
    return found


def together(memory_gib: float | None, dtype: str) -> int:
    """Cases that a GPU holds at the same time, while one of them takes a step."""
    if memory_gib is None:
        return TOGETHER
    each = PROCESS_GIB if dtype == "float32" else 0.6 * PROCESS_GIB
    return max(len(REFERENCES) + 1, min(TOGETHER, int((memory_gib - STEP_GIB) / each)))


def _steps(asked: Wishes) -> list[Part]:
    found = []
    for dtype in _all_dtypes(asked):
        at_once = together(asked.memory_gib, dtype)
        for number, (_, cases) in enumerate(blocks(measured_cases(asked), at_once), 1):
            command = ["benchmarks/step_time.py", *_shape(asked), "--dtype", dtype, *ROUNDS, *asked.more]
            found.append(_part(f"steps-{dtype}-{number}", "steps", command, cases))
    return found


def _sizes(asked: Wishes) -> list[Part]:
    """A few cases with batches and sentences of several sizes."""
    usual = defaults(asked.size)
    names = asked.cases or tuple(usual["CASES"].split())
    if not asked.cases and asked.size != "tiny" and is_here("peft"):
        names += CORE_PEERS
    cases, found = chosen(list(names)), []
    for dtype in asked.dtypes or usual["DTYPES"].split():
        for batch in asked.batches or usual["BATCHES"].split():
            for length in asked.lengths or usual["LENGTHS"].split():
                command = ["benchmarks/step_time.py", "--device", asked.device, "--size", asked.size]
                command += ["--dtype", dtype, "--batch", batch, "--length", length, *asked.more]
                found.append(_part(f"{dtype}-batch{batch}-length{length}", "sizes", command, cases))
    return found


def environment_of(part: Part) -> dict[str, str]:
    """A peers' process sees their libraries before those of this environment, as step_time.py's do."""
    own = dict(os.environ, TOKENIZERS_PARALLELISM="false", PYTHONUNBUFFERED="1")
    if part.peers and part.command[0] != "benchmarks/step_time.py":
        own.update(
            PYTHONPATH=os.pathsep.join(filter(None, [str(PEERS_FOLDER), own.get("PYTHONPATH")])), HF_HUB_OFFLINE="1"
        )
    return own
