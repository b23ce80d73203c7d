"""The command line: ``python -m fairseq_idpg.analysis cosine | neighbours``."""

import argparse
import logging
import sys
from typing import Optional, Sequence

from preprocess.errors import DataError

from ..errors import InputError
from . import cosine, neighbours

COMMANDS = {"cosine": cosine, "neighbours": neighbours}


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("python -m fairseq_idpg.analysis", description="What trained prompts do.")
    commands = made.add_subparsers(metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        about = (module.__doc__ or "").split("\n")[0]
        command = commands.add_parser(name, help=about, description=about)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return made


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Raises InputError, one line, for bad input and for files that cannot be written."""
    args = parser().parse_args(argv)
    try:
        args.run(args)
    except DataError as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise InputError(f"{error.filename or 'writing'}: {error.strerror or error}; nothing written") from None


if __name__ == "__main__":
    logging.getLogger().setLevel(logging.WARNING)  # a module of fairseq turns on all messages of all libraries
    sys.exit(main())
