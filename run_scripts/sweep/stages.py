"""The stages of a sweep: supplementary training, the seeds that choose, the others, other tasks; and its dry run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from statistics import mean

from preprocess.errors import InputError, shown

from ..report.records import has_finished
from ..run.experiment import Experiment, continued, of_each_split, splits_of
from ..run.fairseq_train import check_whole
from ..run.perform import finished_record
from ..run.records import BEST_CHECKPOINT, read_records, results_file, run_folder
from .config import Sweep
from .jobs import Cluster, Local, Slurm, Stage, missing
from .plan import Rates, Variant, beyond_ends, experiments, rates_of, with_chosen_rates

CLUSTERS: dict[str, type[Local] | type[Slurm]] = {"local": Local, "slurm": Slurm}


def by_run(runs: Iterable[Experiment]) -> dict[str, Experiment]:
    return {experiment.run: experiment for experiment in runs}


# --- running ---------------------------------------------------------------------------------------------------------


def run(
    sweep: Sweep, first: Mapping[Variant, Experiment], second: Iterable[Experiment], results: Path, cluster: Cluster
) -> int:
    """Make the runs of all stages; return how many failed. Raise InputError where supplementary training failed."""
    for experiment in of_each_split([*second, *continued(second, sweep.eval_k)]):
        splits_of(experiment, results / "data")
    if first:
        stage = Stage(by_run(first.values()), results / "supplementary", cluster, keep_whole_models=True)
        failed = stage.finish()
        if failed or stage.diverged:
            raise InputError(
                f"of {len(first)} runs of supplementary training {failed} failed (the same command tries them again) "
                f"and {stage.diverged} diverged: lower supplementary.lr"
            )
        second = experiments(sweep, trained(first, results))
    keep_whole_models = sweep.keep_whole_models or bool(sweep.eval_k)
    second, failed = make_seeds(rates_of(sweep, second), results, cluster, keep_whole_models)
    if sweep.eval_k:
        left = set(missing(by_run(second), results))
        sources = [source for source in second if source.run not in left and finished_record(results, source.run)]
        print(f"{results}: models of {len(sources)} runs go on with other tasks", flush=True)
        failed += make_runs(continued(sources, sweep.eval_k), results, cluster, sweep.keep_whole_models)
    return failed


def make_seeds(rates: Rates, results: Path, cluster: Cluster, keep_whole_models: bool) -> tuple[list[Experiment], int]:
    """Make the first seeds, then the others at the learning rates that these choose; return runs and failures."""
    failed = make_runs(rates.first, results, cluster, keep_whole_models)
    if rates.beyond and (further := beyond_ends(rates, results)):
        failed += make_runs(further, results, cluster, keep_whole_models)
        rates = rates._replace(first=[*rates.first, *further])
    later: list[Experiment] = []
    undecided = 0
    # Another seed may diverge at a chosen rate: then all are run at the next one.
    while rates.later and (chosen := with_chosen_rates(rates, results)) != (later, undecided):
        later, undecided = chosen
        failed += make_runs(later, results, cluster, keep_whole_models) if later else 0
    if undecided:
        print(f"{results}: {undecided} rows of tasks have no learning rate for their other seeds", flush=True)
    return [*rates.first, *later], failed


def make_runs(runs: Iterable[Experiment], results: Path, cluster: Cluster, keep_whole_models: bool) -> int:
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
    # The identities of later runs need the checkpoints of supplementary training.
    if first and show_missing(first.values(), results / "supplementary"):
        print(f"and then {len(experiments(sweep, {}))} runs that start from what these leave")
        return
    second = experiments(sweep, trained(first, results))
    rates = rates_of(sweep, second)
    show_missing(rates.first, results)
    if rates.beyond and (further := beyond_ends(rates, results)):
        print("and then, beside the grid where its end is the best:")
        show_missing(further, results)
        rates = rates._replace(first=[*rates.first, *further])
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


def estimate(left: Collection[str], runs: Mapping[str, Experiment], results: Path) -> str:
    """Return how long the missing runs take in a row. A run takes the mean of its task's finished runs, or of all."""
    known = [(record["task"], record["seconds"]) for record in filter(has_finished, read_records(results))]
    if not left or not known:
        return "; no run has finished there to tell how long they take" if left else ""
    of_task = {task: mean(seconds for other, seconds in known if other == task) for task, _ in known}
    total = sum(of_task.get(runs[run].task) or mean(seconds for _, seconds in known) for run in left)
    return f"; one after the other they take about {total / 60:,.1f} minutes, by the {len(known)} finished there"


def show_missing(experiments: Iterable[Experiment], results: Path) -> int:
    runs = by_run(experiments)
    left = missing(runs, results)
    for name in left:
        parts = [name, runs[name], *runs[name].options, *(f"→ {task}" for task in runs[name].eval_tasks)]
        print(*(shown(str(part)) for part in parts))
    print(f"{len(left)} of {len(runs)} runs are missing in {results}{estimate(left, runs, results)}")
    return len(left)
