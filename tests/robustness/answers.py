"""All of a command's result that damage may not change, as text: what it printed, or what it left."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Callable, Mapping

import torch

Answer = Callable[[Path, str], str]  # (folder of the case, what was printed)
LOGGED = re.compile(r'"((?:train|valid)_(?:loss|accuracy))": "([^"]+)"')


def printed(folder: Path, out: str) -> str:
    return "\n".join(line for line in out.splitlines() if " | INFO | " not in line)


def logged(folder: Path, out: str) -> str:
    return "\n".join(f"{name} {value}" for name, value in LOGGED.findall(out))


def predictions(folder: Path, out: str) -> str:
    return (folder / "out.tsv").read_text(encoding="utf-8")


def trained(save_dir: str) -> Answer:
    """Losses, and the weights at the end."""

    def answer(folder: Path, out: str) -> str:
        state = torch.load(folder / save_dir / "checkpoint_last.pt", map_location="cpu", weights_only=False)
        return f"{logged(folder, out)}\n{weights(state['model'])}"

    return answer


def weights(tensors: Mapping[str, object]) -> str:
    """A line for each tensor: its name and the digest of its bytes."""
    found = sorted((name, value) for name, value in tensors.items() if torch.is_tensor(value))
    return "\n".join(f"{name} {digest(value.contiguous().view(-1).numpy().tobytes())}" for name, value in found)


def converted(name: str) -> Answer:
    """The weights and options of a model that was made of another program's."""

    def answer(folder: Path, out: str) -> str:
        state = torch.load(folder / name, map_location="cpu", weights_only=False)
        options = state["cfg"]["model"] if "cfg" in state else vars(state["args"])
        return f"{weights(state['model'])}\n{json.dumps(options, sort_keys=True)}"

    return answer


def files_of(name: str, without: str = "") -> Answer:
    """The files of a folder that the command made, besides those whose names match ``without``."""

    def answer(folder: Path, out: str) -> str:
        files = sorted(path for path in (folder / name).rglob("*") if path.is_file())
        kept = [path for path in files if not re.search(without or "$^", path.name)]
        return "\n".join(f"{path.relative_to(folder)} {digest(path.read_bytes())}" for path in kept)

    return answer


def rows(name: str) -> Answer:
    """M(x) in a cache, whatever the files are called."""

    def answer(folder: Path, out: str) -> str:
        return "\n".join(sorted(digest(path.read_bytes()) for path in (folder / name).glob("*.npy")))

    return answer


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
