"""Binarized folders and caches of M(x) that are whole files and wrong."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from .damage import Damage
from .values import CODE, STRANGE, leaves, put

HEADER = 9 + 17  # magic; version, type, count
SYMBOLS = 4 + 256 + 1  # of the world's dictionary, with <mask>
CLASSES = 2
SPLITS = ("train", "valid")


def _prefix(folder: Path, part: str, draw: Random) -> Path:
    """One of the two splits that trainings read, of which damage to the second is seen by predict, too."""
    return folder / part / draw.choice(SPLITS)


def _input(folder: Path, draw: Random) -> Path:
    return _prefix(folder, draw.choice(["input0", "input1"]), draw)


def read_rows(prefix: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(ids, lengths, byte offsets) of a split in 16 bits, each to be written in place."""
    index = Path(f"{prefix}.idx").read_bytes()
    count = struct.unpack("<Q", index[HEADER - 8 : HEADER])[0]
    lengths = np.frombuffer(index, np.int32, count, HEADER).copy()
    starts = np.frombuffer(index, np.int64, count, HEADER + 4 * count).copy()
    return np.fromfile(f"{prefix}.bin", np.uint16), lengths, starts


def write_rows(prefix: Path, ids: np.ndarray, lengths: np.ndarray, starts: np.ndarray) -> None:
    index = Path(f"{prefix}.idx").read_bytes()[: HEADER - 8] + struct.pack("<Q", len(lengths))
    Path(f"{prefix}.idx").write_bytes(index + lengths.tobytes() + starts.tobytes())
    ids.tofile(f"{prefix}.bin")


def _one_id(prefix: Path, at: int, value: int) -> str:
    ids, *index = read_rows(prefix)
    ids[at] = value
    write_rows(prefix, ids, *index)
    return f"{prefix.parent.name}/{prefix.name} token {at} = {value}"


def id_too_large(folder: Path, draw: Random) -> str:
    prefix = _input(folder, draw)
    return _one_id(prefix, draw.randrange(len(read_rows(prefix)[0])), draw.choice([SYMBOLS, SYMBOLS + 1, 65535]))


def label_beyond(folder: Path, draw: Random) -> str:
    prefix = _prefix(folder, "label", draw)
    row = draw.randrange(len(read_rows(prefix)[1]))
    return _one_id(prefix, 2 * row, draw.choice([0, 1, 2, 3, 4 + CLASSES, 7, 8, 100, 65535]))


def no_end(folder: Path, draw: Random) -> str:
    prefix = _input(folder, draw)
    _, lengths, starts = read_rows(prefix)
    row = draw.randrange(len(lengths))
    return _one_id(prefix, int(starts[row]) // 2 + int(lengths[row]) - 1, draw.choice([1, 3, 4, 50]))


def pad_inside(folder: Path, draw: Random) -> str:
    prefix = _input(folder, draw)
    _, _, starts = read_rows(prefix)
    return _one_id(prefix, int(draw.choice(starts.tolist())) // 2, 1)


def other_count(folder: Path, draw: Random) -> str:
    """A part with an example more or less than the others."""
    prefix = _prefix(folder, draw.choice(["input0", "input1", "label"]), draw)
    ids, lengths, starts = read_rows(prefix)
    if draw.random() < 0.5:
        write_rows(prefix, ids[: -lengths[-1]], lengths[:-1], starts[:-1])
        return f"{prefix.parent.name}/{prefix.name} one less"
    more = np.append(ids, np.uint16(2)), np.append(lengths, np.int32(1)), np.append(starts, 2 * len(ids))
    write_rows(prefix, *more)
    return f"{prefix.parent.name}/{prefix.name} one more"


def rows_exchanged(folder: Path, draw: Random) -> str:
    """Another order of the rows of one part."""
    prefix = _prefix(folder, draw.choice(["input0", "input1", "label"]), draw)
    ids, lengths, starts = read_rows(prefix)
    one, two = draw.sample(range(len(lengths)), 2)
    for index in (lengths, starts):
        index[[one, two]] = index[[two, one]]
    write_rows(prefix, ids, lengths, starts)
    return f"{prefix.parent.name}/{prefix.name} rows {one}, {two}"


def index_strange(folder: Path, draw: Random) -> str:
    prefix = _prefix(folder, draw.choice(["input0", "input1", "label"]), draw)
    ids, lengths, starts = read_rows(prefix)
    row, index = draw.randrange(len(lengths)), draw.choice([lengths, starts])
    index[row] = draw.choice([0, -1, 1, 3, 1 << 20, (1 << 31) - 1])
    write_rows(prefix, ids, lengths, starts)
    return f"{prefix.parent.name}/{prefix.name} row {row}: {'length' if index is lengths else 'offset'} {index[row]}"


def dictionary_changed(folder: Path, draw: Random) -> str:
    path = folder / draw.choice(["input0", "input1", "label", "label"]) / "dict.txt"
    if not path.is_file():  # of scores
        path = folder / "input0" / "dict.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    one, two = draw.sample(range(min(len(lines), 40)), 2)
    ways = {
        "exchanged": lambda: lines.__setitem__(slice(None), _exchanged(lines, one, two)),
        "twice": lambda: lines.__setitem__(one, lines[two]),
        "one less": lambda: lines.pop(one),
        "one more": lambda: lines.insert(one, "another 1"),
        "renamed": lambda: lines.__setitem__(one, "another 1"),
        "no count": lambda: lines.__setitem__(one, lines[one].split()[0]),
        "count is text": lambda: lines.__setitem__(one, f"{lines[one].split()[0]} many"),
    }
    way = draw.choice(list(ways))
    ways[way]()
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return f"{path.parent.name}/dict.txt lines {one + 1}, {two + 1}: {way}"


def _exchanged(lines: list[str], one: int, two: int) -> list[str]:
    lines = list(lines)
    lines[one], lines[two] = lines[two], lines[one]
    return lines


def part_gone(folder: Path, draw: Random) -> str:
    gone = draw.choice([path for path in sorted(folder.rglob("*")) if "test" not in path.name])
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    return f"without {gone.relative_to(folder)}"


def parts_exchanged(folder: Path, draw: Random) -> str:
    one, two, aside = folder / "input0", folder / "input1", folder / "aside"
    one.rename(aside), two.rename(one), aside.rename(two)
    return "input0 and input1"


def scores_strange(folder: Path, draw: Random) -> str:
    path = folder / "label" / f"{draw.choice(SPLITS)}.label"
    lines = path.read_text().splitlines()
    at = draw.randrange(len(lines))
    lines[at] = draw.choice(["nan", "inf", "-inf", "1e999", "", "text", "1 2", "0x10", "1,5", "١٢nan", "--1"])
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return f"{path.name} line {at + 1}: {lines[at]!r}"


def score_count(folder: Path, draw: Random) -> str:
    path = folder / "label" / f"{draw.choice(SPLITS)}.label"
    lines = path.read_text().splitlines()
    lines = draw.choice([lines[:-1], [*lines, "0.5"], []])
    path.write_text("".join(f"{line}\n" for line in lines))
    return f"{path.name} has {len(lines)} lines"


FOLDER: dict[str, Damage] = {
    "id too large": id_too_large,
    "label beyond": label_beyond,
    "no </s>": no_end,
    "pad inside": pad_inside,
    "other count": other_count,
    "rows exchanged": rows_exchanged,
    "index strange": index_strange,
    "dictionary": dictionary_changed,
    "part gone": part_gone,
    "parts exchanged": parts_exchanged,
}
OF_SCORES = {name: damage for name, damage in FOLDER.items() if name not in ("label beyond", "rows exchanged")}
SCORES = {"scores strange": scores_strange, "score count": score_count, "dictionary": dictionary_changed}
SCORES |= {name: FOLDER[name] for name in ("id too large", "no </s>", "pad inside", "part gone")}


# --- json records and caches ---------------------------------------------------------------------


def json_changed(path: Path, draw: Random) -> str:
    """One value of another type or sense, or gone."""
    content: Any = json.loads(path.read_text(encoding="utf-8"))
    where = draw.choice(list(leaves(content)))
    value = draw.choice((*(value for value in STRANGE if not isinstance(value, bytes)), *CODE[:1]))
    put(content, where, value)
    if draw.random() < 0.2:
        content = draw.choice([[], None, 1, "text", {}, [content]])
    path.write_text(json.dumps(content), encoding="utf-8")
    return f"{'.'.join(map(str, where))} = {str(value)[:30]!r}"


def cache_values(path: Path, draw: Random) -> str:
    """Other numbers in a whole file of rows."""
    rows = np.load(path)
    row, other = draw.sample(range(len(rows)), 2)
    ways = {
        "one number": lambda: rows[row].__setitem__(0, rows[row, 0] + 0.5),
        "nan": lambda: rows[row].__setitem__(0, np.nan),
        "rows exchanged": lambda: rows.__setitem__([row, other], rows[[other, row]]),
        "zeros": lambda: rows.__setitem__(row, 0),
    }
    way = draw.choice(list(ways))
    ways[way]()
    np.save(path, rows)
    return f"row {row}: {way}"


def cache_shape(path: Path, draw: Random) -> str:
    rows = np.load(path)
    ways = {
        "float64": rows.astype(np.float64),
        "float16": rows.astype(np.float16),
        "fortran": np.asfortranarray(rows),
        "one row less": rows[:-1],
        "flat": rows.reshape(-1),
        "objects": rows.astype(object),
        "big endian": rows.astype(">f4"),
        "integers": rows.astype(np.int32),
    }
    way = draw.choice(list(ways))
    np.save(path, ways[way], allow_pickle=True)
    return way


CACHE_ROWS: dict[str, Damage] = {"values": cache_values, "shape": cache_shape}
JSON: dict[str, Damage] = {"json value": json_changed}
