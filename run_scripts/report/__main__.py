"""The paper's tables and figures out of finished runs: ``python -m run_scripts.report RESULTS --table 1``."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from preprocess.drawing import IMAGES, save
from preprocess.errors import InputError, command_line, escaped
from preprocess.flags import flag_name, named_path
from preprocess.tasks import find_task
from preprocess.writing import check_replaces_nothing, write_output

from ..run.records import results_file
from .choice import Choice, add_choice_options
from .costs import count_table, methods_table, parameter_table, seconds_table
from .figures import FIGURES
from .paper import papers
from .records import KNOWN, Results, read_results
from .render import FORMATS, SUFFIXES, Chart, Table
from .statistics import OVER, TESTS
from .tables import SCORE_TABLES, compared_table, comparison_table, overview, score_table, transfer_table

TEXTS = (".txt", *SUFFIXES)
TABLES: dict[int | str, Callable[[Results, Choice], Table]] = {  # besides those of IDPG's scores
    2: count_table,
    "methods": methods_table,
    "transfer": transfer_table,
    **{name: partial(compared_table, spec) for name, spec in papers().tables.items()},
    **{n: partial(parameter_table if "counts" in of else seconds_table, of) for n, of in papers().costs.items()},
}
COMPARISONS = "comparisons"  # the table of a family of them
NAMES = [*sorted({2, *SCORE_TABLES}), COMPARISONS, *(name for name in TABLES if name != 2)]
ABOUT = """The paper's tables and figures out of the runs in RESULTS, beside the paper's own numbers where the
backbone is its own. --table methods has scores and costs of each method; --table comparisons, differences of --rows to
those of --significance, corrected as one family; --table transfer, scores of models on other tasks; --figure curves,
dev scores over the updates; idspam-2 and the like, tables of other papers by their metrics.

A score is the mean and sample standard deviation over seeds of the test scores at the learning rate with the best mean
dev score, for each row and task. Without --table and --figure, all runs are listed."""
EXAMPLE = "example: python -m run_scripts.report run_scripts/results/short.jsonl --table methods --tasks MR"


def parser() -> argparse.ArgumentParser:
    program, layout = "python -m run_scripts.report", argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(program, description=ABOUT, epilog=EXAMPLE, formatter_class=layout)
    add = made.add_argument
    add("results", metavar="RESULTS", type=named_path, help="the folder of a sweep, or a file of published records")
    what = made.add_mutually_exclusive_group()

    def number_or_name(text: str) -> int | str:
        return int(text) if text.isdecimal() else text

    for option, names in (("--table", NAMES), ("--figure", FIGURES)):
        listed = ", ".join(map(str, names))
        what.add_argument(option, type=number_or_name, choices=names, metavar="NAME", help=listed)
    add("--format", choices=list(FORMATS), help="default: by the suffix of --out (.md, .tex, .csv), else terminal")
    add("--out", metavar="FILE", type=named_path, help="write there; .png, .svg, .pdf: drawings, captions in .txt")
    several: dict[str, Any] = {"nargs": "+", "action": "extend"}
    add("--tasks", metavar="TASK", **several, help="columns and averages (default: the paper's ten, or all with runs)")
    add("--rows", metavar="ROW", **several, help="of the table (default: the paper's, and others with runs)")
    add("--paper", action="store_true", help="show the paper's values even beside another backbone than its own")
    add("--voting", action="store_true", help="add the scores of the votes of all seeds")
    add("--significance", metavar="ROW", action="append", help="add differences to this row, with p; may be repeated")
    add("--significance-test", choices=TESTS, help="test that gives p (default: t, the paired t-test)")
    add("--significance-over", choices=OVER, help="what a difference is of (default: runs)")
    add("--notes", action="store_true", help="print all notes, not the first three lines alone")
    runs = made.add_argument_group("which runs, where RESULTS holds several kinds")
    runs.add_argument("--seeds", metavar="S", type=int, **several, help="default: all, of which a row may lack some")
    add_choice_options(runs)
    runs.add_argument("--prompt-length", type=int, metavar="T", help="of rows with several (default: the paper's)")
    runs.add_argument("--k", type=int, help="few-shot runs instead of full ones; table 3: those with this K alone")
    return made


def refuse_useless(args: argparse.Namespace) -> None:
    """Raise InputError for an option without effect, in which a reader of the table would believe."""
    table, figure = args.table, args.figure
    anything = bool(table or figure)
    of_runs = anything and "counts" not in papers().costs.get(table, {})
    works = {
        "k": table in (3, "methods", COMPARISONS) or anything and figure in FIGURES and figure not in papers().figures,
        "paper": table in (*SCORE_TABLES, *papers().tables) or figure in (1, 3),
        "position": of_runs and figure != 7,
        "prompt_length": of_runs and figure != 9,
        "rows": anything,
        **dict.fromkeys(("backbone", "seeds", "selection", "tasks"), of_runs),
        "significance": table in (*SCORE_TABLES, COMPARISONS),
        **dict.fromkeys(("significance_over", "significance_test"), bool(args.significance)),
        "supplementary_position": of_runs and figure != 7,
        "voting": table in (1, 3, 6),
    }
    for option in sorted(works):
        if not works[option] and getattr(args, option) not in (None, False):
            neither = "a command without --table and --figure"
            what = f"--table {table}" if table else f"--figure {figure}" if figure else neither
            what += " without --significance" * option.startswith("significance_")
            raise InputError(f"{flag_name(option)} means nothing to {what}: leave it out")
    suffixes = ("", *TEXTS, *(IMAGES if figure else ()))
    if args.out and args.out.suffix.lower() not in suffixes:
        raise InputError(f"--out {args.out}: name a file that ends with {', '.join(suffixes[1:])}")


def choice_of(args: argparse.Namespace) -> Choice:
    return Choice.of(args, tasks=tuple(dict.fromkeys(find_task(name, KNOWN).name for name in args.tasks or ())))


def make(args: argparse.Namespace, results: Results, choice: Choice) -> Table | Chart:
    if args.figure:
        return FIGURES[args.figure](results, choice)
    if args.table in SCORE_TABLES:
        test, over = args.significance_test or "t", args.significance_over or "runs"
        return score_table(args.table, results, choice, args.significance or (), test, over, args.voting)
    if args.table == COMPARISONS:
        if not args.significance:
            raise InputError("--table comparisons needs --significance ROW: name the row to compare with")
        over = args.significance_over or "seeds-of-tasks"
        return comparison_table(results, choice, args.significance, args.significance_test or "t", over)
    return TABLES[args.table](results, choice) if args.table else overview(results)


def deliver(made: Table | Chart, args: argparse.Namespace) -> None:
    """Print or save a table; save an image with its caption, and with --format print its numbers."""
    table, out = made.table if isinstance(made, Chart) else made, args.out
    if args.notes:
        table = replace(table, notes=[*table.notes, *table.more])

    def write_lines(path: Path, lines: list[str]) -> None:
        write_output(path, "".join(f"{escaped(line)}\n" for line in lines), "--out")

    if isinstance(made, Chart) and out and out.suffix.lower() in IMAGES:
        save(made.draw, out)
        write_lines(out.with_suffix(".txt"), [table.title, *made.caption, *table.notes])
        print(f"saved: {out}", file=sys.stderr)
        if args.format is None:
            return
        out = None  # the numbers are printed
    form = args.format or SUFFIXES.get(out.suffix.lower() if out else "", "terminal")
    if form == "csv":
        print("\n".join([table.title, *table.notes]), file=sys.stderr)
    if out is None:
        print(FORMATS[form](table), end="")
        return
    if form == "latex" and out.suffix:  # notes beside the table; a device such as /dev/stdout has no place beside it
        write_lines(out.with_suffix(".notes.txt"), table.notes)
        table = replace(table, notes=[])
    write_output(out, FORMATS[form](table), "--out")
    print(f"saved: {out}", file=sys.stderr)


@command_line("run_scripts")
def main(argv: Sequence[str] | None = None) -> None:
    args = parser().parse_args(argv)
    refuse_useless(args)
    beside = (".txt", ".notes.txt") if args.out and args.out.suffix else ()  # a caption, or notes
    for out in [args.out, *map(args.out.with_suffix, beside)] if args.out else []:
        check_replaces_nothing(out, "--out", {"RESULTS": [results_file(args.results)]})
    results = read_results(args.results)
    deliver(make(args, results, choice_of(args)), args)


if __name__ == "__main__":
    main()
