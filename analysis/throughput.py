"""How fast configurations run and where their time goes: pure functions of a study's frames."""

import numpy as np
import pandas as pd

from analysis.convergence import conclusive
from analysis.errors import AnalysisError

PARTS = ("sample", "learn", "sync", "other")
"""The parts of a training second, as in the metrics `throughput/*_share`."""


def check_comparable(runs: pd.DataFrame) -> None:
    """Make sure that throughput was measured in one way: each trial alone on the machine, or all side by side.

    Raises:
        AnalysisError: Some trials ran alone and others did not.
    """
    ways = runs[runs["run_id"].notna()].groupby("exclusive")["config"].nunique()
    if len(ways) > 1:
        raise AnalysisError(
            f"throughput cannot be compared: {ways[True]} configurations ran alone on the machine, {ways[False]} beside other trials. "
            "Run them in one study with hardware.max_concurrent_trials=1."
        )


def time_shares(curves: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Shares of training time by part: over each trial's whole training, then the mean over seeds.

    Args:
        curves: As `analysis.load` gives them.
        runs: Likewise.

    Returns:
        `config`, `part` (of `PARTS`), `share`, `num_seeds`; a configuration's shares add to 1, a part that it never logged has 0. Empty
        without a trial that logged its shares and `progress/train_s`.
    """
    metrics = [f"throughput/{part}_share" for part in PARTS]
    finished = conclusive(runs)
    points = curves[curves["metric"].isin([*metrics, "progress/train_s"]) & curves["run_id"].isin(finished["run_id"])]
    wide = points.astype({"metric": str}).pivot(index=["config", "run_id", "env_steps"], columns="metric", values="value")
    wide = wide.reindex(columns=[*metrics, "progress/train_s"]).reset_index().sort_values(["run_id", "env_steps"])
    # A share is of the seconds since the last report.
    seconds = wide["progress/train_s"] - wide.groupby("run_id", observed=True)["progress/train_s"].shift(fill_value=0.0)
    spent = wide[metrics].mul(seconds, axis=0).groupby([wide["config"], wide["run_id"]], observed=True).sum()
    spent = spent[spent.sum(axis=1) > 0]
    if spent.empty:
        return pd.DataFrame(columns=["config", "part", "share", "num_seeds"])
    shares = spent.div(spent.sum(axis=1), axis=0).groupby("config", observed=True)
    table = shares.mean().set_axis(PARTS, axis=1).stack().rename_axis(["config", "part"]).reset_index(name="share")
    table["num_seeds"] = table["config"].map(shares.size()).astype(int)
    return table


def pareto(summary: pd.DataFrame) -> pd.DataFrame:
    """Which configurations of an environment are not beaten in both env steps and seconds to target.

    Args:
        summary: As `convergence.summarise` gives it.

    Returns:
        The configurations with seeds that reach the target: `config`, `env_steps_to_target` and `seconds_to_target` with intervals,
        `on_front`, `num_seeds`, `num_reached`. By the estimates: neighbours whose intervals overlap may change places.
    """
    both = ["env_steps_to_target", "seconds_to_target"]
    columns = ["config", "env", *(f"{name}{end}" for name in both for end in ("", "_low", "_high")), "num_seeds", "num_reached"]
    table = summary.loc[summary["num_reached"] > 0, columns].reset_index(drop=True)
    costs, env = table[both].to_numpy(dtype=float), table.pop("env").to_numpy()
    same_env = env[None] == env[:, None]
    no_worse = (costs[None] <= costs[:, None]).all(axis=2)
    better = (costs[None] < costs[:, None]).any(axis=2)
    table["on_front"] = ~(same_env & no_worse & better).any(axis=1) if len(table) else np.array([], dtype=bool)
    return table
