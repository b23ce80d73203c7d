"""Runs that are killed while they save, and then given the same command again until they end.

What they leave must be what an uninterrupted run leaves, bit for bit: of fairseq-train the weights and the losses of
every validation and epoch, of ``python -m fairseq_idpg.encode`` the rows of M(x); and no other files.
"""

from __future__ import annotations

import json
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Callable, Iterator, Sequence

import torch

from .answers import digest, weights
from .campaign import Campaign
from .server import Aim, server
from .targets import BACKBONE_OPTION, DATA, ENCODE_ANEW
from .world import CLASSES, TRAINING

SAVED = "new"  # the folder that is watched
FAILED = "the same command failed"
LATEST = 0.03  # seconds between a change of the files and the kill
Left = Callable[[Path, Sequence[str]], "dict[str, str]"]  # (folder, what each command printed) -> all that must agree


@dataclass(frozen=True)
class Loop:
    """A command that saves; ``changes``: about how often an uninterrupted one is seen to change its files."""

    name: str
    command: tuple[str, ...]
    changes: int
    left: Left


@dataclass(frozen=True)
class Killed:
    """A run that ended after so many kills; ``differs``: what is not as in the uninterrupted run, '' if nothing."""

    name: str
    kills: int
    differs: str


def training(folder: Path, outputs: Sequence[str]) -> dict[str, str]:
    """The weights of each checkpoint; each loss by its update, with every value that any of the commands printed."""
    found = {path.name: weights(_load(path)["model"]) for path in sorted(folder.glob("*.pt"))}
    for line in "".join(outputs).splitlines():
        if '_loss": ' in line:
            values = json.loads(line[line.index("{") :])
            for name in ("train_loss", "valid_loss", "valid_accuracy"):
                if name in values:
                    when = values.get("valid_num_updates", values.get("train_num_updates"))
                    key, value = f"update {when} {name}", values[name]
                    found[key] = value if found.get(key, value) == value else f"{found[key]} and {value}"
    return found


def _load(path: Path) -> dict:
    return torch.load(path, map_location="cpu", weights_only=False)


def encoding(folder: Path, outputs: Sequence[str]) -> dict[str, str]:
    return {path.name: digest(path.read_bytes()) for path in sorted(folder.iterdir()) if path.suffix != ".lock"}


# Checkpoints of 20 MB, which take a while to be written.
LARGE = ("--method", "s-idpg-dnn", "--generator-hidden-size", "16384")
PLAIN = ("fairseq_cli.train", DATA, *TRAINING, *CLASSES, *LARGE, *BACKBONE_OPTION, "--save-dir", SAVED, "--max-epoch")
OFTEN = ("--save-interval-updates", "1", "--keep-interval-updates", "1")
LOOPS = (
    Loop("fairseq-train", (*PLAIN, "6"), 20, training),
    Loop("fairseq-train within epochs", (*PLAIN, "2", *OFTEN), 30, training),
    Loop("encode", (*ENCODE_ANEW, "--splits", "train", "valid"), 8, encoding),
)


def kill_loops(code: Path, kills: int, seed: int, loops: Sequence[Loop] = LOOPS) -> Iterator[Killed]:
    """Runs of each loop's command until ``kills`` of them were killed and the last has ended."""
    draw = Random(seed)
    with tempfile.TemporaryDirectory(prefix="robustness.") as place, server(Path(place), code) as socket:
        campaign = Campaign(Path(place), socket, code)
        campaign.build()
        for loop in loops:
            whole = _until_the_end(campaign, loop, draw, 0)
            count = 0
            while count < kills:
                killed = _until_the_end(campaign, loop, draw, kills - count)
                count += killed[0]
                yield Killed(loop.name, killed[0], difference(killed[1], whole[1]))


def _until_the_end(campaign: Campaign, loop: Loop, draw: Random, most: int) -> tuple[int, dict[str, str]]:
    """(kills, what is left) of a command that is repeated, and killed at most so many times, until it ends."""
    folder, outputs, kills = campaign.copy(), [], 0
    saved = folder / SAVED
    while True:
        delay = draw.choice([0, 0.001, draw.random() * LATEST])
        aim = Aim(str(saved), draw.randint(1, loop.changes), delay) if kills < most else None
        end = campaign.run(folder, loop.command, aim)
        outputs.append(end.out)
        if end.status == 0:
            break
        if end.status != -signal.SIGKILL:
            return kills, {FAILED: f"status {end.status}, {end.last_line}"}
        kills += 1
    left = {**loop.left(saved, outputs), "files": " ".join(sorted(path.name for path in saved.iterdir()))}
    return kills, left


def difference(left: dict[str, str], whole: dict[str, str]) -> str:
    """What the killed run left otherwise; training losses whose line a kill cut off are not missed."""
    if FAILED in left:
        return f"{FAILED}: {left[FAILED]}"
    missing = [name for name in whole if name not in left and not name.endswith("train_loss")]
    other = [name for name in left if left[name] != whole.get(name)]
    return "; ".join([f"{name} is missing" for name in missing] + [f"{name}: {left[name][:200]}" for name in other])
