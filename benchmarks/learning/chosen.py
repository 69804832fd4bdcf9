"""Keeps the study that chose what a file of `conf/tuned` has, so that anybody can look: its trials, the returns of
their evaluations, all settings, and a card.

    python -m benchmarks.learning.chosen pendulum_rates sqlite:////home/me/rl-scaling/outputs/mlflow.db

The tests find files that no longer have what their study ran.
"""

import argparse
from pathlib import Path

from analysis.load import load_study
from analysis.report import build, write_tables
from benchmarks.learning.pairs import STUDIES
from experiments.contract import RETURN


def keep(study: str, tracking_uri: str | None, to: Path = STUDIES) -> Path:
    """Write a study's tables; returns the folder, named as the file is whose settings it chose.

    Args:
        study: Of one algorithm on one environment: its name or run id.
        tracking_uri: Of its store; None: the default one.
        to: The folder of all.
    """
    found = load_study(study, tracking_uri)
    ((algorithm, env),) = {*zip(found.runs["algorithm"], found.runs["env"], strict=True)}
    folder = to / f"{algorithm}-{env}"
    write_tables(found, build(found), folder, metrics=[RETURN])
    return folder


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning.chosen", description=__doc__)
    parser.add_argument("study")
    parser.add_argument("tracking_uri", nargs="?")
    arguments = parser.parse_args()
    print(keep(arguments.study, arguments.tracking_uri))


if __name__ == "__main__":
    main()
