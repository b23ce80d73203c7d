"""Table 2: trainable parameters without the head, from runs or, where a row has none, from the modules themselves."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from preprocess.errors import InputError

from .paper import PAPER_ARCH, PaperCount, paper
from .render import MISSING, NOTHING, Table
from .runs import Results, Run, architecture, backbone_label, grouped, has_finished
from .scope import Choice, settle

SAME_AS = {"efl": "fine-tuning"}  # has no line of its own in Table 2


@dataclass(frozen=True)
class Counts:
    """Trainable parameters in one architecture.

    Attributes:
        of_runs, counted: row -> parameters, as runs say and as counted.
    """

    arch: str
    of_runs: dict[str, int]
    counted: dict[str, int]

    @property
    def rows(self) -> list[str]:
        """The paper's, then others with runs."""
        return list(dict.fromkeys([*paper().counts, *self.of_runs]))

    def trainable(self, row: str) -> int | None:
        """As runs say; a run that trains the whole backbone may say 0, as its method has no parameters."""
        return self.of_runs.get(row) or self.counted.get(row, self.of_runs.get(row))

    def source(self, row: str) -> str:
        known = self.trainable(row)
        return NOTHING if known is None else "runs" if known == self.of_runs.get(row) else "counted"


def printed_count(row: str) -> PaperCount | None:
    return paper().counts.get(SAME_AS.get(row, row))


def trainable_counts(results: Results, choice: Choice) -> Counts:
    """Of the paper's rows and of others with runs, but for those of the ablations.

    Raises:
        InputError: there are runs of several architectures, or prompt lengths of a row, and no choice among them; a row
            has runs that train more and less.
    """
    runs = [run for run in results.runs if has_finished(run) and choice.accepts(run)]
    runs = [run for run in runs if not paper().is_ablation(run["row"])]
    by_arch = grouped(runs, architecture)
    if len(by_arch) > 1:
        named = "; ".join(f"{arch}: {', '.join(sorted(set(map(backbone_label, of))))}" for arch, of in by_arch.items())
        raise InputError(f"{results.place} has runs of more than one architecture ({named}): give --backbone")
    by_row = grouped(settle(runs, choice, results, ["prompt_length"]), lambda run: run["row"])
    of_runs = {row: only_count(results, row, of) for row, of in by_row.items()}
    arch = next(iter(by_arch), PAPER_ARCH)
    return Counts(arch, of_runs, _counted(arch) if any(not of_runs.get(row) for row in paper().counts) else {})


def only_count(results: Results, row: str, runs: Iterable[Run]) -> int:
    found = sorted({run["trainable"] for run in runs})
    if len(found) > 1:
        raise InputError(
            f"{results.place}: runs of {row} train {' and '.join(map(str, found))} parameters: name them apart"
        )
    return found[0]


@contextlib.contextmanager
def own_logging() -> Iterator[None]:
    """Undoes what fairseq does to logging when it is imported: all messages of all libraries on stderr."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        root.setLevel(level)
        root.handlers[:] = handlers


def _counted(arch: str) -> dict[str, int]:
    with own_logging():
        from fairseq_idpg import count  # loads torch and fairseq: only where it is needed
        from fairseq_idpg.models.architectures import SIZES

    return {row.preset: row.own or row.of_backbone for row in count.counts(arch)} if arch in SIZES else {}


def count_table(results: Results, choice: Choice) -> Table:
    """Ours, the paper's, and by how much ours is larger."""
    found = trainable_counts(results, choice)
    groups = [[[row, *_cells(found, row)]] for row in choice.pick(found.rows)]
    notes = [
        f"architecture {found.arch}; classification heads are not counted",
        "source: runs, or counted by building the modules where no run says",
        "paper: RoBERTa-large, digits cut; its K is 1,024 and its M 1,024 K, but a million for fine-tuning",
    ]
    header = ["method", "ours", "source", "paper", "difference"]
    return Table("Table 2: trainable parameters", 1, header, groups, notes)


def _cells(found: Counts, row: str) -> list[str]:
    trainable, theirs = found.trainable(row), printed_count(row)
    difference = NOTHING
    if trainable is not None and theirs is not None and found.arch == PAPER_ARCH:
        difference = f"{trainable / theirs.parameters - 1:+.1%}"
    return [
        MISSING if trainable is None else f"{trainable:,}",
        found.source(row),
        NOTHING if theirs is None else theirs.printed,
        difference,
    ]
