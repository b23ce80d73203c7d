"""Draws cases, runs them, and judges them."""

from __future__ import annotations

import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Callable, Iterable, Iterator, Sequence

from . import world
from .damage import BYTES
from .server import Aim, Request, ask, server
from .targets import TARGETS, Target
from .verdict import BAD, End, judge, listing

LIMIT = 120.0  # seconds, many times what any command needs
OFTEN = {"bit flip": 4, "byte flip": 2, "truncation": 2}  # in a round of all kinds of a target; others once


@dataclass(frozen=True)
class Case:
    """One damage of one target; the same name and seed are the same bytes."""

    target: str
    kind: str
    number: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.target}:{self.kind}:{self.number}"

    @classmethod
    def named(cls, name: str, seed: int) -> Case:
        target, kind, number = name.rsplit(":", 2)
        return cls(target, kind, int(number), seed)


@dataclass(frozen=True)
class Outcome:
    """``where``: the file and what was done to it."""

    case: Case
    verdict: str
    where: str
    reason: str

    @property
    def bad(self) -> bool:
        return self.verdict in BAD


def draw_cases(count: int, seed: int, targets: Sequence[str]) -> list[Case]:
    """So many cases, every kind of damage of every target about equally often, in an order that the seed decides."""
    draw = Random(seed)
    kinds = [(name, kind) for name in targets for kind in TARGETS[name].kinds for _ in range(OFTEN.get(kind, 1))]
    found: list[Case] = []
    numbers = dict.fromkeys(kinds, 0)
    while len(found) < count:
        draw.shuffle(kinds)
        for target, kind in kinds[: count - len(found)]:
            found.append(Case(target, kind, numbers[target, kind], seed))
            numbers[target, kind] += 1
    return found


class Campaign:
    """A world of undamaged files, a server of the code under test, and a folder for the copies."""

    def __init__(self, place: Path, socket: Path, code: Path):
        self.place, self.socket, self.code = place, socket, code
        self.world = place / "world"
        self.expected: dict[tuple[str, ...], str] = {}

    def build(self) -> None:
        self.world.mkdir()
        world.build(self.world, partial(self.must_run, self.world))
        self.untouched = listing(self.world)

    def must_run(self, folder: Path, tool: str, *arguments: str) -> str:
        """What a command on undamaged files prints."""
        end = self.run(folder, (tool, *arguments))
        if end.status != 0:
            raise RuntimeError(f"{tool} {' '.join(arguments)}: status {end.status}\n{end.out[-2000:]}{end.err[-2000:]}")
        return end.out

    def run(self, folder: Path, command: Sequence[str], aim: Aim | None = None) -> End:
        tool, *arguments = (part.format(code=self.code) for part in command)
        with tempfile.TemporaryDirectory(dir=self.place) as place:
            out, err = Path(place, "out"), Path(place, "err")
            before = listing(folder)
            status = ask(self.socket, Request(tool, tuple(arguments), str(folder), str(out), str(err), LIMIT, aim))
            texts = [path.read_text(errors="replace").replace(str(folder), "CASE") for path in (out, err)]
        return End(status, *texts, before, listing(folder))

    def undamaged(self, target: Target) -> None:
        """Notes the answer of a target's command."""
        folder = self.copy()
        answer = target.answer(folder, self.must_run(folder, *target.command))
        if not answer.strip():
            raise RuntimeError(f"{target.name}: undamaged files have an empty answer")
        self.expected[target.command] = answer
        shutil.rmtree(folder)

    def copy(self) -> Path:
        """A new copy of the world."""
        folder = Path(tempfile.mkdtemp(dir=self.place)) / "case"
        shutil.copytree(self.world, folder)
        return folder

    def damage(self, case: Case, folder: Path) -> tuple[Path, str]:
        """(what was damaged, what was done to it) in a copy of the world."""
        target, draw = TARGETS[case.target], Random(f"{case.seed}:{case.name}")
        file = draw.choice(sorted(path for path in folder.glob(target.files) if path.is_file()))
        if case.kind in BYTES:
            return file, BYTES[case.kind](file, draw)
        whole = file if target.whole is None else folder / target.whole
        return whole, target.structure[case.kind](whole, draw)

    def judge(self, case: Case, keep: Path | None = None) -> Outcome:
        """Damages a copy of the world and runs the command on it; ``keep``: where to leave the copy and show all."""
        target, folder = TARGETS[case.target], self.copy()
        damaged, done = self.damage(case, folder)
        name = str(damaged.relative_to(folder))
        end = self.run(folder, target.command)
        answer = self._answer(target, folder, end)
        whole = damaged if target.whole is None else folder / target.whole
        is_valid = partial(target.valid, whole, self.world / whole.relative_to(folder))
        expected = self.expected[target.command]
        more = {"warning": target.warning, "names": target.names, "allowed": target.allowed}
        verdict, reason = judge(end, name, answer, expected, is_valid, **more)
        if keep is not None:
            shutil.move(folder, keep / case.name.replace("/", "-").replace(":", "-").replace(" ", "-"))
            print(f"{end.out}{end.err}status {end.status}")
        shutil.rmtree(folder.parent)
        return Outcome(case, verdict, f"{name}: {done}", reason)

    def _answer(self, target: Target, folder: Path, end: End) -> str | None:
        if end.status != 0:
            return None
        try:
            return target.answer(folder, end.out)
        except Exception as error:  # what the command made cannot even be read
            return f"no answer: {error!r}"


def outcomes(
    cases: Sequence[Case], code: Path, jobs: int, keep: Path | None = None, shown: Callable[[Outcome], None] = print
) -> Iterator[Outcome]:
    """Every case's outcome, in the order of the cases.

    Raises:
        RuntimeError: a command fails on undamaged files, or a case wrote into the undamaged ones.
    """
    with tempfile.TemporaryDirectory(prefix="robustness.") as place, server(Path(place), code) as socket:
        campaign = Campaign(Path(place), socket, code)
        campaign.build()
        with ThreadPoolExecutor(jobs) as pool:
            targets: Iterable[Target] = {TARGETS[c.target].command: TARGETS[c.target] for c in cases}.values()
            list(pool.map(campaign.undamaged, targets))
            yield from pool.map(partial(campaign.judge, keep=keep), cases)
        if listing(campaign.world) != campaign.untouched:
            raise RuntimeError("a command wrote outside its folder")
