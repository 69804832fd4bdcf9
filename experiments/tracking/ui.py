"""MLflow's UI on the embedded store of the working directory, for this machine alone: `make ui`."""

import os
import sys
from pathlib import Path

from experiments.contract.mlflow_environment import keep_out
from experiments.contract.sqlite_address import sqlite_uri

if __name__ == "__main__":
    keep_out()
    store = sqlite_uri(Path("outputs/mlflow.db").absolute())
    options = ["--backend-store-uri", store, "--host", "127.0.0.1", "--port", "5000"]
    os.execv(sys.executable, [sys.executable, "-m", "mlflow", "ui", *options])
