"""Print the tables of a page anew from published records: ``python -m run_scripts.report.pages PAGE``.

A mark in the page names the command whose output stands below it; a test runs the command and compares:

    <!-- printed by: python -m run_scripts.report run_scripts/results/short.jsonl --table methods --tasks MR -->
    ...
    <!-- end -->

With ``--out FILE.svg --format terminal`` a command also draws a figure. Run it in the folder of the project: the paths
in the marks begin there.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shlex
from collections.abc import Sequence

from preprocess.errors import command_line
from preprocess.flags import named_path
from preprocess.sources import Source
from preprocess.writing import write_text

from .__main__ import main as report

MARK = re.compile(
    r"(<!-- printed by: python -m run_scripts\.report (?P<arguments>[^\n]+) -->\n)(?P<shown>.*?)(?=<!-- end -->)",
    re.DOTALL,
)


def renewed(page: str, drawn: bool = False) -> str:
    """Return the page with the present output of its commands; ``drawn``: draw their figures too."""

    def printed(mark: re.Match[str]) -> str:
        words = shlex.split(mark["arguments"])
        if "--out" in words and not drawn:
            at = words.index("--out")
            del words[at : at + 2]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            report(words)
        return f"{mark[1]}```text\n{said.getvalue()}```\n"

    return MARK.sub(printed, page)


@command_line("run_scripts")
def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "python -m run_scripts.report.pages",
        description=(__doc__ or "").split(":")[0],
        epilog="example: python -m run_scripts.report.pages run_scripts/RESULTS.md",
    )
    parser.add_argument("pages", metavar="PAGE", type=named_path, nargs="+")
    for page in parser.parse_args(argv).pages:
        text = "".join(f"{line}\n" for _, line in Source.file(page).lines())
        write_text(page, renewed(text, drawn=True))


if __name__ == "__main__":
    main()
