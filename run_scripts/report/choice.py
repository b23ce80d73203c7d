"""What the command line says of the runs to take."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Collection, Iterable, Iterator

from run_scripts.run.records import RunError

from .paper import paper
from .runs import PAIRS, Run, is_prompted, kind_of


@dataclass(frozen=True)
class Choice:
    """None or () where nothing is said.

    Attributes:
        tasks: in the order of the columns; the paper's ten by default.
        rows: by default the paper's, and whatever else has runs.
        backbones: beginnings of SHA-256 fingerprints, or ends of paths.
        positions: downstream position for both kinds of tasks, or of single sentences and of pairs.
        supplementary: position in supplementary training, or "none".
        prompt_length: of rows with runs of several.
        k: examples of few-shot training, for figures that the paper draws of full training.
    """

    tasks: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    selection: str | None = None
    backbones: tuple[str, ...] = ()
    positions: tuple[int, ...] = ()
    supplementary: int | str | None = None
    prompt_length: int | None = None
    k: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return self.tasks or paper().tasks

    def shows(self, row: str) -> bool:
        return not self.rows or row in self.rows

    def pick(self, rows: Iterable[str]) -> list[str]:
        """What is shown of the rows that there are.

        Raises:
            RunError: a row that was asked for is not among them.
        """
        there = list(dict.fromkeys(rows))
        for name in self.rows:
            check_row("--rows", name, there)
        return list(filter(self.shows, there))

    def accepts(self, run: Run) -> bool:
        """Whether a run agrees; what is said of prompts says nothing about runs that have none."""
        return all(self._agreements(run))

    def _agreements(self, run: Run) -> Iterator[bool]:
        yield run["task"] in self.columns
        yield self.shows(run["row"])
        if self.selection:
            yield run["selection"] == self.selection
        if self.backbones:
            yield any(_is_backbone(run, name) for name in self.backbones)
        if not is_prompted(run):
            return
        if self.positions:
            yield run.get("position") == self.positions[-1 if kind_of(run["task"]) == PAIRS else 0]
        if self.supplementary is not None:
            yield run.get("supplementary_position") == (None if self.supplementary == "none" else self.supplementary)

    @property
    def options(self) -> str:
        """The filters as they stand on the command line."""
        given = {
            "--tasks": self.tasks,
            "--rows": self.rows,
            "--selection": [self.selection],
            "--backbone": self.backbones,
            "--position": self.positions,
            "--supplementary-position": [self.supplementary],
        }
        texts = {option: " ".join(str(v) for v in values if v is not None) for option, values in given.items()}
        return ", ".join(f"{option} {text}" for option, text in texts.items() if text)


def check_row(option: str, name: str, rows: Collection[str]) -> None:
    """Refuses a row that is not among ``rows``; the nearest is suggested."""
    if name not in rows:
        near = get_close_matches(name, rows, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise RunError(f"{option} {name}: {hint}choose from the rows {', '.join(rows)}")


def _is_backbone(run: Run, name: str) -> bool:
    """A failed run whose fingerprint is not known may be of any: it is only counted."""
    end = Path(name).parts
    sha256, path = run["backbone"]["sha256"], Path(run["backbone"]["path"])
    return not sha256 or sha256.startswith(name.lower()) or path.parts[-len(end) :] == end
