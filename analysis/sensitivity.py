"""How much tuning a result needed: the command of `science/sensitivity`, from where it was before."""

import sys
from collections.abc import Sequence
from pathlib import Path

if not __package__:  # run as a file: what is called like the suite's packages in other folders is not taken for them
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from analysis import AnalysisError
from analysis.document.extension import command


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    try:
        return command("sensitivity")(arguments)
    except AnalysisError as error:  # the extension is not there
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
