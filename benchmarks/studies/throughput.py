"""What measuring throughput costs, and whether two studies of throughput agree."""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import hydra
import numpy as np
import pandas as pd
import ray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from scipy import stats

from analysis.load import load_study
from benchmarks.support.harness import Report, Table, Usage, against, run
from experiments.config.compose import CONF, composer
from experiments.config.schema import HardwareSettings, parse
from experiments.contract.sqlite_address import sqlite_uri
from experiments.fast.env_runner import FastEnvRunner
from experiments.planning.machines import Cluster, Node
from experiments.planning.plan import plan_study
from experiments.rllib.building import build_algorithm_config
from experiments.rllib.clocks import PhaseClock
from experiments.rllib.env_runner import FastRunner
from experiments.rllib.learner import average_over_minibatches, log_kl, time_updates
from experiments.rllib.results import runner_seconds
from experiments.search.contest import Ratio, ratio, rounds
from experiments.study.cluster.ray_process import start_ray
from experiments.trial.usage.resource_usage import DRIVER, ProcessMonitor, this_process
from experiments.trial.usage.time_use import TimeUse

TARGET = 0.01
ROUNDS = 100


class _Unobserved(FastRunner):
    """A runner that does not look at the clock."""

    def sample(self, **kwargs: Any) -> Any:
        return FastEnvRunner.sample(self, **kwargs)

    def get_metrics(self) -> Any:
        return FastEnvRunner.get_metrics(self)

    def on_step_seconds(self, env_step_s: float, inference_s: float) -> None:
        pass


class _Side:
    """An algorithm that trains, with or without being measured."""

    def __init__(self, config: AlgorithmConfig, measured: bool) -> None:
        # Both sides train from one seed: with as many batches in a block they do the same work, batch by batch.
        self._batches = max(1, round(_BLOCK_ENV_STEPS / config.total_train_batch_size))
        self._algorithm = config.algo_class(config=config)
        self._algorithm.learner_group.foreach_learner(average_over_minibatches)
        self._clock, self._monitor = PhaseClock(), None
        if measured:
            for watch in (time_updates, log_kl):
                self._algorithm.learner_group.foreach_learner(watch)
            self._clock.attach(self._algorithm.metrics)
            self._monitor = ProcessMonitor({DRIVER: [this_process()]}, this_process())
        for _ in range(3):
            self._algorithm.train()

    def speed(self) -> float:
        """Env steps per second of a block, the work at its end included."""
        start, steps, use = time.perf_counter(), 0, TimeUse()
        for _ in range(self._batches):
            result = self._algorithm.train()
            steps += int(result["env_runners"]["num_env_steps_sampled"])
            if self._monitor is not None:
                use.add(runner_seconds(result["env_runners"]), 0.0)
        if self._monitor is not None:
            use.shares(time.perf_counter() - start, self._clock.take())
            self._monitor.metrics()
        return steps / (time.perf_counter() - start)


def measure(quick: bool) -> Report:
    """Run it."""
    start_ray(HardwareSettings("benchmark", num_cpus=2, num_gpus=0))  # else RLlib joins whatever runs here
    cost = {name: _cost(overrides, 4 if quick else ROUNDS) for name, overrides in _CASES.items()}
    ray.shutdown()
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        studies = [_study(Path(folder), name, quick) for name in ("first", "second")]
    pairs = _pairs(studies[0][1], studies[1][1])
    agree = int(pairs["agree"].sum())
    largest = max(1 - 1 / r.estimate for r in cost.values())
    return Report(
        name="throughput",
        title="Measuring throughput",
        compared=(
            "*Cost*: PPO on CartPole-v1 in one process, trained by the suite's own trial parts, with the clocks, "
            "the divergence and the monitor of processes that every trial has, and without them; in turns, "
            "the same batches on both sides. *Agreement*: the same study of throughput twice, one after the other."
        ),
        verdict=(
            f"Target of 1% of what is measured {against(100 * largest, 100 * TARGET, '%')} (the larger of the two). "
            f"{agree} of {len(pairs)} configurations agree: the 95% interval of the ratio of the two studies holds 1. "
            f"Over all of them the second is {np.exp(np.log(pairs['ratio']).mean()):.3f} times as fast as the first: "
            "how far the machine itself drifts in minutes, which no interval of a single study holds."
        ),
        tables=(
            Table(
                "Training without being measured, against with",
                ("", "times as fast [95% interval]", "rounds"),
                tuple((name, _precise(r), str(r.num_rounds)) for name, r in cost.items()),
                "Geometric means over rounds; Student t.",
            ),
            Table(
                "Two studies of throughput",
                ("configuration", "first, env steps/s", "second", "second / first [95% interval]", "holds 1"),
                tuple(
                    (
                        str(row["config"]),
                        f"{row['first']:,.0f}",
                        f"{row['second']:,.0f}",
                        f"{row['ratio']:.3f} [{row['low']:.3f}, {row['high']:.3f}]",
                        "yes" if row["agree"] else "no",
                    )
                    for row in pairs.to_dict("records")
                ),
                f"Geometric means over {studies[0][1]['seed'].nunique()} seeds; t on logarithms, variances pooled over "
                f"configurations. The studies took {' and '.join(f'{usage.wall_s:.0f} s' for usage, _ in studies)}.",
            ),
        ),
    )


_BLOCK_ENV_STEPS = 16_384

_CASES = {
    "2048 env steps a batch, 16 environments": [],
    "512 env steps a batch, 4 environments": [
        "algorithm.training.train_batch_size_per_learner=512",
        "algorithm.env_runners.num_envs_per_env_runner=4",
    ],
}


def _precise(found: Ratio) -> str:
    return f"{found.estimate:.4f} [{found.low:.4f}, {found.high:.4f}]"


def _cost(overrides: list[str], most: int) -> Ratio:
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        given = ["+measurement=throughput", *overrides]
        composed = composer(hydra.compose("config", overrides=given), given)({})
    composed = {**composed, "study": {**composed["study"], "space": {}}}
    trial = plan_study(parse(composed), lambda _: composed, Cluster((Node(1, 0),))).configurations[0].trial(0)
    plain = build_algorithm_config(trial)
    plain.env_runners(env_runner_cls=_Unobserved)
    sides = [_Side(build_algorithm_config(trial), measured=True), _Side(plain, measured=False)]
    return ratio(rounds(sides[0].speed, sides[1].speed, most, lambda: True, lambda logs: False))


def _study(folder: Path, name: str, quick: bool) -> tuple[Usage, pd.DataFrame]:
    counts = ([1], [4, 16]) if quick else ([1, 2], [4, 16, 64])
    axes = zip(("num_env_runners", "num_envs_per_env_runner"), counts, strict=True)
    space = ",".join(f"algorithm.env_runners.{axis}:[{','.join(map(str, values))}]" for axis, values in axes)
    overrides = ["study=runner_scaling", f"study.space={{{space}}}", f"output_dir={folder / name}", "report=false"]
    usage = run(
        [sys.executable, "experiments/run.py", *overrides, *(["seeds=[0,1]"] if quick else [])], folder / f"{name}.log"
    )
    return usage, load_study(tracking_uri=sqlite_uri(folder / name / "mlflow.db"), metrics=()).runs


def _pairs(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Configuration by configuration."""
    logs = [np.log(runs.pivot(index="config", columns="seed", values="env_steps_per_s")) for runs in (first, second)]
    num = logs[0].shape[1]
    pooled = float(np.mean([of.var(axis=1, ddof=1).mean() for of in logs]))
    df = 2 * len(logs[0]) * (num - 1)
    half = float(stats.t.ppf(0.975, df) * np.sqrt(2 * pooled / num))
    means = [of.mean(axis=1) for of in logs]
    difference = (means[1] - means[0]).to_numpy()
    return pd.DataFrame(
        {
            "config": logs[0].index,
            "first": np.exp(means[0].to_numpy()),
            "second": np.exp(means[1].to_numpy()),
            "ratio": np.exp(difference),
            "low": np.exp(difference - half),
            "high": np.exp(difference + half),
            "agree": np.abs(difference) <= half,
        }
    )
