"""MLflow's UI on the embedded store of the working directory, for this machine alone: `make ui`."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.contract.mlflow_environment import keep_out
from experiments.contract.sqlite_address import sqlite_uri

HELP = """\
MLflow's UI on outputs/mlflow.db of this folder, for this machine alone: http://127.0.0.1:5000.

Other words go to `mlflow ui`: --port 5001.
"""


def main(arguments: Sequence[str]) -> int:
    """The command line; it becomes MLflow's."""
    if not {"-h", "--help"}.isdisjoint(arguments):
        print(HELP, end="")
        return 0
    database = Path("outputs/mlflow.db").absolute()
    if not database.exists():
        print(f"error: {database} is not there. Run a study here first: rl-scaling run", file=sys.stderr)
        return 2
    keep_out()
    options = ["--backend-store-uri", sqlite_uri(database), "--host", "127.0.0.1", "--port", "5000", *arguments]
    os.execv(sys.executable, [sys.executable, "-m", "mlflow", "ui", *options])
    return 0  # by then it is another program


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
