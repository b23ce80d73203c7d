"""Many runs: ``python -m run_scripts.sweep CONFIG.yaml [--cluster local|slurm] [--jobs N] [--dry-run]``.

RESULTS/results.jsonl gets a record of each run. The same command goes on after a kill: runs that have ended are not
run again, and those that had begun resume from their last checkpoint. A run that fails is tried once more, unless it
has diverged, which is a result, or lacks memory. Supplementary training, if the file asks for it, comes first, in
RESULTS/supplementary; runs that go on with examples of other tasks (--eval-k) come last.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from preprocess.errors import InputError, command_line, shown
from preprocess.flags import named_path, positive

from ..run.experiment import Experiment, continued, of_each_split, splits_of
from ..run.fairseq_train import check_whole
from ..run.perform import finished
from ..run.preflight import check
from ..run.records import BEST_CHECKPOINT, held, results_file, run_folder
from .config import Sweep, read_sweep
from .jobs import Cluster, Local, Slurm, Stage, missing
from .plan import Rates, Variant, experiments, first_stage, rates_of, with_chosen_rates

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
CLUSTERS: dict[str, type[Local] | type[Slurm]] = {"local": Local, "slurm": Slurm}


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "python -m run_scripts.sweep",
        description=(__doc__ or "").split("\n\n")[1],
        epilog="example: python -m run_scripts.sweep table1.yaml --set tasks=[RTE,CR] seeds=[1] --dry-run",
    )
    add = made.add_argument
    several = partial(add, nargs="+", action="extend")
    pairs = partial(several, type=pair, default=[], metavar="KEY=VALUE")
    add("config", type=config_file, metavar="CONFIG.yaml", help="a file, or the name of one in run_scripts/configs")
    add("--results", type=named_path, metavar="DIR", help="default: results/CONFIG, such as results/idspam/table2")
    pairs("--set", help="replace values of the file: seeds=[1,2] options.cpu=true ...")
    several("--eval-tasks", metavar="TASK", help="tasks that each model also answers, without training on them")
    several(
        "--eval-k", metavar="K", help="then train each model on K examples of each of these tasks, and answer again"
    )
    add("--cluster", choices=list(CLUSTERS), default="local", help="where runs are started (default: local)")
    add("--jobs", type=positive, help="runs at a time (default: one for each GPU, or one; on Slurm 100)")
    pairs("--slurm", help="for sbatch: partition=gpu time=600 ...")
    add("--dry-run", action="store_true", help="check everything, list the missing runs, and run nothing")
    return made


def config_file(text: str) -> Path:
    """Return the file with this path, or with this name in run_scripts/configs; for argparse."""
    for path in (Path(text), CONFIGS / text):
        if path.is_file():
            return path
    raise argparse.ArgumentTypeError(f"{text} is not a file, here or in run_scripts/configs: name one that is there")


def pair(text: str) -> str:
    """Return a KEY=VALUE, for argparse."""
    if "=" not in text:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return text


@command_line("run_scripts", "the same command goes on")
def main(argv: Sequence[str] | None = None) -> None:
    args = parser().parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends our jobs, as an interruption does
    if args.slurm and args.cluster != "slurm":
        raise InputError("--slurm goes with --cluster slurm: leave it out")
    results = (args.results or Path("results") / name_of(args.config)).absolute()
    lists = [(key, getattr(args, key)) for key in ("eval_tasks", "eval_k")]
    sweep = read_sweep(args.config, [*(f"{key}=[{','.join(words)}]" for key, words in lists if words), *args.set])
    first, second = first_stage(sweep), experiments(sweep, {})
    # All runs are checked before the first one is started.
    check([*first.values(), *second, *continued(second, sweep.eval_k)])
    if args.dry_run:
        return show(sweep, first, results)
    with held(results):
        cluster = CLUSTERS[args.cluster](results / "jobs", args.jobs, args.slurm)
        if run(sweep, first, second, results, cluster):
            sys.exit(1)


def name_of(config: Path) -> Path:
    """Return the folder of a configuration's results: idspam/table2 in a paper's folder, else the name of the file."""
    paper = config.resolve().parent
    return Path(paper.name if paper.parent == CONFIGS else "", config.stem)


def by_run(runs: Iterable[Experiment]) -> dict[str, Experiment]:
    return {experiment.run: experiment for experiment in runs}


# --- running ---------------------------------------------------------------------------------------------------------


def run(
    sweep: Sweep, first: Mapping[Variant, Experiment], second: Iterable[Experiment], results: Path, cluster: Cluster
) -> int:
    """Make the runs of all stages; return the number of failed ones.

    Raises InputError where supplementary training failed, which the other runs need.
    """
    for experiment in of_each_split([*second, *continued(second, sweep.eval_k)]):
        splits_of(experiment, results / "data")
    if first:
        stage = Stage(by_run(first.values()), results / "supplementary", cluster, True)
        failed = stage.finish()
        if failed or stage.diverged:
            raise InputError(
                f"of {len(first)} runs of supplementary training {failed} failed, which the same command tries again, "
                f"and {stage.diverged} diverged: lower supplementary.lr"
            )
        second = experiments(sweep, trained(first, results))
    keep_whole_models = sweep.keep_whole_models or bool(sweep.eval_k)
    second, failed = finish_seeds(rates_of(sweep, second), results, cluster, keep_whole_models)
    if sweep.eval_k:
        left = set(missing(by_run(second), results))
        sources = [source for source in second if source.run not in left and finished(results, source.run)]
        print(f"{results}: models of {len(sources)} runs go on with other tasks", flush=True)
        failed += finish(continued(sources, sweep.eval_k), results, cluster, sweep.keep_whole_models)
    return failed


def finish_seeds(
    rates: Rates, results: Path, cluster: Cluster, keep_whole_models: bool
) -> tuple[list[Experiment], int]:
    """Make the first seeds, then the others at the learning rates that these choose; return runs and failures."""
    failed = finish(rates.first, results, cluster, keep_whole_models)
    later: list[Experiment] = []
    undecided = 0
    # Another seed may diverge at a chosen rate: then all are run at the next one.
    while rates.later and (chosen := with_chosen_rates(rates, results)) != (later, undecided):
        later, undecided = chosen
        failed += finish(later, results, cluster, keep_whole_models) if later else 0
    if undecided:
        print(f"{results}: {undecided} rows of tasks have no learning rate for their other seeds", flush=True)
    return [*rates.first, *later], failed


def finish(runs: Iterable[Experiment], results: Path, cluster: Cluster, keep_whole_models: bool) -> int:
    """Make runs; return the number of failed ones."""
    stage = Stage(by_run(runs), results, cluster, keep_whole_models)
    failed = stage.finish()
    diverged = f", {stage.diverged} diverged" if stage.diverged else ""
    print(f"{results_file(results)}: {len(stage.runs)} runs, {failed} failed{diverged}", flush=True)
    return failed


def trained(first: Mapping[Variant, Experiment], results: Path) -> dict[Variant, str]:
    """Return the checkpoints of supplementary training; raise InputError where one is gone or damaged."""
    place = results / "supplementary"
    found = {variant: run_folder(place, experiment.run) / BEST_CHECKPOINT for variant, experiment in first.items()}
    for path in found.values():
        remedy = f"remove its folder and the line of that run in {results_file(place)}"
        check_whole(path, f"{remedy}, and the same command makes it again")
    return {variant: str(path) for variant, path in found.items()}


# --- a dry run -------------------------------------------------------------------------------------------------------


def show(sweep: Sweep, first: Mapping[Variant, Experiment], results: Path) -> None:
    """Print the missing runs."""
    # The identities of later runs need the checkpoints of supplementary training.
    if first and show_missing(first.values(), results / "supplementary"):
        print(f"and then {len(experiments(sweep, {}))} runs that start from what these leave")
        return
    second = experiments(sweep, trained(first, results))
    rates = rates_of(sweep, second)
    show_missing(rates.first, results)
    if rates.later:
        later, undecided = with_chosen_rates(rates, results)
        second = [*rates.first, *later]
        print("and then, at the learning rates that these choose:")
        if later:
            show_missing(later, results)
        if undecided:
            print(f"{undecided * len({run.seed for run in rates.later})} runs whose learning rate is not known yet")
    if sweep.eval_k:
        print("and then, each from one of these:")
        show_missing(continued(second, sweep.eval_k), results)


def show_missing(experiments: Iterable[Experiment], results: Path) -> int:
    runs = by_run(experiments)
    left = missing(runs, results)
    for name in left:
        parts = [name, runs[name], *runs[name].options, *(f"→ {task}" for task in runs[name].eval_tasks)]
        print(*(shown(str(part)) for part in parts))
    print(f"{len(left)} of {len(runs)} runs are missing in {results}")
    return len(left)


if __name__ == "__main__":
    main()
