"""A folder to share out of a checkpoint: ``python -m fairseq_idpg.export CHECKPOINT DIR``.

DIR holds what was trained and what it is, but neither the backbone nor anything that could run code:
prompt.safetensors, config.json and README.md. ``fairseq_idpg.load`` and ``python -m fairseq_idpg.predict --path`` take
it instead of the checkpoint.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from .errors import logged_command
from .inference.export import export
from .saving.shared_folder import CONFIG, use_lines


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("python -m fairseq_idpg.export", description=(__doc__ or "").split(":")[0])
    add = made.add_argument
    add("checkpoint", metavar="CHECKPOINT", help="what fairseq-train saved")
    add("folder", metavar="DIR", help="folder to make")
    add("--record", metavar="FILE", help="scores of the run (default: record.json beside a checkpoint_best.pt)")
    add("--no-paths", action="store_true", help="leave out where backbone and encoder are on this machine")
    add("--overwrite", action="store_true", help="replace an earlier folder of this kind")
    return made


@logged_command()
def main(argv: Sequence[str] | None = None) -> None:
    args = parser().parse_args(argv)
    export(args.checkpoint, args.folder, args.overwrite, args.record, not args.no_paths)
    size = sum(file.stat().st_size for file in Path(args.folder).iterdir())
    pairs = bool(json.loads(Path(args.folder, CONFIG).read_text(encoding="utf-8"))["data"]["pairs"])
    print(f"{args.folder}: {size / 1000:,.0f} kB. Use it in Python, or at the command line:")
    print(*use_lines(args.folder, pairs).values(), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
