"""Damage to the bytes of a file, whatever the file is: pure functions of the bytes and a seeded generator."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random
from typing import Callable

ByteDamage = Callable[[bytes, Random], "tuple[bytes, str]"]  # the damaged bytes, and where in words
Damage = Callable[[Path, Random], str]  # damages the file in its place, and says where
BLOCKS = (16, 64, 256, 1024)


def _block(data: bytes, draw: Random) -> tuple[int, int]:
    """(start, length) of a part that holds at least one byte."""
    length = min(len(data), draw.choice(BLOCKS))
    return draw.randrange(len(data) - length + 1), length


def bit_flip(data: bytes, draw: Random) -> tuple[bytes, str]:
    at, bit = draw.randrange(len(data)), draw.randrange(8)
    return data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :], f"byte {at} bit {bit}"


def byte_flip(data: bytes, draw: Random) -> tuple[bytes, str]:
    at, other = draw.randrange(len(data)), draw.randrange(1, 256)
    return data[:at] + bytes([data[at] ^ other]) + data[at + 1 :], f"byte {at}"


def truncation(data: bytes, draw: Random) -> tuple[bytes, str]:
    left = draw.choice([draw.randrange(len(data)), max(0, len(data) - draw.randint(1, 16))])
    return data[:left], f"{left} of {len(data)} bytes left"


def zeroed(data: bytes, draw: Random) -> tuple[bytes, str]:
    at, length = _block(data, draw)
    return data[:at] + bytes(length) + data[at + length :], f"{length} bytes from {at}"


def swapped(data: bytes, draw: Random) -> tuple[bytes, str]:
    length = max(1, min(len(data) // 2, draw.choice(BLOCKS)))
    at = draw.randrange(max(1, len(data) - 2 * length + 1))
    other = draw.randrange(at + length, max(at + length + 1, len(data) - length + 1))
    one, two = data[at : at + length], data[other : other + length]
    return data[:at] + two + data[at + length : other] + one + data[other + length :], f"{length} bytes {at}, {other}"


def duplicated(data: bytes, draw: Random) -> tuple[bytes, str]:
    at, length = _block(data, draw)
    return data[: at + length] + data[at : at + length] + data[at + length :], f"{length} bytes from {at}"


def appended(data: bytes, draw: Random) -> tuple[bytes, str]:
    more = draw.choice([b"\n", b"\0" * 16, draw.randbytes(draw.randint(1, 64))])
    return data + more, f"{len(more)} bytes"


def emptied(data: bytes, draw: Random) -> tuple[bytes, str]:
    return b"", "empty"


def on_bytes(change: ByteDamage) -> Damage:
    """The same on a file."""

    def damage(path: Path, draw: Random) -> str:
        content, where = change(path.read_bytes() or b"\0", draw)
        path.write_bytes(content)
        return where

    return damage


def directory(path: Path, draw: Random) -> str:
    path.unlink()
    path.mkdir()
    return "a folder in its place"


def absent(path: Path, draw: Random) -> str:
    path.unlink()
    return "gone"


def other_content(path: Path, draw: Random) -> str:
    """The content of another file of the case."""
    content = path.read_bytes()
    others = [other for other in sorted(path.parents[1].rglob("*")) if other.is_file() and not other.is_symlink()]
    other = draw.choice([other for other in others if other.read_bytes() != content])
    shutil.copyfile(other, path)
    return f"holds {os.path.relpath(other, path.parent)}"


BYTES: dict[str, Damage] = {
    "bit flip": on_bytes(bit_flip),
    "byte flip": on_bytes(byte_flip),
    "truncation": on_bytes(truncation),
    "zeroed": on_bytes(zeroed),
    "swapped": on_bytes(swapped),
    "duplicated": on_bytes(duplicated),
    "appended": on_bytes(appended),
    "empty": on_bytes(emptied),
    "directory": directory,
    "absent": absent,
    "other file": other_content,
}
