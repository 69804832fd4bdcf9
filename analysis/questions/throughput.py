"""How fast configurations run and where their time goes: pure functions of a study's frames."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from analysis import AnalysisError
from analysis.evidence import conclusive
from analysis.questions.convergence import alike, by_seed, summarise
from analysis.questions.machines import trials_by_kind
from analysis.stats.moderated import moderated_intervals
from experiments.contract import TIME_PARTS

PARTS = ("sample", "learn", "sync", "other")
"""The parts of a training second, as in the metrics `throughput/*_share`."""


def check_comparable(runs: pd.DataFrame) -> None:
    """Make sure that throughput was measured in one way, each trial alone on the machine, or all side by side,
    and on one kind of machine.

    Raises:
        AnalysisError: Some configurations ran alone and others did not, or on different kinds of machine.
    """
    started = runs[runs["run_id"].notna()]
    alone = started.groupby("config", observed=True)["exclusive"].mean()
    num_alone, num_beside = int((alone == 1).sum()), int((alone == 0).sum())
    if num_alone and num_beside:
        raise AnalysisError(
            f"throughput cannot be compared: {num_alone} configurations ran alone on the machine, "
            f"{num_beside} beside other trials. Run them in one study with hardware.max_concurrent_trials=1."
        )
    if len(kinds := trials_by_kind(runs)) > 1:
        listed = "; ".join(f"{number} on {kind}" for kind, number in kinds.items())
        raise AnalysisError(
            f"throughput cannot be compared: the trials ran on different kinds of machine ({listed}). "
            "Compare those of one kind, in Python: runs[machines.machine_kinds(runs) == kind]; "
            "or run the study on one: GPUs by hardware.accelerator_type, CPUs by a cluster whose nodes have the same."
        )


def time_shares(curves: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Where each configuration's time goes: over each trial, then the mean over seeds.

    Shares of the wall-clock, by `TIME_PARTS`, without the first report, which holds the warm-up. Of studies from before
    these were logged, shares of training time, by `PARTS`.

    Args:
        curves: As `analysis.load` gives them.
        runs: The trials of these curves, as `analysis.load` gives them.

    Returns:
        `config`, `part`, `share`, `num_seeds`; a configuration's shares add to 1, a part that it never logged has 0.
        Empty without a trial that logged its shares and its seconds.
    """
    logged = set(curves["metric"].unique())
    if any(f"time/{part}_share" in logged for part in TIME_PARTS):
        return _shares(curves, runs, {part: f"time/{part}_share" for part in TIME_PARTS}, "progress/wall_s", skip=1)
    return _shares(curves, runs, {part: f"throughput/{part}_share" for part in PARTS}, "progress/train_s", skip=0)


def _shares(curves: pd.DataFrame, runs: pd.DataFrame, parts: Mapping[str, str], clock: str, skip: int) -> pd.DataFrame:
    """Shares of the seconds since the report before, of a clock's; a trial's first `skip` reports are left out,
    if it has others.
    """
    metrics = list(parts.values())
    finished = conclusive(runs)
    points = curves[curves["metric"].isin([*metrics, clock]) & curves["run_id"].isin(finished["run_id"])]
    wide = points.astype({"metric": str}).pivot(
        index=["config", "run_id", "env_steps"], columns="metric", values="value"
    )
    wide = wide.reindex(columns=[*metrics, clock]).reset_index().sort_values(["run_id", "env_steps"])
    of_run = wide.groupby("run_id", observed=True)
    seconds = wide[clock] - of_run[clock].shift(fill_value=0.0)
    counts = (of_run.cumcount() >= skip) | (of_run[clock].transform("size") <= skip)
    spent = (
        wide[metrics]
        .mul(seconds.where(counts, 0.0), axis=0)
        .groupby([wide["config"], wide["run_id"]], observed=True)
        .sum()
    )
    spent = spent[spent.sum(axis=1) > 0]
    if spent.empty:
        return pd.DataFrame(columns=["config", "part", "share", "num_seeds"])
    shares = spent.div(spent.sum(axis=1), axis=0).groupby("config", observed=True)
    table = (
        shares.mean().set_axis(list(parts), axis=1).stack().rename_axis(["config", "part"]).reset_index(name="share")
    )
    table["num_seeds"] = table["config"].map(shares.size()).astype(int)
    return table


def scaling_axis(runs: pd.DataFrame, axes: Sequence[str]) -> str | None:
    """The axis that was scaled: runners, or else learners; None if neither was.

    Args:
        runs: As `analysis.load` gives them.
        axes: The searched columns of `runs`.
    """
    return next(
        (a for a in ("num_env_runners", "num_learners") if a in axes and a in runs and runs[a].nunique() > 1), None
    )


def scaling_points(
    runs: pd.DataFrame, axis: str, others: Sequence[str]
) -> list[tuple[dict[str, object], pd.DataFrame]]:
    """Throughputs at several counts, of configurations that are alike but for the count.

    Args:
        runs: As `analysis.load` gives them.
        axis: The column that counts. 0, the trial's own process, is no count.
        others: The other searched columns.

    Returns:
        What the configurations have in common, searched column to value (empty if the count is all that was searched),
        and a row a trial: `config`, `num`, `env_steps_per_s`, `block` (the seed).
    """
    finished = conclusive(runs)
    return _points(finished[finished[axis] >= 1], axis, others)


def own_process_points(
    runs: pd.DataFrame, axis: str, others: Sequence[str]
) -> list[tuple[dict[str, object], pd.DataFrame]]:
    """Throughputs without any of what is counted: the trial's own process samples, or learns.

    Args:
        runs: As `analysis.load` gives them.
        axis: The column that counts.
        others: The other searched columns.

    Returns:
        As `scaling_points`, of the count 0; empty where it was not measured.
    """
    finished = conclusive(runs)
    none = finished[finished[axis] == 0]
    return _points(none, axis, others) if len(none) else []


def _points(finished: pd.DataFrame, axis: str, others: Sequence[str]) -> list[tuple[dict[str, object], pd.DataFrame]]:
    measured = finished[finished["env_steps_per_s"].notna()]
    columns = {"config": "config", axis: "num", "env_steps_per_s": "env_steps_per_s", "seed": "block"}
    return [
        (settings, part[list(columns)].rename(columns=columns).astype({"num": int}).reset_index(drop=True))
        for settings, part in alike(measured, others)
    ]


def staleness(curves: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """How old samples are when they are trained on, beside the throughput, of configurations that log it.

    Args:
        curves: As `analysis.load` gives them.
        runs: The trials of these curves, as `analysis.load` gives them.

    Returns:
        `config`, `algorithm`, `num_seeds`; `staleness_updates`, the mean over a trial's reports but the first, and over
        seeds, and `env_steps_per_s`, both with intervals.
    """
    finished = conclusive(runs)
    points = curves[(curves["metric"] == "learner/staleness_updates") & curves["run_id"].isin(finished["run_id"])]
    points = points[points.groupby("run_id", observed=True).cumcount() > 0]
    updates, speeds = (
        [f"{measure}{end}" for end in ("", "_low", "_high")] for measure in ("staleness_updates", "env_steps_per_s")
    )
    columns = ["config", "algorithm", "num_seeds", *updates, *speeds]
    if points.empty:
        return pd.DataFrame(columns=columns)
    of_run = points.groupby("run_id", observed=True)["value"].mean()
    stale = finished[finished["run_id"].isin(of_run.index)].copy()
    stale["staleness_updates"] = stale["run_id"].map(of_run).astype(float)
    matrix = by_seed(stale, "staleness_updates")
    found = moderated_intervals(matrix.to_numpy(), (0.0, np.inf))
    known = stale.drop_duplicates("config").set_index("config")["algorithm"]
    table = pd.DataFrame({"config": matrix.index, "num_seeds": found.num_seeds, **found.columns("staleness_updates")})
    table["algorithm"] = [known[config] for config in matrix.index]
    return table.astype({"config": runs["config"].dtype}).merge(summarise(runs)[["config", *speeds]], on="config")[
        columns
    ]


def pareto(summary: pd.DataFrame) -> pd.DataFrame:
    """Which configurations of an environment are not beaten in both env steps and seconds to target.

    Args:
        summary: As `convergence.summarise` gives it.

    Returns:
        The configurations with seeds that reach the target: `config`, `env_steps_to_target` and `seconds_to_target`
        with intervals, `on_front`, `num_seeds`, `num_reached`. By the estimates: neighbours whose intervals overlap
        may change places. On the front are those that reach the target on most seeds, if there are any.
    """
    both = ["env_steps_to_target", "seconds_to_target"]
    columns = [
        "config",
        "env",
        *(f"{name}{end}" for name in both for end in ("", "_low", "_high")),
        "num_seeds",
        "num_reached",
    ]
    table = summary.loc[summary["num_reached"] > 0, columns].reset_index(drop=True)
    costs, env = table[both].to_numpy(dtype=float), table.pop("env").to_numpy()
    same_env = env[None] == env[:, None]
    no_worse = (costs[None] <= costs[:, None]).all(axis=2)
    better = (costs[None] < costs[:, None]).any(axis=2)
    most = (2 * table["num_reached"] > table["num_seeds"]).to_numpy(dtype=bool)
    counts = most | ~(same_env & most[None]).any(axis=1)
    table["on_front"] = counts & ~(same_env & no_worse & better & counts[None]).any(axis=1)
    return table
