"""Lines per second of ``python -m preprocess`` beside the way of fairseq's examples, on the same file in one run.

    python benchmarks/preprocess_time.py --vocab checkpoints/gpt2_bpe --file TEXT --lines 200000

fairseq's way: ``examples/roberta/multiprocessing_bpe_encoder.py`` writes GPT-2 ids as text, then ``fairseq-preprocess``
makes the binary files; both as whole processes with one worker. They take turns with ours; medians. The memory of ours
is measured on the file and on one four times as large. Without ``--file``, lines are drawn from the vocabulary: words
as frequent as English ones (Zipf), 5 to 40 a line.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from common import ROOT, Finished, make_parser, parse, run_process, take_turns, write_json

from preprocess.errors import command_line
from preprocess.flags import aligned
from preprocess.sources import Source


def drawn_lines(vocab: Path, count: int) -> list[str]:
    """Draw sentences of vocabulary words with Zipf's frequencies; the same ones each time."""
    pieces = json.loads((vocab / "encoder.json").read_text(encoding="utf-8"))
    words = [piece[1:] for piece in pieces if piece[0] == "Ġ" and piece[1:].isascii() and len(piece) > 1]
    draw = np.random.RandomState(0)
    ranks = np.minimum(draw.zipf(1.25, size=count * 40), len(words)) - 1
    lengths = draw.randint(5, 41, size=count)
    names = draw.randint(0, 10**6, size=count)  # rare words in two of five lines, as names and numbers are
    ends = [[f"n{name:x}", "."] if name % 5 < 2 else ["."] for name in names]
    return [" ".join([words[rank] for rank in ranks[40 * i : 40 * i + lengths[i]]] + ends[i]) for i in range(count)]


def fairseq_way(text: Path, vocab: Path, out: Path) -> list[Finished]:
    fairseq = find_spec("fairseq")
    assert fairseq is not None and fairseq.origin is not None
    encoder = Path(fairseq.origin).parent / "examples/roberta/multiprocessing_bpe_encoder.py"
    words = ["--encoder-json", f"{vocab}/encoder.json", "--vocab-bpe", f"{vocab}/vocab.bpe", "--inputs", str(text)]
    words += ["--outputs", f"{out}/bpe.txt", "--keep-empty", "--workers", "1"]
    encoded = run_process([sys.executable, str(encoder), *words], threads=1)
    tool = str(Path(sys.executable).with_name("fairseq-preprocess"))
    words = ["--srcdict", f"{vocab}/dict.txt", "--trainpref", f"{out}/bpe.txt", "--destdir", f"{out}/fairseq"]
    return [encoded, run_process([tool, "--only-source", *words, "--workers", "1"], threads=1)]


def our_way(table: Path, vocab: Path, out: Path, workers: int) -> list[Finished]:
    options = ["--no-header", "--text-columns", "2", "--label-column", "1", "--overwrite", "--workers", str(workers)]
    command = ["ours", "--from-tsv", f"train={table}", "--vocab", str(vocab), "--out", str(out)]
    return [run_process([sys.executable, "-m", "preprocess", *command, *options], threads=1)]


def write(folder: Path, lines: list[str], times: int) -> tuple[Path, Path]:
    """Write the lines so many times: as text, and as a table with labels."""
    text, table = folder / f"{times}.txt", folder / f"{times}.tsv"
    with open(text, "w", encoding="utf-8") as plain, open(table, "w", encoding="utf-8") as labelled:
        for number, line in enumerate(lines * times):
            plain.write(f"{line}\n")
            labelled.write(f"{number % 2}\t{line}\n")
    return text, table


@command_line("error", "nothing is kept")
def main() -> None:
    parser = make_parser(__doc__, lines=(100_000, "lines of the file, or to draw"), rounds=(3, "rounds"))
    parser.add_argument("--vocab", type=Path, default=ROOT / "checkpoints" / "gpt2_bpe", help="folder of GPT-2's files")
    parser.add_argument("--file", type=Path, help="a sentence in each line; default: drawn from the vocabulary")
    args = parse(parser)
    vocab = args.vocab.resolve()
    with TemporaryDirectory() as work:
        out = Path(work)
        from_file = (line for _, line in Source.file(args.file).lines()) if args.file else None
        lines = [line.replace("\t", " ") for line in islice(from_file or drawn_lines(vocab, args.lines), args.lines)]
        text, table = write(out, lines, 1)
        ways: dict[str, Callable[[], list[Finished]]] = {
            "fairseq": partial(fairseq_way, text, vocab, out),
            "ours, 1 worker": partial(our_way, table, vocab, out, workers=1),
            "ours, 2 workers": partial(our_way, table, vocab, out, workers=2),
        }
        processes = take_turns(ways, args.rounds)
        for end in ("bin", "idx"):
            made, wanted = out / f"ours-bin/input0/train.{end}", out / f"fairseq/train.{end}"
            assert made.read_bytes() == wanted.read_bytes(), f"{made} differs from {wanted}"
        large = our_way(write(out, lines, 4)[1], vocab, out, workers=1)[0].peak_mib
    seconds = {name: [sum(each.wall for each in way) for way in rounds] for name, rounds in processes.items()}
    theirs, own, _ = map(median, seconds.values())
    peak = median(process.peak_mib for (process,) in processes["ours, 1 worker"])
    print(f"{len(lines):,} lines, median of {args.rounds} rounds, whole processes, {os.cpu_count()} cores")
    rows = [[name, f"{median(each):.1f}", f"{len(lines) / median(each):,.0f}"] for name, each in seconds.items()]
    print("\n".join(aligned([["", "seconds", "lines/s"], *rows])))
    pairs = zip(seconds["fairseq"], seconds["ours, 1 worker"])
    ratios = ", ".join(f"{ratio:.1f}" for ratio in sorted(their / our for their, our in pairs))
    print(f"ratio {theirs / own:.1f} (rounds {ratios}); files equal byte for byte")
    print(f"peak memory {peak:.0f} MiB; {large:.0f} MiB for four times the lines")
    figures = {"fairseq_s": theirs, "ours_s": own, "ratio": theirs / own, "peak_mib": peak, "peak_4x_mib": large}
    write_json(args.json, figures)


if __name__ == "__main__":
    main()
