"""YAML that somebody else may have written: plain values, every key once, and no more of them than a file can mean."""

from __future__ import annotations

from typing import Any

import yaml

from preprocess.errors import InputError

MOST_VALUES = 10_000


class UniqueKeys(yaml.SafeLoader):
    """YAML whose mappings have every key once: of two, PyYAML takes the last without a word."""

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)  # before what "<<" names is merged into it
        seen: dict[str, yaml.Node] = {}
        for name in (each for each, _ in node.value if isinstance(each, yaml.ScalarNode)):
            if (first := seen.setdefault(name.value, name)) is not name:
                lines = f"lines {first.start_mark.line + 1} and {name.start_mark.line + 1}"
                raise InputError(f"key {name.value} stands twice, on {lines}: leave one out")
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """What "<<" names is merged, one within another."""
        super().flatten_mapping(node)
        refuse_many(len(node.value))


def read_yaml(source: str | bytes, where: str) -> Any:
    """What a YAML text holds: plain values, lists and mappings.

    Raises:
        InputError: it is no YAML, a key stands twice, or aliases make it stand for too much.
    """
    try:
        found = yaml.load(source, UniqueKeys)  # a SafeLoader
        refuse_many(count_values(found, {}))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:  # "!!bool maybe"
        raise InputError(f"{where} is no YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise InputError(f"{where}: it is nested too deeply: write it flat") from None
    return found


def refuse_many(values: int) -> None:
    if values > MOST_VALUES:
        raise InputError(f"aliases make it stand for more than {MOST_VALUES:,} values: write fewer")


def count_values(found: Any, known: dict[int, int]) -> int:
    """Of all lists and mappings within each other; what an alias repeats counts each time, though it is held once."""
    if not isinstance(found, (list, dict)):
        return 1
    if id(found) not in known:
        inner = found.values() if isinstance(found, dict) else found
        known[id(found)] = 1 + sum(count_values(each, known) for each in inner)
    return known[id(found)]
