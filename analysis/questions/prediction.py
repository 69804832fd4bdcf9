"""How fast a training run will be on some hardware, from a study of throughput, and what comes on top:
pure functions of frames.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analysis import AnalysisError
from analysis.evidence import conclusive
from analysis.questions import scaling_laws
from analysis.stats.interval import Interval, prediction_interval
from experiments.contract import MAX_REPORTS, TIME_PARTS
from experiments.contract.words import plural

SEED = 0
"""Of the draws behind a fit: the same study gives the same prediction."""

OWN_PROCESS = "in the trial's own process"
"""Where samples come from without env runners."""
_RUNNERS = ("env_step", "inference", "connectors", "waiting")
"""Parts of the wall-clock that more runners share among them; the others stay as they are."""
_WORDS = {
    "env_step": "stepping environments",
    "inference": "policy inference",
    "connectors": "connectors and episodes",
    "transfer": "moving data",
    "waiting": "waiting for the slowest runner",
    "learn": "learner updates",
    "sync": "syncing weights",
}


@dataclass(frozen=True)
class Target:
    """A run to be predicted.

    Attributes:
        env_steps: To sample.
        num_env_runners: 0: the trial's own process samples.
        num_envs_per_env_runner: None: any that was measured.
        hardware: The profile's name; "" for none.
        gpu: Whether the profile's learner has a GPU.
        several_learners: Whether it has more than one.
        batch_env_steps: Env steps of a training batch; None: the largest that was measured.
    """

    env_steps: float
    num_env_runners: int
    num_envs_per_env_runner: int | None = None
    hardware: str = ""
    gpu: bool = False
    several_learners: bool = False
    batch_env_steps: int | None = None


@dataclass(frozen=True)
class Prediction:
    """The prediction of a run. Ends are of 95% prediction intervals.

    Attributes:
        env_steps_per_s: Predicted throughput.
        training_h: Hours of `env_steps` at that throughput.
        limit: The part of the time that limits it, in words.
        limit_share: That part's share of the time.
        most_env_steps_per_s: Throughput that no number of runners exceeds, while the rest stays as it is; where
            learners are to be on other hardware than was measured, while they take no time. No interval exceeds it.
        extrapolated: Why it is one; empty if the count was measured, on cores enough for it.
        config: What it rests on: the measured setting closest to the target.
        num_seeds: Of it.
        is_bound: Whether more runners are asked for than were measured, on cores enough: what binds there may not
            have shown here. Then the ends are bounds, from none of the further runners helping to the most that the
            serial part allows, and the estimate is no more likely than others between them.
    """

    env_steps_per_s: Interval
    training_h: Interval
    limit: str
    limit_share: float
    most_env_steps_per_s: float
    extrapolated: tuple[str, ...]
    config: str
    num_seeds: int
    is_bound: bool = False


@dataclass(frozen=True)
class Beside:
    """The time that trials with a budget spent beside training, on evaluations, reports and checkpoints.

    Attributes:
        report_s: Seconds for each report, with its 95% prediction interval.
        every_env_steps: Spacing of the reports.
        num_trials: That say so.
        study: Which one, as MLflow names it.
    """

    report_s: Interval
    every_env_steps: int
    num_trials: int
    study: str

    def num_reports(self, env_steps: float) -> int:
        """Of a run: spaced as in these trials, or wider where they would be more than a curve may have."""
        return min(MAX_REPORTS, math.ceil(env_steps / self.every_env_steps))

    def hours(self, env_steps: float) -> Interval:
        """Of a run, its evaluations as many and as long as those of these trials."""
        reports = self.num_reports(env_steps)
        return Interval(*(reports * seconds / 3600 for seconds in astuple(self.report_s)))


def beside_training(runs: pd.DataFrame, curves: pd.DataFrame, study: str) -> Beside | None:
    """The time that trials spend beside training; None if none of these trained to its budget.

    Args:
        runs: As `analysis.load` gives them: one algorithm on one environment.
        curves: Likewise, with the metric `progress/env_steps`.
        study: Their name.
    """
    finished = conclusive(runs)
    reports = (
        curves[curves["metric"] == "progress/env_steps"]
        .groupby("run_id", observed=True)["env_steps"]
        .agg(["count", "max"])
    )
    trials = finished[finished["run_id"].isin(reports.index)].set_index("run_id")
    seconds = (trials["wall_s"] - trials["train_s"]) / reports["count"].reindex(trials.index)
    seconds = seconds[seconds > 0]
    if seconds.empty or (runs["phase"] == "throughput").any():
        return None
    logs = np.log(seconds.to_numpy(float))
    log_s = prediction_interval(logs) if len(logs) > 1 else Interval(float(logs[0]), math.nan, math.nan)
    spacing = reports.loc[seconds.index, "max"] / reports.loc[seconds.index, "count"]
    return Beside(Interval(*map(math.exp, astuple(log_s))), int(spacing.median()), len(seconds), study)


def predict(
    runs: pd.DataFrame, curves: pd.DataFrame, target: Target, facts: Mapping[str, Mapping[str, Any]]
) -> Prediction:
    """Predict a run from a study of throughput.

    Where the count was measured, or lies between measured ones, and the measuring machine had a core for each process,
    the fitted laws of `scaling_laws` say what a new measurement would give. Else its cores would limit the prediction
    and not the target's. Then the parts of the wall-clock say it: what runners do is shared among them, the rest stays
    as it is (Amdahl's law, with the share that was measured and not fitted). Its lower end is that of the fitted law
    where this is lower: what grows with the count looks like too few cores.

    Args:
        runs: As `analysis.load` gives them: one algorithm on one environment.
        curves: Of these trials, as `analysis.load` gives them.
        target: What is to be run.
        facts: As the study recorded them.

    Raises:
        AnalysisError: The study cannot say; the message says what is missing.
    """
    finished = conclusive(runs)
    counted = (
        finished[finished["num_env_runners"] >= 1]
        if target.num_env_runners
        else finished[finished["num_env_runners"] == 0]
    )
    if counted.empty:
        what = "with an env runner of its own" if target.num_env_runners else "without env runners"
        raise AnalysisError(f"no trial {what} finished.")
    reasons = []
    measured_envs = sorted(counted["num_envs_per_env_runner"].astype(int).unique())
    envs = target.num_envs_per_env_runner or measured_envs[-1]
    nearest = min(measured_envs, key=lambda n: (abs(math.log(n / envs)), n))
    if nearest != envs:
        reasons.append(
            f"{envs} envs per env runner were not measured; taken as {nearest}, the closest of {_listed(measured_envs)}"
        )
    alike = counted[counted["num_envs_per_env_runner"] == nearest]
    batch, other = _batch_of(alike, target)
    if batch is not None:
        alike = alike[alike[_BATCH] == batch]
    reasons += [other] if other else []
    cores = max((int(f["num_cpus"]) for f in facts.values() if f.get("num_cpus")), default=0)
    waits = _waits(curves, alike, cores)
    roomy = alike if waits or not cores else alike[alike["num_env_runners"] + 1 <= max(cores, 2)]
    most = int(alike["num_env_runners"].max())
    if target.num_env_runners > most:
        reasons.append(f"{target.num_env_runners} env runners, of which at most {most} were measured")
    beyond_cores = len(roomy) < len(alike) and target.num_env_runners > int(roomy["num_env_runners"].max())
    if beyond_cores:
        reasons.append(f"the measuring machine has {cores} cores, too few for that many processes that compute")
    if target.gpu:
        reasons.append("learners were measured without the GPUs of the profile")
    if target.several_learners:
        reasons.append("the profile has several learners, and one was measured")
    parts = _parts(curves, roomy)
    base = int(parts["num_env_runners"].iloc[0])
    by_parts, limit, share, most_speed = _by_parts(parts, base, target.num_env_runners)
    law = _by_law(alike, target.num_env_runners) if target.num_env_runners else None
    if law is None:
        speed = by_parts
        if target.num_env_runners != base:
            reasons.append(
                f"too few counts for a fit: from the parts of the time at {plural(base, 'env runner')} alone"
            )
    elif beyond_cores or target.num_env_runners > most:
        estimate = (by_parts if beyond_cores else law).estimate
        speed = Interval(estimate, min(law.low, by_parts.low), max(law.high, by_parts.high))
    else:
        speed = law
    if target.gpu or target.several_learners:  # the learner's part may shrink to nothing
        without, *_, most_speed = _by_parts(parts.assign(learn=0.0), base, target.num_env_runners)
        speed = replace(speed, high=max(speed.high, without.high))
    is_bound = beyond_cores or target.num_env_runners > most
    if reasons:
        most_speed = max(most_speed, speed.estimate)
        speed = replace(speed, high=np.fmin(speed.high, most_speed))
        if is_bound:
            largest = roomy[roomy["num_env_runners"] == roomy["num_env_runners"].max()]
            speed = replace(speed, low=np.fmin(speed.low, largest["env_steps_per_s"].min()))
    else:  # what was measured may be above what the mean of the parts lets expect
        most_speed = max(most_speed, speed.estimate, *([speed.high] if math.isfinite(speed.high) else []))
    counts = _listed(sorted(alike["num_env_runners"].astype(int).unique()))
    return Prediction(
        env_steps_per_s=speed,
        training_h=Interval(*(target.env_steps / rate / 3600 for rate in (speed.estimate, speed.high, speed.low))),
        limit=limit,
        limit_share=share,
        most_env_steps_per_s=most_speed,
        extrapolated=tuple(reasons),
        config=(
            f"{plural(nearest, 'env')} "
            f"{'per env runner, ' + counts + ' env runners' if target.num_env_runners else OWN_PROCESS}"
            f"{'' if batch is None else f', batches of {batch:,}'}"
        ),
        num_seeds=int(alike["seed"].nunique()),
        is_bound=is_bound,
    )


_BATCH = "train_batch_size_total"


def _batch_of(runs: pd.DataFrame, target: Target) -> tuple[int | None, str]:
    """The measured batch that is closest to the target's, and what to say where it is another one: a batch shares out
    what each iteration takes, whatever its size. None where the study did not record it.
    """
    measured = sorted(runs[_BATCH].dropna().astype(int).unique()) if _BATCH in runs else []
    if not measured:
        return None, ""
    batch = target.batch_env_steps or measured[-1]
    nearest = min(measured, key=lambda n: (abs(math.log(n / batch)), n))
    other = f"batches of {batch:,} were not measured; taken as {nearest:,}, the closest of {_listed(measured)}"
    return nearest, "" if nearest == batch else other


def _waits(curves: pd.DataFrame, runs: pd.DataFrame, cores: int) -> bool:
    """True if runners wait for their environments most of the time, so that cores do not matter."""
    points = curves[(curves["metric"] == "system/machine_cpu_percent") & curves["run_id"].isin(runs["run_id"])]
    largest = runs.loc[runs["num_env_runners"] == runs["num_env_runners"].max(), "run_id"]
    of_largest = points.loc[points["run_id"].isin(largest), "value"]
    return bool(len(of_largest) and of_largest.median() < 80 and int(runs["num_env_runners"].max()) + 1 > cores)


def _parts(curves: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Seconds of each part per env step, a row a trial, of the largest count."""
    at = runs[runs["num_env_runners"] == runs["num_env_runners"].max()].set_index("run_id")
    metrics = {f"time/{part}_share": part for part in TIME_PARTS if part != "evaluation"}
    points = curves[curves["run_id"].isin(at.index) & curves["metric"].isin(metrics)]
    is_first = points["env_steps"] == points.groupby("run_id", observed=True)["env_steps"].transform("min")
    points = points[~is_first]  # it holds the warm-up
    shares = points.astype({"run_id": str, "metric": str}).pivot_table(
        index="run_id", columns="metric", values="value", aggfunc="mean"
    )
    if shares.empty:
        raise AnalysisError("the study does not say where its time went.")
    shares = shares.rename(columns=metrics).reindex(columns=list(metrics.values())).fillna(0.0)
    # What goes by between training steps is left out of the throughput.
    shares = shares.drop(columns="logging").div(shares.drop(columns="logging").sum(axis=1), axis=0)
    seconds = shares.div(at.loc[shares.index, "env_steps_per_s"], axis=0)
    return seconds.assign(num_env_runners=at.loc[seconds.index, "num_env_runners"].astype(int))


def _by_parts(parts: pd.DataFrame, base: int, count: int) -> tuple[Interval, str, float, float]:
    """Throughput at a count with its prediction interval, what limits it, that part's share,
    and the most for any count.

    Without runners there is no other count: their parts stay as they are, and the most is with them gone all the same.
    """
    seconds = parts.drop(columns="num_env_runners")
    shared = [part for part in _RUNNERS if part in seconds]
    scaled = seconds.assign(**{part: seconds[part] * base / count for part in shared}) if count else seconds
    logs = -np.log(scaled.sum(axis=1).to_numpy())
    log_speed = prediction_interval(logs) if len(logs) > 1 else Interval(float(logs.mean()), math.nan, math.nan)
    means = scaled.mean()
    limit = str(means.drop("unexplained").idxmax())
    serial = float(seconds.drop(columns=shared).sum(axis=1).mean())
    speed = Interval(*map(math.exp, astuple(log_speed)))
    return speed, _WORDS[limit], float(means[limit] / means.sum()), 1 / serial if serial else math.inf


def _by_law(runs: pd.DataFrame, count: int) -> Interval | None:
    points = pd.DataFrame(
        {"num": runs["num_env_runners"].astype(int), "env_steps_per_s": runs["env_steps_per_s"], "block": runs["seed"]}
    )
    if points["num"].nunique() < scaling_laws.FEWEST_COUNTS:
        return None
    row = scaling_laws.fit(points, np.random.default_rng(SEED)).predict([count]).iloc[0]
    return Interval(float(row["env_steps_per_s"]), float(row["low"]), float(row["high"]))


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
