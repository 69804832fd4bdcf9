"""How much tuning a result needed: the command of `science/sensitivity`, from where it was before."""

import sys
from collections.abc import Sequence
from pathlib import Path

if not __package__:  # run as a file: what is called like the suite's packages in other folders is not taken for them
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from analysis.document.command_line import exit_code_of
from analysis.document.extension import command


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    return exit_code_of([], "", lambda: command("sensitivity")(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
