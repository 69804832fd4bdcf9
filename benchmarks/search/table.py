"""Writes the results of a full grid to a small file, over which searches are replayed.

The two files of `benchmarks/search/data` are of these studies:

    python experiments/run.py 'study.space={algorithm.training.lr:[1e-4,3e-4,1e-3,3e-3,1e-2,3e-2],algorithm.training.train_batch_size_per_learner:[512,1000,2000,4000]}' seeds=[0,1,2,3,4,5,6,7,8,9]
    python -m benchmarks.search.table lr_batch/ppo-cartpole benchmarks/search/data/ppo_cartpole.csv
    python experiments/run.py env=acrobot 'study.space={algorithm.training.lr:[3e-4,1e-3,3e-3,1e-2],algorithm.training.train_batch_size_per_learner:[1000,2000,4000]}' seeds=[0,1,2,3,4,5,6,7,8,9]
    python -m benchmarks.search.table lr_batch/ppo-acrobot benchmarks/search/data/ppo_acrobot.csv
"""  # noqa: E501  # commands to copy

import argparse
from pathlib import Path

import pandas as pd

from analysis.load import Study, load_study

DATA = Path(__file__).parent / "data"
RETURNS = "eval/return_mean"
_KEPT = ("env_steps_to_target", "seconds_to_target", "train_s", "env_steps_per_s", "score", "auc")


def table_of(study: Study) -> pd.DataFrame:
    """A row a trial.

    Args:
        study: A finished grid.

    Returns:
        `config`; the searched settings, under their paths; `seed`, `env`, `budget_env_steps`, `target`; the `final/`
        metrics that a search may aim at; `returns`, the evaluation return at each report, with a blank between two.
    """
    evaluations = study.curves[study.curves["metric"] == RETURNS].sort_values("env_steps")
    returns = evaluations.groupby("run_id", observed=True)["value"].agg(
        lambda values: " ".join(f"{v:.2f}" for v in values)
    )
    settings = pd.DataFrame([study.points[config] for config in study.runs["config"]], index=study.runs.index)
    columns = ["seed", "env", "budget_env_steps", "target", *_KEPT]
    table = pd.concat([study.runs["config"].astype(str), settings, study.runs[columns]], axis=1)
    return table.assign(returns=study.runs["run_id"].map(returns)).round(dict.fromkeys(_KEPT, 3))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search.table", description=__doc__)
    parser.add_argument("study", help="name or run id")
    parser.add_argument("file", type=Path)
    parser.add_argument("--tracking-uri")
    arguments = parser.parse_args()
    study = load_study(arguments.study, arguments.tracking_uri, metrics=[RETURNS])
    if gaps := study.gaps():
        raise SystemExit("error: " + " ".join(gaps))
    arguments.file.parent.mkdir(exist_ok=True)
    table_of(study).to_csv(arguments.file, index=False)


if __name__ == "__main__":
    main()
