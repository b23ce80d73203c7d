"""Seconds of few-shot trainings that run at once on one GPU, as a sweep runs them.

    python benchmarks/few_shot.py --device cuda --json FILE

Random weights, pairs of 2 x 12 drawn words, K examples, 50 epochs of batches of 16, validated five times on 1,000
examples. Each training is a process with one thread. Seconds are those of the whole process, as records have them.
"""

import json
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from common import SIZES, check_device, make_parser, parse, run_process, write_json
from startup import write_backbone, write_pairs

from preprocess.errors import InputError, command_line
from preprocess.flags import aligned, flag_name

METHODS = ("prompt-tuning", "p-tuning-v2", "m-idpg-phm", "lopa")
MOST_SECONDS = 60  # of each of 16 trainings of MiniLM with K = 500
CHOOSING = 1000  # examples that choose the checkpoint
SWEEP = """backbone: {folder}/backbone/model.pt
arch: roberta_idpg
data: {{RTE: {folder}/RTE-bin}}
tasks: [RTE]
k: [{k}]
dev_examples: {choosing}
rows: [{rows}]
lrs: [0.001]
seeds: {seeds}
max_epoch: {epochs}
options: {{{options}}}
"""


@command_line("error", "nothing is kept")
def main() -> None:
    parser = make_parser(
        __doc__,
        k=(500, "examples of each training"),
        seeds=(4, f"trainings of each of {', '.join(METHODS)}, all at once"),
        epochs=(50, "epochs of each"),
        choosing=(CHOOSING, "examples that choose the checkpoint"),
    )
    parser.add_argument("--size", choices=SIZES, default="minilm", help="of the model (default minilm)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda", help="default cuda")
    args = parse(parser)
    check_device(args.device)
    sizes = SIZES[args.size].encoder_options
    options = {flag_name(name)[2:]: value for name, value in sizes.items()} | {
        "validate-interval": -(-args.epochs // 5)
    }
    options |= {"cpu": "true"} if args.device == "cpu" else {}
    with TemporaryDirectory(prefix="few-shot-") as folder:
        write_backbone(Path(folder, "backbone", "model.pt"), SIZES[args.size])
        write_pairs(Path(folder, "RTE-bin"), {"train": 2 * args.k + args.choosing, "valid": args.choosing})
        sweep, results = Path(folder, "sweep.yaml"), Path(folder, "results")
        lists = {"rows": ", ".join(METHODS), "seeds": list(range(1, args.seeds + 1))}
        given = ", ".join(f"{name}: {value}" for name, value in options.items())
        named = {"folder": folder, "k": args.k, "choosing": args.choosing, "epochs": args.epochs, "options": given}
        sweep.write_text(SWEEP.format(**named, **lists), encoding="utf-8")
        jobs = args.seeds * len(METHODS)
        words = ["-m", "run_scripts.sweep", str(sweep), "--results", str(results), "--jobs", str(jobs)]
        done = run_process([sys.executable, *words], threads=1)
        lines = (results / "results.jsonl").read_text(encoding="utf-8").splitlines()
        runs = list({run["run"]: run for run in map(json.loads, lines)}.values())  # the last line of each
    if failed := [run for run in runs if run["status"] != "done"]:
        raise InputError(f"{len(failed)} of {jobs} trainings failed: {failed[0]['reason']}")
    seconds = {name: [run["seconds"] for run in runs if run["row"] == name] for name in METHODS}
    rows = [["method", "least s", "median s", "most s"]]
    rows += [[name, *(f"{figure(each):.1f}" for figure in (min, median, max))] for name, each in seconds.items()]
    print(f"{jobs} trainings at once, {args.size}, K = {args.k}, {done.wall:.0f} s together")
    print("\n".join(aligned(rows)))
    if (args.size, args.k, jobs) == ("minilm", 500, 16):
        met = max(map(max, seconds.values())) <= MOST_SECONDS
        print(f"at most {MOST_SECONDS} s each: {'yes' if met else 'NO'}")
    write_json(args.json, {"wall": done.wall, "seconds": seconds})


if __name__ == "__main__":
    main()
