"""Lines per second of ``python -m preprocess`` beside the way of fairseq's examples, on the same file in one run.

    python benchmarks/preprocess_time.py --vocab checkpoints/gpt2_bpe [--file TEXT] [--lines 200000]

fairseq's way: ``examples/roberta/multiprocessing_bpe_encoder.py`` writes GPT-2 ids as text, then ``fairseq-preprocess``
makes the binary files; both as whole processes with one worker. They take turns with ours; medians. The memory of ours
is measured on the file and on one four times as large. Without ``--file``, lines are drawn from the vocabulary: words
as frequent as English ones (Zipf), 5 to 40 a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from settings import ROOT, failure, new_parser, parsed, write_json

from preprocess.errors import InputError, command_line
from preprocess.sources import Source

PEAK = (
    "import resource, runpy, sys; sys.argv = sys.argv[1:]\ntry: runpy.run_module('preprocess', run_name='__main__')\n"
)
PEAK += "finally: print('PEAK', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"


def text_lines(vocab: Path, count: int) -> list[str]:
    """Sentences of vocabulary words with Zipf's frequencies; the same ones each time."""
    pieces = json.loads((vocab / "encoder.json").read_text(encoding="utf-8"))
    words = [piece[1:] for piece in pieces if piece[0] == "Ġ" and piece[1:].isascii() and len(piece) > 1]
    draw = np.random.RandomState(0)
    ranks = np.minimum(draw.zipf(1.25, size=count * 40), len(words)) - 1
    lengths = draw.randint(5, 41, size=count)
    names = draw.randint(0, 10**6, size=count)  # rare words in two of five lines, as names and numbers are
    ends = [[f"n{name:x}", "."] if name % 5 < 2 else ["."] for name in names]
    return [" ".join([words[rank] for rank in ranks[40 * i : 40 * i + lengths[i]]] + ends[i]) for i in range(count)]


def run(command: list[str]) -> tuple[float, str]:
    """Return seconds and output. Raises InputError where it failed."""
    started = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise InputError(failure(done.stdout.partition("\nPEAK ")[0]))
    return time.perf_counter() - started, done.stdout


def fairseq_way(text: Path, vocab: Path, out: Path) -> float:
    fairseq = find_spec("fairseq")
    assert fairseq is not None and fairseq.origin is not None
    encoder = Path(fairseq.origin).parent / "examples/roberta/multiprocessing_bpe_encoder.py"
    words = ["--encoder-json", f"{vocab}/encoder.json", "--vocab-bpe", f"{vocab}/vocab.bpe", "--inputs", str(text)]
    words += ["--outputs", f"{out}/bpe.txt", "--keep-empty", "--workers", "1"]
    first, _ = run([sys.executable, str(encoder), *words])
    tool = str(Path(sys.executable).with_name("fairseq-preprocess"))
    words = ["--srcdict", f"{vocab}/dict.txt", "--trainpref", f"{out}/bpe.txt", "--destdir", f"{out}/fairseq"]
    second, _ = run([tool, "--only-source", *words, "--workers", "1"])
    return first + second


def our_way(table: Path, vocab: Path, out: Path, workers: int = 1) -> tuple[float, float]:
    """(seconds, peak MiB)"""
    options = ["--no-header", "--text-columns", "2", "--label-column", "1", "--overwrite", "--workers", str(workers)]
    command = ["ours", "--from-tsv", f"train={table}", "--vocab", str(vocab), "--out", str(out)]
    seconds, output = run([sys.executable, "-c", PEAK, "preprocess", *command, *options])
    return seconds, int(output.split("PEAK")[1]) / 1024


def write(folder: Path, lines: list[str], times: int = 1) -> tuple[Path, Path]:
    text, table = folder / f"{times}.txt", folder / f"{times}.tsv"
    with open(text, "w", encoding="utf-8") as plain, open(table, "w", encoding="utf-8") as labelled:
        for i, line in enumerate(lines * times):
            plain.write(line + "\n")
            labelled.write(f"{i % 2}\t{line}\n")
    return text, table


@command_line("error", "nothing is kept")
def main() -> None:
    parser = new_parser(__doc__, lines=(100_000, ""), rounds=(3, ""))
    parser.add_argument("--vocab", type=Path, default=ROOT / "checkpoints" / "gpt2_bpe")
    parser.add_argument("--file", type=Path, help="a sentence in each line; default: drawn from the vocabulary")
    args = parsed(parser)
    vocab = args.vocab.resolve()
    theirs, ours, of_two = [], [], []
    with TemporaryDirectory() as work:
        out = Path(work)
        of_file = (line for _, line in Source.file(args.file).lines()) if args.file else None
        lines = [line.replace("\t", " ") for line in islice(of_file or text_lines(vocab, args.lines), args.lines)]
        text, table = write(out, lines)
        for _ in range(args.rounds):
            of_two.append(our_way(table, vocab, out, workers=2)[0])
            theirs.append(fairseq_way(text, vocab, out))
            ours.append(our_way(table, vocab, out))
        for end in ("bin", "idx"):
            made, wanted = out / f"ours-bin/input0/train.{end}", out / f"fairseq/train.{end}"
            assert made.read_bytes() == wanted.read_bytes(), f"{made} differs from {wanted}"
        large = our_way(write(out, lines, 4)[1], vocab, out)[1]
    one, peak = (median(found) for found in zip(*ours))
    print(f"{len(lines):,} lines, median of {args.rounds} rounds, whole processes, {os.cpu_count()} cores")
    print(f"{'':20}{'seconds':>10}{'lines/s':>12}")
    for name, seconds in (("fairseq", median(theirs)), ("ours, 1 worker", one), ("ours, 2 workers", median(of_two))):
        print(f"{name:20}{seconds:10.1f}{len(lines) / seconds:12,.0f}")
    ratio, rounds = median(theirs) / one, sorted(their / own for their, (own, _) in zip(theirs, ours))
    print(f"ratio {ratio:.1f} (rounds {', '.join(f'{each:.1f}' for each in rounds)}); files equal byte for byte")
    print(f"peak memory {peak:.0f} MiB; {large:.0f} MiB for four times the lines")
    figures = {"fairseq_s": median(theirs), "ours_s": one, "ratio": ratio, "peak_mib": peak, "peak_4x_mib": large}
    write_json(args.json, figures)


if __name__ == "__main__":
    main()
