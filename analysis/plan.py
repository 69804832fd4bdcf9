"""Predicted hours of a training run on a hardware profile, from a study of throughput."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

import conf
from analysis import AnalysisError
from analysis.document.command_line import help_asked, settings_of
from analysis.load import Study, load_study
from analysis.questions import scaling_laws
from analysis.questions.convergence import conclusive, is_measured
from analysis.stats.curves import plural
from analysis.stats.interval import Interval, prediction_interval
from experiments.metrics import TIME_PARTS

_KEYS = ("env_steps", "hardware", "num_env_runners", "num_envs_per_env_runner", "study", "algorithm", "env", "tracking_uri")
USAGE = f"python analysis/plan.py env_steps=... {' '.join(f'[{key}=...]' for key in _KEYS[1:])}"
HELP = """\
Predicts the hours of a training run on a hardware profile, from a study of throughput that was run before, for example by
python experiments/run.py study=runner_scaling.

  python analysis/plan.py env_steps=10000000 hardware=workstation [key=value ...]

  env_steps=        to sample
  hardware=         the profile; its runners and environments count unless the next two say otherwise
  num_env_runners=  runners of the run
  num_envs_per_env_runner=  environments of each; default: any that was measured
  study=            the study of throughput, by name or run id; default runner_scaling
  algorithm= env=   which of its parts, if it has several
  tracking_uri=     the store that holds it; default: outputs/mlflow.db
  --config-dir      a folder of your own, whose hardware/ may have the profile

Exit codes: 0 predicted. 2 what was measured does not allow it.
"""
SEED = 0
"""Of the draws behind a fit: the same study gives the same prediction."""

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
    """What is to be run.

    Attributes:
        env_steps: To sample.
        num_env_runners: 1 or more.
        num_envs_per_env_runner: None: any that was measured.
        hardware: The profile's name; "" for none.
        gpu: Whether the profile's learner has a GPU.
        several_learners: Whether it has more than one.
    """

    env_steps: float
    num_env_runners: int
    num_envs_per_env_runner: int | None = None
    hardware: str = ""
    gpu: bool = False
    several_learners: bool = False


@dataclass(frozen=True)
class Prediction:
    """What a run comes to. Ends are of 95% prediction intervals.

    Attributes:
        env_steps_per_s: Predicted throughput.
        hours: `env_steps` at that throughput.
        limit: The part of the time that limits it, in words.
        limit_share: That part's share of the time.
        most_env_steps_per_s: Throughput that no number of runners exceeds, while the rest stays as it is.
        extrapolated: Why it is one; empty if the count was measured, on cores enough for it.
        config: What it rests on: the measured setting closest to the target.
        num_seeds: Of it.
    """

    env_steps_per_s: Interval
    hours: Interval
    limit: str
    limit_share: float
    most_env_steps_per_s: float
    extrapolated: tuple[str, ...]
    config: str
    num_seeds: int

    def lines(self, target: Target) -> list[str]:
        """For the terminal."""
        speed, time = self.env_steps_per_s, self.hours
        known = math.isfinite(speed.low) and math.isfinite(speed.high)
        speeds = f" [{speed.low:,.0f}, {speed.high:,.0f}]" if known else ""
        hours = f" [{_hours(time.low)}, {_hours(time.high)}]" if known else ""
        ends = "95% prediction intervals" if known else "no interval from a single seed"
        found = [
            f"throughput  {speed.estimate:,.0f} env steps/s{speeds}",
            f"time        {_hours(time.estimate)}{hours} for {target.env_steps:,.0f} env steps",
            f"limit       {self.limit}, {100 * self.limit_share:.0f}% of the time; with any number of runners at most "
            f"{self.most_env_steps_per_s:,.0f} env steps/s",
            f"rests on    {self.config}, {plural(self.num_seeds, 'seed')}; {ends}",
        ]
        return found + [f"extrapolated: {reason}" for reason in self.extrapolated]


def predict(runs: pd.DataFrame, curves: pd.DataFrame, target: Target, facts: Mapping[str, Mapping[str, Any]]) -> Prediction:
    """Predict a run from a study of throughput.

    Where the count was measured, or lies between measured ones, and the measuring machine had a core for each process, the fitted laws of
    `scaling_laws` say what a new measurement would give. Else its cores would limit the prediction and not the target's. Then the parts of
    the wall-clock say it: what runners do is shared among them, the rest stays as it is (Amdahl's law, with the share that was measured and
    not fitted). Its lower end is that of the fitted law where this is lower: what grows with the count cannot be told from too few cores.

    Args:
        runs: As `analysis.load` gives them: one algorithm on one environment.
        curves: Likewise.
        target: What is to be run.
        facts: As the study recorded them.

    Raises:
        AnalysisError: The study cannot say; the message says what is missing.
    """
    finished = conclusive(runs)
    counted = finished[finished["num_env_runners"] >= 1]
    if counted.empty:
        raise AnalysisError("no trial with an env runner of its own finished: measure some (study=runner_scaling)")
    reasons = []
    measured_envs = sorted(counted["num_envs_per_env_runner"].astype(int).unique())
    envs = target.num_envs_per_env_runner or measured_envs[-1]
    nearest = min(measured_envs, key=lambda n: (abs(math.log(n / envs)), n))
    if nearest != envs:
        reasons.append(f"{envs} envs per env runner were not measured; taken as {nearest}, the closest of {_listed(measured_envs)}")
    alike = counted[counted["num_envs_per_env_runner"] == nearest]
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
    by_parts, limit, share, ceiling = _by_parts(parts, base, target.num_env_runners)
    law = _by_law(alike, target.num_env_runners)
    if law is None:
        speed = by_parts
        if target.num_env_runners != base:
            reasons.append(f"too few counts for a fit: from the parts of the time at {plural(base, 'env runner')} alone")
    elif beyond_cores or target.num_env_runners > most:
        estimate = (by_parts if beyond_cores else law).estimate
        speed = Interval(estimate, min(law.low, by_parts.low), max(law.high, by_parts.high))
    else:
        speed = law
    if target.gpu or target.several_learners:  # the learner's part may shrink to nothing
        speed = replace(speed, high=max(speed.high, ceiling * target.num_env_runners))
    counts = _listed(sorted(alike["num_env_runners"].astype(int).unique()))
    return Prediction(
        env_steps_per_s=speed,
        hours=Interval(*(target.env_steps / rate / 3600 for rate in (speed.estimate, speed.high, speed.low))),
        limit=limit,
        limit_share=share,
        most_env_steps_per_s=max(ceiling, speed.estimate),
        extrapolated=tuple(reasons),
        config=f"{plural(nearest, 'env')} per env runner, {counts} env runners",
        num_seeds=int(alike["seed"].nunique()),
    )


def _waits(curves: pd.DataFrame, runs: pd.DataFrame, cores: int) -> bool:
    """Whether runners wait for their environments most of the time, so that cores do not matter."""
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
    shares = points.astype({"run_id": str, "metric": str}).pivot_table(index="run_id", columns="metric", values="value", aggfunc="mean")
    if shares.empty:
        raise AnalysisError("the study does not say where its time went: measure anew with study=runner_scaling")
    shares = shares.rename(columns=metrics).reindex(columns=list(metrics.values())).fillna(0.0)
    # What goes by between training steps is left out of the throughput.
    shares = shares.drop(columns="logging").div(shares.drop(columns="logging").sum(axis=1), axis=0)
    seconds = shares.div(at.loc[shares.index, "env_steps_per_s"], axis=0)
    return seconds.assign(num_env_runners=at.loc[seconds.index, "num_env_runners"].astype(int))


def _by_parts(parts: pd.DataFrame, base: int, count: int) -> tuple[Interval, str, float, float]:
    """Throughput at a count with its prediction interval, what limits it, that part's share, and the most for any count."""
    seconds = parts.drop(columns="num_env_runners")
    scaled = seconds.assign(**{part: seconds[part] * base / count for part in _RUNNERS if part in seconds})
    logs = -np.log(scaled.sum(axis=1).to_numpy())
    log_speed = prediction_interval(logs) if len(logs) > 1 else Interval(float(logs.mean()), math.nan, math.nan)
    means = scaled.mean()
    limit = str(means.drop("unexplained").idxmax())
    serial = float(seconds.drop(columns=[p for p in _RUNNERS if p in seconds]).sum(axis=1).mean())
    speed = Interval(*map(math.exp, astuple(log_speed)))
    return speed, _WORDS[limit], float(means[limit] / means.sum()), 1 / serial if serial else math.inf


def _by_law(runs: pd.DataFrame, count: int) -> Interval | None:
    points = pd.DataFrame({"num": runs["num_env_runners"].astype(int), "env_steps_per_s": runs["env_steps_per_s"], "block": runs["seed"]})
    if points["num"].nunique() < scaling_laws.FEWEST_COUNTS:
        return None
    row = scaling_laws.fit(points, np.random.default_rng(SEED)).predict([count]).iloc[0]
    return Interval(float(row["env_steps_per_s"]), float(row["low"]), float(row["high"]))


def profile(name: str, config_dirs: Sequence[str] = ()) -> dict[str, Any]:
    """A hardware profile as conf/hardware has it, with what it takes over from others.

    Args:
        name: Of the profile.
        config_dirs: Folders of a person's own that may have it, as conf/ has others.

    Raises:
        AnalysisError: There is none of that name.
    """
    folders = [Path(folder).expanduser() for folder in config_dirs]
    for folder in folders:
        if not folder.is_dir():
            raise AnalysisError(f"{conf.CONFIG_DIR} {folder}: there is no such folder.")
    found = {file.stem: file for folder in (*folders, Path(conf.__file__).parent) for file in (folder / "hardware").glob("*.yaml")}
    if name not in found:
        raise AnalysisError(f"hardware={name}: there is no such profile; there are {', '.join(sorted(found))}.")
    own: dict[str, Any] = yaml.safe_load(found[name].read_text())
    inherited: dict[str, Any] = {}
    for base in own.pop("defaults", []):
        if base != "_self_":
            inherited |= profile(str(base), config_dirs)
    return inherited | own


def target_of(given: Mapping[str, str], config_dirs: Sequence[str] = ()) -> Target:
    """The command line's words.

    Args:
        given: Key to value.
        config_dirs: As for `profile`.

    Raises:
        AnalysisError: One is missing or makes no sense; names the fix.
    """
    if "env_steps" not in given:
        raise AnalysisError(f"env_steps= is missing: how many are to be sampled? Usage: {USAGE}")
    settings = profile(given["hardware"], config_dirs) if "hardware" in given else {}
    runners = _whole(given, "num_env_runners", settings.get("num_env_runners"))
    if not runners:
        where = f"hardware={given['hardware']} leaves it to the machine" if "hardware" in given else "no hardware= was given"
        raise AnalysisError(f"how many env runners? {where}: give num_env_runners=, 1 or more.")
    envs = _whole(given, "num_envs_per_env_runner", settings.get("num_envs_per_env_runner"))
    if envs is None and settings.get("total_envs"):
        envs = max(1, int(settings["total_envs"]) // runners)
    gpu, learners = bool(settings.get("num_gpus_per_learner")), int(settings.get("num_learners") or 0)
    steps = _number(given["env_steps"])
    return Target(steps, runners, envs, given.get("hardware", ""), gpu, learners > 1)


def _number(text: str) -> float:
    try:
        steps = float(text)
    except ValueError:
        steps = math.nan
    if not 0 < steps < math.inf:
        raise AnalysisError(f"env_steps={text}: must be a number above 0, such as 10000000 or 1e7.")
    return steps


def _whole(given: Mapping[str, str], key: str, otherwise: int | None) -> int | None:
    if key not in given:
        return otherwise
    if not given[key].isdecimal() or int(given[key]) < 1:
        raise AnalysisError(f"{key}={given[key]}: must be a whole number, 1 or more.")
    return int(given[key])


def measured_part(study: Study, algorithm: str | None, env: str | None) -> pd.DataFrame:
    """The trials of one algorithm on one environment.

    Raises:
        AnalysisError: The study measured no throughput, or there are several to choose from, or not the one asked for.
    """
    runs = study.runs
    if not is_measured(runs):
        raise AnalysisError(f"study={study.name} trains to a budget. Name one that measures throughput, such as study=runner_scaling.")
    for column, wanted in (("algorithm", algorithm), ("env", env)):
        there = list(runs[column].unique())
        if wanted is not None and wanted not in there:
            raise AnalysisError(f"{column}={wanted}: {study.experiment} measured {', '.join(there)}.")
        if wanted is None and len(there) > 1:
            raise AnalysisError(f"{study.experiment} measured {', '.join(there)}: choose one with {column}={there[0]}.")
        runs = runs[runs[column] == (wanted or there[0])]
    return runs


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    if help_asked(arguments):
        print(HELP, end="")
        return 0
    try:
        words, config_dirs = conf.config_dirs(arguments)
        given = settings_of(words, _KEYS, USAGE)
        target = target_of(given, config_dirs)
        study = load_study(given.get("study", "runner_scaling"), given.get("tracking_uri"))
        runs = measured_part(study, given.get("algorithm"), given.get("env"))
        found = predict(runs, study.curves, target, study.facts)
    except AnalysisError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    what = f"{runs['algorithm'].iloc[0]} on {runs['env'].iloc[0]}, {target.num_env_runners} env runners"
    what += f" x {target.num_envs_per_env_runner} envs" if target.num_envs_per_env_runner else ""
    print(f"plan        {what}{f' (hardware={target.hardware})' if target.hardware else ''}")
    for line in found.lines(target):
        print(line)
    return 0


def _hours(hours: float) -> str:
    return f"{hours:,.1f} h" if hours >= 1 else f"{60 * hours:.1f} min" if hours >= 1 / 60 else f"{3600 * hours:.0f} s"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
