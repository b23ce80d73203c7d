"""Print the tables and numbers of a page anew from published records: ``python -m run_scripts.report.pages PAGE``.

A mark in the page names the command whose output stands below it:

    <!-- printed by: python -m run_scripts.report run_scripts/results/short.jsonl --table methods --tasks MR -->
    ...
    <!-- end -->

With ``--out FILE.svg --format terminal`` a command draws a figure as well. Out of NAME.template.md comes NAME.md, with
numbers in its sentences: ``{1 | lora | Avg}`` is a cell of the page's first table. A difference with its interval of
95 % is ``{1 | lora | minus adapter | interval}``. A mark with "numbers of" counts as a table, and is not in the page.
Files are seen from the folder in which the command is started.
"""

import argparse
import contextlib
import csv
import io
import re
import shlex
from collections.abc import Sequence
from functools import lru_cache

from preprocess.errors import command_line
from preprocess.flags import named_path
from preprocess.sources import Source
from preprocess.writing import write_text

from .__main__ import main as report

COMMAND = r"python -m run_scripts\.report (?P<arguments>[^\n]+) -->\n"
MARK = re.compile(rf"(<!-- printed by: {COMMAND})(?P<shown>.*?)(?=<!-- end -->)", re.DOTALL)
TABLE = re.compile(rf"<!-- (?:printed by|numbers of): {COMMAND}")
UNSEEN = re.compile(rf"<!-- numbers of: {COMMAND}")
NUMBER = re.compile(r"\{(?P<table>\d+) \| (?P<row>[^|]+) \| (?P<column>[^|}]+?)(?P<interval> \| interval)?}")


def renewed(page: str, drawn: bool = False) -> str:
    """Return the page, with what each mark's command prints now; ``drawn``: figures are drawn, too."""
    commands = [without_file(mark["arguments"]) for mark in TABLE.finditer(page)]

    def printed(mark: re.Match[str]) -> str:
        words = shlex.split(mark["arguments"]) if drawn else without_file(mark["arguments"])
        return f"{mark[1]}```text\n{output(words)}```\n"

    @lru_cache
    def rows(table: int) -> dict[str, dict[str, str]]:
        lines = csv.DictReader(io.StringIO(output([*commands[table - 1], "--format", "csv"])))
        return {line["method"]: line for line in lines}

    def numbered(mark: re.Match[str]) -> str:
        cell = rows(int(mark["table"]))[mark["row"]][mark["column"]]
        number = re.match(r"\S+ \[.+]" if mark["interval"] else r"[+-]?[\d.]+", cell)
        assert number is not None, cell
        return number[0]

    return NUMBER.sub(numbered, UNSEEN.sub("", MARK.sub(printed, page)))


def without_file(arguments: str) -> list[str]:
    words = shlex.split(arguments)
    if "--out" in words:
        at = words.index("--out")
        del words[at : at + 2]
    return words


def output(words: Sequence[str]) -> str:
    """Return what a command of the report prints."""
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(io.StringIO()):
        report(words)
    return said.getvalue()


@command_line("run_scripts")
def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "python -m run_scripts.report.pages",
        description=(__doc__ or "").split(":")[0],
        epilog="example: %(prog)s run_scripts/RESULTS.template.md",
    )
    parser.add_argument("pages", metavar="PAGE", type=named_path, nargs="+")
    for page in parser.parse_args(argv).pages:
        text = "".join(f"{line}\n" for _, line in Source.file(page).lines())
        write_text(page.with_name(page.name.replace(".template", "")), renewed(text, drawn=True))


if __name__ == "__main__":
    main()
