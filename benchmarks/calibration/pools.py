"""Real scores to draw studies from: 60 seeds of two configurations on two environments, trials of the suite itself.

    python -m benchmarks.calibration.pools

Trials run one at a time in this process; nothing here is timed. Each is kept in `benchmarks/calibration/data/pools.csv`
when it ends, and not run again unless its settings have changed since. Budgets are small: some seeds have learned by
then, and others have not.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.stats.interval import Array
from benchmarks.support.commanded import plan_of_command
from benchmarks.support.harness import say
from benchmarks.support.kept import keep, kept
from experiments.config.trial_config import TrialConfig
from experiments.contract import FINISHED
from experiments.study.cluster.ray_process import prepare
from experiments.tracking.provenance import git_state, host
from experiments.trial.events import Ended
from experiments.trial.trainable import Trial
from experiments.trial.tune_keys import EVENTS, FOLDER, TRIAL

KEPT = Path(__file__).parent / "data" / "pools.csv"
COLUMNS = ("env", "config", "config_id", "seed", "env_steps", "score", "date", "commit", "cpu")
_KEY = ("env", "config", "seed")
NUM_SEEDS = 60
_COMMON = (
    "algorithm=ppo",
    "study=single",
    "algorithm.training.train_batch_size_per_learner=1024",
    "hardware.num_env_runners=0",
    "evaluation.episodes=1",
    f"seeds=[{','.join(map(str, range(NUM_SEEDS)))}]",
)
POOLS: Mapping[str, Sequence[str]] = {
    "cartpole": (
        "study.space={algorithm.training.lr:[1e-3,1e-2]}",
        "budget_env_steps=12000",
        "report_every_env_steps=12000",
        "checkpoint.every_env_steps=12000",
        "evaluation.final_episodes=100",
    ),
    "acrobot": (
        "study.space={algorithm.training.lr:[3e-3,1e-2]}",
        "budget_env_steps=24000",
        "report_every_env_steps=24000",
        "checkpoint.every_env_steps=24000",
        "evaluation.final_episodes=20",
    ),
}
"""Environment to the overrides of its study."""


def pools(file: Path = KEPT) -> dict[str, dict[str, Array]]:
    """Environment to configuration to the scores of its seeds, (num_seeds,), as far as they were measured."""
    rows = kept(file, COLUMNS).sort_values("seed")
    return {
        str(env): {str(config): part["score"].to_numpy(dtype=float) for config, part in of_env.groupby("config")}
        for env, of_env in rows.groupby("env")
    }


def sampler(scores: Array) -> Callable[[np.random.Generator, tuple[int, ...]], Array]:
    """Draws from the scores of a pool, with replacement: its own mean and quantiles are then the truth."""
    return lambda rng, size: rng.choice(scores, size)


def trials(env: str) -> Sequence[TrialConfig]:
    """The trials of an environment's pool, seed by seed."""
    words = [f"env={env}", *_COMMON, *POOLS[env]]
    return plan_of_command(words).trials


def missing(file: Path = KEPT) -> Iterator[TrialConfig]:
    """The trials that were not measured with their present settings."""
    known = kept(file, COLUMNS)
    there = set(zip(known["env"], known["config_id"], known["seed"], strict=True))
    for env in POOLS:
        yield from (trial for trial in trials(env) if (env, trial.config_id, trial.seed) not in there)


def score_of(trial: TrialConfig) -> float:
    """Run a trial in this process: its score.

    Raises:
        RuntimeError: It failed; says why.
    """
    with tempfile.TemporaryDirectory(prefix="pool-") as folder:
        running = Trial({TRIAL: {**trial.to_mapping(), FOLDER: folder}})
        try:
            while not (result := running.train())["done"]:
                pass
        finally:
            running.stop()
    (end,) = (event for event in result[EVENTS] if isinstance(event, Ended))
    if end.status != FINISHED:
        raise RuntimeError(f"{trial.env.name} {trial.label} s={trial.seed}: {end.reason}")
    return float(end.metrics["final/score"])


def main() -> None:
    """Run what is missing."""
    prepare()
    where = {"date": date.today().isoformat(), "commit": (git_state().commit or "unknown")[:12], "cpu": host()["cpu"]}
    for trial in list(missing()):
        score = score_of(trial)
        say(f"{trial.env.name} {trial.label} s={trial.seed}: {score:.1f}")
        row = {
            "env": trial.env.name,
            "config": trial.label,
            "config_id": trial.config_id,
            "seed": trial.seed,
            "score": round(score, 3),
        }
        keep(pd.DataFrame([{**row, "env_steps": trial.budget_env_steps, **where}]), KEPT, COLUMNS, _KEY)


if __name__ == "__main__":
    main()
