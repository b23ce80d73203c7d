"""A ``python`` for shell commands whose processes have imported torch and fairseq before they start.

Commands of the pages and jobs of sweeps spend seconds on these imports, each anew. For a module or file of this
repository, or a text that names one, this ``python`` asks a server, which forks; anything else the interpreter does.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def warm_python(folder: Path) -> Iterator[Path]:
    """The ``python`` in ``folder``, with fairseq's tools beside it, as long as its server runs."""
    address, python = folder / "socket", folder / "python"
    client = [sys.executable, "-IS", ROOT / "tests" / "warm" / "client.py", address]
    python.write_text("#!/bin/sh\nexec " + " ".join(f"'{part}'" for part in client) + ' "$@"\n')
    python.chmod(0o755)
    for tool in Path(sys.executable).parent.glob("fairseq-*"):
        (folder / tool.name).write_text(
            f"#!/bin/sh\nexec '{python}' -m {tool.name.replace('fairseq-', 'fairseq_cli.')} \"$@\"\n"
        )
        (folder / tool.name).chmod(0o755)
    command = [sys.executable, "-m", "tests.warm.server", str(address), str(python)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout.readline() == "ready\n"
        yield python
        server.stdin.close()  # which ends it
