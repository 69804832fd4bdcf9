"""Loads a study once, for `benchmarks.loading`: by `analysis.load`, or curve by curve with MLflow's client,
the usual way.
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path

from analysis.load import load_study

KIB_PER_UNIT = 1 / 1024 if sys.platform == "darwin" else 1
"""Of ru_maxrss: bytes on macOS."""


def main() -> None:
    """Load, and write what it took as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("uri")
    parser.add_argument("result", type=Path, help="file for seconds, points and peak memory")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--metric", action="append", help="read only this one; may be given several times")
    parser.add_argument("--peer-runs", type=int, help="take so many runs, by MlflowClient.get_metric_history")
    arguments = parser.parse_args()
    if arguments.peer_runs is not None or not arguments.uri.startswith("sqlite"):
        import mlflow  # noqa: F401  # so that the seconds are of the reading alone
    if arguments.peer_runs is None:
        start = time.perf_counter()
        points = len(load_study(None, arguments.uri, arguments.metric, arguments.cache).curves)
        seconds = time.perf_counter() - start
    else:
        points, seconds = _curve_by_curve(arguments.uri, arguments.peer_runs)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB_PER_UNIT / 1024
    arguments.result.write_text(json.dumps({"seconds": seconds, "points": points, "peak_mib": peak_mib}))


def _curve_by_curve(uri: str, num_runs: int) -> tuple[int, float]:
    """Points, and the seconds of reading them alone: those of connecting and listing the runs do not grow
    with the runs that are read.
    """
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiments = [e.experiment_id for e in client.search_experiments() if "/" in e.name]
    runs = client.search_runs(experiments, max_results=num_runs)
    start = time.perf_counter()
    points = sum(len(client.get_metric_history(run.info.run_id, metric)) for run in runs for metric in run.data.metrics)
    return points, time.perf_counter() - start


if __name__ == "__main__":
    main()
