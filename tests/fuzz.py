"""Many examples of tests/test_readers.py: ``python -m tests.fuzz [READER] [--examples N] [--seed S]``.

A failure prints the smallest damage that shows it; the same seed finds it again.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import pytest

TEST = f"{Path(__file__).with_name('test_readers.py')}::test_damage"


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.fuzz")
    parser.add_argument("reader", nargs="?", metavar="READER", help="a key of READERS, such as sweep (default: all)")
    parser.add_argument("--examples", type=int, default=1000, metavar="N", help="for each reader (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="default: 0")
    args = parser.parse_args()
    os.environ["FUZZ_EXAMPLES"] = str(args.examples)
    chosen = TEST + (f"[{args.reader}]" if args.reader else "")
    return pytest.main([chosen, "-q", "-p", "no:cacheprovider", f"--hypothesis-seed={args.seed}"])


if __name__ == "__main__":
    sys.exit(main())
