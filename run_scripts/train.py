"""One run with the paper's settings: ``python -m run_scripts.train RTE --method m-idpg-phm ...``.

The scripts run_scripts/rte.sh and so on call it. Options that it does not know go to fairseq-train.
"""

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from preprocess.errors import InputError, command_line
from preprocess.flags import flag_name, named_path, positive, positive_number, random_seed
from preprocess.tasks import SETTINGS, WHOLE_MODEL, Settings, Task, find_task
from preprocess.writing import check_output, check_replaces_nothing, new_file

from .report.paper import PAPER_ARCH
from .report.records import PAIRS, POSITIONS
from .run.experiment import ARCHITECTURES, ARROW, MAX_TOKENS, SELECTIONS, Experiment, continued, with_others
from .run.records import BEST_CHECKPOINT, Record, append_record, read_records, run_folder

LARGE, MNLI = "checkpoints/roberta.large/model.pt", "checkpoints/roberta.large.mnli/model.pt"


def about(task: Task, supplementary: bool) -> str:
    """Return the paper's settings, for --help."""
    prompts = Experiment(task.name, "", 0.0, 1, "", "", supplementary=supplementary)
    training = f"{task.name} with the paper's settings: {_described(prompts.settings)}, fixed"
    more = (
        f" With --k: {_described(SETTINGS['few-shot'])}, and M(x) fed to every layer (--representation backbone). "
        f"Whole models (fine-tuning, efl): {_described(WHOLE_MODEL[prompts.size])}, warm-up and linear decay."
    )
    if supplementary:
        pairs = f"The whole model, with prompts, on {task.name} with every pair in both orders"
        training, more = f"{pairs}: {_described(prompts.settings)}, warm-up and linear decay", ""
    return (
        f"{training}; weight decay 0.1, Adam 0.9, 0.98, 1e-6, dropout 0.1, at most {MAX_TOKENS:,} tokens in a batch; "
        f"the best checkpoint by {task.metric}.{more} "
        "Options that are not listed go to fairseq-train: --fp16, --cpu, --prompt-length 10 ..."
    )


def _described(settings: Settings) -> str:
    rates = ", ".join(f"{rate:g}" for rate in settings.learning_rates)
    return f"batch {settings.batch_size}, {settings.max_epoch} epochs, learning rates {rates}"


def make_parser(task: Task, supplementary: bool) -> argparse.ArgumentParser:
    script = f"run_scripts/{task.name.lower()}{'_supplementary' if supplementary else ''}.sh"
    example = f"example: bash {script} --method m-idpg-phm --position 1 --seed 2 --cpu"
    parser = argparse.ArgumentParser(script, description=about(task, supplementary), epilog=example, allow_abbrev=False)
    add = parser.add_argument
    add("--method", default="m-idpg-phm", help="README lists them (default: m-idpg-phm)")
    add("--backbone", default=LARGE, metavar="FILE", help=f"default: {LARGE}; with --k {MNLI} is the authors'")
    size = f"size of the backbone (default: {PAPER_ARCH})"
    add("--arch", choices=ARCHITECTURES, default=PAPER_ARCH, metavar="ARCH", help=size)
    add("--data", type=named_path, metavar="DIR", help=f"binarized folder (default: data/{task.name}-bin)")
    add("--lr", type=positive_number, help="default: the first of the above")
    add("--seed", type=random_seed, default=1, help="default: 1")
    add("--k", type=positive, metavar="K", help="few-shot: training examples, a new sample for each seed")
    held_out = "held out of the training set to choose with (default: a tenth, at most 1,000)"
    add("--dev", dest="dev_examples", type=positive, metavar="N", help=held_out)
    chosen_on = "best checkpoint on these (clean, the default), or on what is reported, as the authors' scripts (paper)"
    add("--selection", choices=SELECTIONS, default="clean", help=chosen_on)
    place = partial(add, type=int, choices=POSITIONS[PAIRS], metavar="P")
    place("--position", "--prompt-position", help="of the prompt (default: 0)")
    place("--supplementary-position", help="where it was when the backbone was trained on MNLI")
    start = partial(add, type=lambda text: str(named_path(text)), metavar="FILE")
    start("--init-prompts-from", help="keep the generator or prompts of this checkpoint")
    start("--init-head-from", help="keep its classification head")
    add("--supplementary", action="store_true", help="train the whole model, with prompts, as a backbone (A.4)")
    add("--batch-size", type=positive, metavar="N", help="of an update, over all processes")
    add("--max-epoch", type=positive, metavar="N", help="epochs at most")
    add("--max-update", type=positive, metavar="N", help="updates at most")
    several = partial(add, nargs="+", action="extend")
    several("--eval-tasks", metavar="TASK", help="tasks that the model also answers, without training on them")
    several("--eval-k", type=positive, metavar="K", help="and once more, trained on K examples of each")
    add("--eval-data", type=named_path, metavar="DIR", help="where their TASK-bin are (default: beside --data)")
    add("--row", default="", help="name in reports (default: the method)")
    add("--results", type=named_path, default=Path("results"), metavar="DIR", help="of all runs (default: results)")
    add("--out", type=named_path, metavar="FILE", help="leave the best checkpoint there too")
    return parser


def experiment_of(task: Task, args: argparse.Namespace, options: Sequence[str]) -> Experiment:
    """Return the experiment of a command line; ``options`` are those of fairseq-train."""
    from .run.command import learning_rates, with_few_shot_input
    from .run.options import checked

    if args.supplementary:
        for name, value in (("--k", args.k), ("--dev", args.dev_examples), ("--eval-k", args.eval_k)):
            if value:
                raise InputError(f"{name} does not go with --supplementary, which draws no examples: leave it out")
    if args.eval_k and (args.k or not args.eval_tasks):
        what = "goes on from a model of a whole training set with other tasks"
        raise InputError(f"--eval-k {args.eval_k} {what}: name them with --eval-tasks, and leave --k out")
    data = str(args.data or f"data/{task.name}-bin")
    others = [find_task(name).name for name in args.eval_tasks or ()]
    known = {item.name for item in fields(Experiment)} - {"data", "lr", "options", "eval_tasks", "eval_data"}
    typed: dict[str, Any] = {name: value for name, value in vars(args).items() if name in known}
    named = Experiment(**typed, task=task.name, data=data, lr=0.0, options=checked(options))
    folders = {name: str((args.eval_data or Path(data).parent) / f"{name}-bin") for name in others}
    experiment = with_few_shot_input(with_others(named, "--eval-tasks", folders).absolute())
    return replace(experiment, lr=learning_rates(experiment)[0] if args.lr is None else args.lr)


def run(task: Task, words: Sequence[str]) -> None:
    args, options = make_parser(task, "--supplementary" in words).parse_known_args(words)
    from .run.preflight import check  # --help does without torch, which takes seconds

    experiment = experiment_of(task, args, options)
    if args.out:
        starts = ("backbone", "init_prompts_from", "init_head_from", "data")
        check_replaces_nothing(args.out, "--out", {flag_name(name): [getattr(experiment, name)] for name in starts})
    further = list(continued([experiment], args.eval_k or ()))
    check([experiment, *further])
    if args.out:
        check_output(args.out, "--out")
    if added := experiment.options[len(options) :]:
        note = f"with --k, as in the authors' scripts: {' '.join(added)}; --representation previous-layer undoes it"
        print(note, file=sys.stderr)
    record = performed(experiment, args.results)
    checkpoint = run_folder(args.results, record["run"]) / BEST_CHECKPOINT
    if args.out:
        with new_file(args.out) as work:
            shutil.copyfile(checkpoint, work)
    print(f"{experiment}: {described(record)}; checkpoint {args.out or checkpoint}")
    for name, other in record.get("transfer", {}).items():
        print(f"{task.name}{ARROW}{name} without training on it: {listed(other['scores'])}")
    for each in further:
        print(f"{each}: {described(performed(each, args.results))}")


def performed(experiment: Experiment, results: Path) -> Record:
    """Return the record of the run, which is made if need be and added to the results."""
    from .run.perform import perform

    record = perform(experiment, results, echo=True)
    if record not in read_records(results):
        append_record(results, record)
    return record


def described(record: Record) -> str:
    from .run.metrics import ACC_AND_MACRO_F1, MACRO_F1

    scores = record["scores"]["test"]
    shown = {name: scores[name] for name in scores if name not in (MACRO_F1, ACC_AND_MACRO_F1)}
    return f"{listed(shown)} (dev {record['dev']:.1f}, best epoch {record['best_epoch']}, {record['seconds']:.0f} s)"


def listed(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.1f}" for name, value in scores.items())


@command_line("run_scripts", "the same command goes on")
def main(argv: Sequence[str] | None = None) -> None:
    words = sys.argv[1:] if argv is None else list(argv)
    if not words or words[0].startswith("-"):
        raise InputError("name a task first: python -m run_scripts.train RTE; --help after it lists the options")
    run(find_task(words[0]), words[1:])


if __name__ == "__main__":
    main()
