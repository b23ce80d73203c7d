"""``python -m preprocess tasks``: the table of tasks."""

from __future__ import annotations

import argparse
from typing import Sequence

from .tasks import TASKS


def main(arguments: Sequence[str]) -> None:
    argparse.ArgumentParser("python -m preprocess tasks", description="Lists the known tasks.").parse_args(arguments)
    rows = [("task", "texts", "labels", "metric", "settings", "files")]
    for task in TASKS.values():
        labels = ", ".join(task.labels) or f"a score from 0 to {task.scale:g}"
        files = f"{task.folders[0]}/{{{','.join(dict.fromkeys(task.files.values()))}}}"
        rows.append((task.name, "pair" if task.pairs else "single", labels, task.metric, task.settings, files))
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
