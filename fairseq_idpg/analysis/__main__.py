"""The command line: ``python -m fairseq_idpg.analysis cosine | neighbours``."""

import argparse
import logging
import sys
from collections.abc import Sequence

from ..errors import logged_command
from . import cosine, neighbours

COMMANDS = {"cosine": cosine, "neighbours": neighbours}


def parser() -> argparse.ArgumentParser:
    program = "python -m fairseq_idpg.analysis"
    example = f"Example: {program} {next(iter(COMMANDS))} {cosine.EXAMPLE}"
    made = argparse.ArgumentParser(program, description="What trained prompts do.", epilog=example)
    commands = made.add_subparsers(metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        about = (module.__doc__ or "").split("\n")[0]
        example = f"Example: {program} {name} {module.EXAMPLE}"
        command = commands.add_parser(name, help=about, description=about, epilog=example)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return made


@logged_command(logging.WARNING)
def main(argv: Sequence[str] | None = None) -> None:
    args = parser().parse_args(argv)
    args.run(args)


if __name__ == "__main__":
    sys.exit(main())
