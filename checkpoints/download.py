"""``download.sh`` of an installed package: models and encoders go to checkpoints/ where it is called."""

import subprocess
import sys
from pathlib import Path


def main() -> int:
    """``idpg-download NAME [DEST]``: the status of the script."""
    name, folder = sys.argv[1:2] or [""], sys.argv[2:] or ["checkpoints"]
    return subprocess.call(["bash", str(Path(__file__).with_name("download.sh")), *name, *folder])


if __name__ == "__main__":
    sys.exit(main())
