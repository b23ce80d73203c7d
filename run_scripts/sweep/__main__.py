"""Many runs: ``python -m run_scripts.sweep CONFIG.yaml [--cluster local|slurm] [--jobs N] [--dry-run]``.

RESULTS/results.jsonl gets a record of each run. The same command goes on after a kill: runs that have ended are not
run again, and those that had begun resume from their last checkpoint. A run that fails is tried once more, unless it
has diverged, which is a result, or lacks memory. Supplementary training, if the file asks for it, comes first, in
RESULTS/supplementary; runs that go on with examples of other tasks (--eval-k) come last.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from preprocess.errors import InputError, command_line
from preprocess.flags import named_path, positive

from ..run.experiment import continued
from ..run.records import held
from .config import check_files, read_sweep

CONFIGS = Path(__file__).resolve().parents[1] / "configs"


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
    several("--eval-k", metavar="K", help="then train each model on K examples of each of these, and answer again")
    add("--cluster", choices=("local", "slurm"), default="local", help="where runs are started (default: local)")
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
    # --eval-tasks A B is short for --set eval_tasks=[A,B]
    lists = [(key, getattr(args, key)) for key in ("eval_tasks", "eval_k")]
    sweep = read_sweep(args.config, [*(f"{key}=[{','.join(words)}]" for key, words in lists if words), *args.set])
    check_files(sweep)
    # These import torch, which takes seconds: --help and a mistake in the file do without.
    from fairseq_idpg import plugin  # noqa: F401

    from ..run.preflight import check
    from .plan import experiments, first_stage
    from .stages import CLUSTERS, run, show

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


if __name__ == "__main__":
    main()
