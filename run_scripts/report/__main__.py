"""The paper's tables and figures out of finished runs: ``python -m run_scripts.report RESULTS --table 1``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from preprocess.errors import InputError, command_line
from preprocess.flags import flag_name, named_path
from preprocess.tasks import find_task
from preprocess.writing import check_replaces_nothing, new_file, write_output

from ..run.records import results_file
from .choice import Choice, add_choice_options
from .compared import compared_table, series_chart, transfer_table
from .costs import costs_table, count_table, methods_table
from .figures import CHARTS, curve_chart
from .paper import papers
from .records import Results, read_results
from .render import FORMATS, SUFFIXES, Chart, Table, save
from .scores import OVER, TESTS, Significance
from .tables import SCORE_TABLES, overview, score_table

IMAGES = (".png", ".svg", ".pdf")
TEXTS = (".txt", *SUFFIXES)
COUNT_TABLE, METHODS, TRANSFER, CURVES = 2, "methods", "transfer", "curves"
TABLES: dict[int | str, Callable[[Results, Choice], Table]] = {  # besides those of IDPG's scores
    **{COUNT_TABLE: count_table, METHODS: methods_table, TRANSFER: transfer_table},
    **{name: partial(compared_table, spec) for name, spec in papers().tables.items()},
    **{name: partial(costs_table, spec) for name, spec in papers().costs.items()},
}
FIGURES: dict[int | str, Callable[[Results, Choice], Chart]] = {
    **CHARTS,
    CURVES: curve_chart,
    **{name: partial(series_chart, spec) for name, spec in papers().figures.items()},
}
NAMES = [*sorted({COUNT_TABLE, *SCORE_TABLES}), *(name for name in TABLES if name != COUNT_TABLE)]
ABOUT = """The paper's tables and figures out of the runs in RESULTS, beside the paper's own numbers where the
backbone is its own; --table methods: what each method scores on a task, and what it costs; --table transfer: what
models of one task say of another; --figure curves: dev scores over the updates; idspam-2 and the like: those of other
papers, by their own metrics.

A score is the mean and sample standard deviation over seeds of the test scores at the learning rate with the best mean
dev score, for each row and task. Without --table and --figure: what RESULTS holds."""
OF_SCORES = {"voting", "significance", "significance_test", "significance_over"}
OF_PLACES = {"position", "supplementary_position"}
OF_RUNS = {"tasks", "rows", "seeds", "k", "prompt_length", "selection", "backbone"}
OVERVIEW = ("overview", 0)
REFUSED: dict[tuple[str, int | str], set[str]] = {  # options that mean nothing to a table or figure
    ("table", 1): {"k"},
    ("table", METHODS): {"paper", *OF_SCORES},
    ("table", TRANSFER): {"paper", "k", *OF_SCORES},
    ("table", 2): {"k", "paper", *OF_SCORES},
    ("table", 3): set(),
    ("table", 6): {"k"},
    ("table", 7): {"k", "voting"},
    ("figure", 1): OF_SCORES,
    ("figure", 3): OF_SCORES,
    ("figure", CURVES): {"paper", *OF_SCORES},
    ("figure", 7): {"paper", *OF_SCORES, *OF_PLACES},
    ("figure", 9): {"paper", *OF_SCORES, "prompt_length"},
    **{("table", name): {"k", *OF_SCORES} for name in papers().tables},
    **{
        ("table", name): {
            "k",
            "paper",
            *OF_SCORES,
            *(OF_PLACES | OF_RUNS - {"rows"} if "counts" in spec.values else ()),
        }
        for name, spec in papers().costs.items()
    },
    **{("figure", name): {"k", "paper", *OF_SCORES} for name in papers().figures},
    OVERVIEW: {"paper", *OF_SCORES, *OF_PLACES, *OF_RUNS},
}


def listed(names: Iterable[object]) -> str:
    return ", ".join(map(str, names))


def number_or_word(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "python -m run_scripts.report", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = made.add_argument
    add("results", metavar="RESULTS", type=named_path, help="the folder of a sweep, or a file of published records")
    what = made.add_mutually_exclusive_group()
    what.add_argument("--table", type=number_or_word, choices=NAMES, metavar="NAME", help=listed(NAMES))
    what.add_argument("--figure", type=number_or_word, choices=FIGURES, metavar="NAME", help=listed(FIGURES))
    add("--format", choices=list(FORMATS), help="default: by the suffix of --out (.md, .tex, .csv), else terminal")
    add("--out", metavar="FILE", type=named_path, help="write there; figures are drawn in .png, .svg and .pdf files")
    add(
        "--tasks",
        nargs="+",
        action="extend",
        metavar="TASK",
        help="columns and averages (default: the paper's ten, or all run)",
    )
    add(
        "--rows",
        nargs="+",
        action="extend",
        metavar="ROW",
        help="of the table (default: the paper's, and others with runs)",
    )
    add("--paper", action="store_true", help="the paper's values even beside another backbone's than its own")
    add("--voting", action="store_true", help="add the scores of the votes of all seeds")
    add("--significance", metavar="ROW", action="append", help="add differences to this row, with p; may be repeated")
    add("--significance-test", choices=TESTS, help="that p is of (default: t, the paired t-test)")
    add("--significance-over", choices=OVER, help="what is paired: tasks and seeds (runs, the default) or tasks alone")
    runs = made.add_argument_group("which runs, where RESULTS holds several kinds")
    runs.add_argument(
        "--seeds", nargs="+", action="extend", type=int, metavar="S", help="default: all, some rows may have fewer"
    )
    add_choice_options(runs)
    runs.add_argument("--prompt-length", type=int, metavar="T", help="of rows with several (default: the paper's)")
    runs.add_argument("--k", type=int, help="few-shot runs instead of full ones; of table 3: this K alone")
    return made


def refuse_useless(args: argparse.Namespace) -> None:
    """Refuses options without effect, before anything is read."""
    asked = [(name, getattr(args, name)) for name in ("table", "figure") if getattr(args, name)]
    what, number = product = asked[0] if asked else OVERVIEW
    for name in sorted(REFUSED[product]):
        if getattr(args, name) not in (None, False):
            shown = f"--{what} {number}" if asked else "a command without --table and --figure"
            raise InputError(f"{flag_name(name)} means nothing to {shown}: leave it out")
    for name in ("significance_test", "significance_over"):
        if getattr(args, name) and not args.significance:
            raise InputError(f"{flag_name(name)} means nothing without --significance: name a row with that")
    suffixes = (*TEXTS, *(IMAGES if args.figure else ()))
    if args.out and args.out.suffix.lower() not in ("", *suffixes):
        raise InputError(f"--out {args.out}: name a file that ends with {', '.join(suffixes)}")


def choice_of(args: argparse.Namespace) -> Choice:
    return Choice(
        tasks=tuple(dict.fromkeys(find_task(name).name for name in args.tasks or ())),
        rows=tuple(args.rows or ()),
        selection=args.selection,
        backbones=tuple(args.backbone or ()),
        positions=tuple(args.position or ()),
        supplementary=args.supplementary_position,
        prompt_length=args.prompt_length,
        seeds=tuple(args.seeds or ()),
        k=args.k,
        beside_paper=args.paper,
    )


def make(args: argparse.Namespace, results: Results, choice: Choice) -> Table | Chart:
    if args.figure:
        return FIGURES[args.figure](results, choice)
    if args.table in SCORE_TABLES:
        how = Significance(args.significance_test or "t", args.significance_over or "runs")
        return score_table(SCORE_TABLES[args.table], results, choice, args.voting, args.significance or (), how)
    if args.table:
        return TABLES[args.table](results, choice)
    return overview(results)


def deliver(made: Table | Chart, out: Path | None, form: str | None) -> None:
    """Prints or saves; an image is saved beside which the numbers are printed if a format is asked for."""
    table = made.table if isinstance(made, Chart) else made
    suffix = out.suffix.lower() if out else ""
    if out and suffix in IMAGES and isinstance(made, Chart):
        with new_file(out) as work:
            save(made, work)
        print(f"saved: {out}", file=sys.stderr)
        if form is None:
            return
        out = None
    form = form or SUFFIXES.get(suffix, "terminal")
    text = FORMATS[form](table)
    if form == "csv":
        print("\n".join([table.title, *table.notes]), file=sys.stderr)
    if out is None:
        print(text, end="")
    else:
        write_output(out, text, "--out")
        print(f"saved: {out}", file=sys.stderr)


@command_line("run_scripts")
def main(argv: Sequence[str] | None = None) -> None:
    args = parser().parse_args(argv)
    refuse_useless(args)
    if args.out:
        check_replaces_nothing(args.out, "--out", {"RESULTS": [results_file(args.results)]})
    deliver(make(args, read_results(args.results), choice_of(args)), args.out, args.format)


if __name__ == "__main__":
    main()
