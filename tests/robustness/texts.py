"""Text files that are wrong: raw data, results of runs, YAML files of sweeps, vocabularies."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Callable

import yaml

from .damage import Damage
from .values import CODE, STRANGE, leaves, put

TextChange = Callable[[list, Random], str]  # changes the lines (of bytes) in place
Keys = Callable[[dict, Random], str]


def on_lines(change: TextChange) -> Damage:
    def damage(path: Path, draw: Random) -> str:
        lines = path.read_bytes().split(b"\n")
        where = change(lines, draw)
        path.write_bytes(b"\n".join(lines))
        return where

    return damage


# --- raw text ------------------------------------------------------------------------------------


def _line(lines: list, draw: Random) -> int:
    """Any line but the empty one behind the last."""
    return draw.randrange(len(lines) - 1)


def inserted(*pieces: bytes) -> Damage:
    def change(lines: list, draw: Random) -> str:
        at, piece = _line(lines, draw), draw.choice(pieces)
        column = draw.randrange(len(lines[at]) + 1)
        lines[at] = lines[at][:column] + piece + lines[at][column:]
        return f"line {at + 1} column {column}: {piece!r}"

    return on_lines(change)


def column_gone(lines: list, draw: Random) -> str:
    at = _line(lines, draw)
    fields = lines[at].split(b"\t")
    del fields[draw.randrange(len(fields))]
    lines[at] = b"\t".join(fields)
    return f"line {at + 1}"


def column_changed(lines: list, draw: Random) -> str:
    at = _line(lines, draw)
    fields = lines[at].split(b"\t")
    choice = [b"", b" ", b"nan", b"another", b"1e999", b"\xef\xbb\xbf", fields[0]]
    column, value = draw.randrange(len(fields)), draw.choice(choice)
    fields[column] = value
    lines[at] = b"\t".join(fields)
    return f"line {at + 1} column {column + 1}: {value!r}"


RAW: dict[str, Damage] = {
    "NUL": inserted(b"\0", b"\0\0\0\0"),
    "invalid UTF-8": inserted(b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\xe2\x82"),
    "signs": inserted(b"\r", b"\x1a", b"\xe2\x80\xa8", b"\x85", b"\xef\xbb\xbf", b"\t", b'"', b"\x0b", b"\n"),
    "column gone": on_lines(column_gone),
    "column changed": on_lines(column_changed),
}

# --- results of runs -----------------------------------------------------------------------------


def record_value(lines: list, draw: Random) -> str:
    at = _line(lines, draw)
    record = json.loads(lines[at])
    where, value = draw.choice(list(leaves(record))), draw.choice([v for v in STRANGE if not isinstance(v, bytes)])
    put(record, where, value)
    lines[at] = json.dumps(record).encode()
    return f"line {at + 1} {'.'.join(map(str, where))} = {str(value)[:30]!r}"


def record_key(lines: list, draw: Random) -> str:
    at = _line(lines, draw)
    record = json.loads(lines[at])
    name = draw.choice(list(record))
    way = draw.choice(["gone", "twice"])
    if way == "gone":
        del record[name]
        lines[at] = json.dumps(record).encode()
    else:
        lines[at] = lines[at][:-1] + f", {json.dumps(name)}: {json.dumps(record[name])}".encode() + b"}"
        if draw.random() < 0.7:
            lines[at] = lines[at].replace(b"79.", b"97.", 1)
    return f"line {at + 1} {name} {way}"


def record_strange(lines: list, draw: Random) -> str:
    at = _line(lines, draw)
    whole = [b"[]", b"null", b"1", b'"text"', b"{}", b"", b"NaN"]
    lines[at] = draw.choice([*whole, b"[" * 100000, b'{"a":' * 5000, lines[at][:-1]])
    return f"line {at + 1}: {lines[at][:20]!r}"


RESULTS: dict[str, Damage] = {
    "record value": on_lines(record_value),
    "record key": on_lines(record_key),
    "record strange": on_lines(record_strange),
}

# --- YAML files of sweeps ------------------------------------------------------------------------


def on_keys(change: Keys) -> Damage:
    def damage(path: Path, draw: Random) -> str:
        keys = yaml.safe_load(path.read_text(encoding="utf-8"))
        where = change(keys, draw)
        path.write_text(yaml.safe_dump(keys, sort_keys=False), encoding="utf-8")
        return where

    return damage


def key_strange(keys: dict, draw: Random) -> str:
    where, value = draw.choice(list(leaves(keys))), draw.choice(STRANGE)
    put(keys, where, value)
    return f"{'.'.join(map(str, where))} = {str(value)[:30]!r}"


def key_replaced(keys: dict, draw: Random) -> str:
    name, value = draw.choice(list(keys)), draw.choice(STRANGE)
    keys[name] = value
    return f"{name} = {str(value)[:30]!r}"


def key_unknown(keys: dict, draw: Random) -> str:
    name = draw.choice(list(keys))
    keys[draw.choice([name + "s", name.upper(), "more", "", 1, None])] = keys.pop(name)
    return f"{name} under another name"


def option_code(keys: dict, draw: Random) -> str:
    name = draw.choice(["adam-betas", "lr", "update-freq", "adam-eps", "dropout", "lr-scheduler", "model-overrides"])
    name = draw.choice([name, "optimizer-overrides", "best-checkpoint-metric", "user-dir", "clip-norm"])
    keys["options"][name] = draw.choice(CODE)
    return f"options.{name} = {keys['options'][name]!r}"


def key_twice(lines: list, draw: Random) -> str:
    """A key of the mapping or of one within it, a second time with another value or the same."""
    at = draw.choice([number for number, line in enumerate(lines) if b": " in line or line.endswith(b":")])
    name, _, value = lines[at].partition(b":")
    lines.insert(at + 1, lines[at] if draw.random() < 0.3 or not value else name + b": 7")
    if name.lstrip().startswith(b"- "):
        lines[at + 1] = lines[at + 1].replace(b"- ", b"  ", 1)
    return f"line {at + 1}: {name.decode()}"


def tag(lines: list, draw: Random) -> str:
    """What YAML could build objects from, and what grows without end."""
    bomb = [b"a0: &a0 [x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]".encode() for i in range(1, 12)]
    choice = [
        [b"more: !!python/object/apply:os.mkdir [canary]"],
        [b"options: !!python/object/new:builtins.open [canary, w]"],
        [b"seeds: !!python/name:os.system"],
        bomb,
        [*bomb, b"seeds: *a11"],
        [b"seeds: &loop [*loop]"],
        [b"seeds: " + b"[" * 2000],
        [b"<<: {seeds: [7]}"],
        [b"? [a, b]\n: 1"],
        [b'backbone: "\\0"'],
    ]
    chosen = draw.choice(choice)
    lines[-1:] = [*chosen, b""]
    return repr(chosen[-1][:40])


YAML: dict[str, Damage] = {
    "key strange": on_keys(key_strange),
    "key replaced": on_keys(key_replaced),
    "key unknown": on_keys(key_unknown),
    "option code": on_keys(option_code),
    "key twice": on_lines(key_twice),
    "tag": on_lines(tag),
}
