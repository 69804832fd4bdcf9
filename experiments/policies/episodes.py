"""Episodes of a policy, as tables: a row for each, and a row for each environment."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.stats.interval import mean_interval
from experiments.contract import MAX_ENVS
from experiments.policies.other_environments import Variant
from experiments.policies.policy import Policy
from experiments.trial.evaluation import Evaluation

HELD_OUT, FRESH = "held-out", "fresh"
"""Env seeds of the trial's own final evaluation, and others that it never saw."""


def table(found: Evaluation, env_seeds: Sequence[int], variant: Variant, seeds: str, explore: bool) -> pd.DataFrame:
    """A row for each episode.

    Args:
        found: The episodes.
        env_seeds: Env seed of each.
        variant: The environment that they were played in.
        seeds: `HELD_OUT` or `FRESH`.
        explore: Whether the policy explored.

    Returns:
        setting, env (Gymnasium's id), seeds, explore, env_seed, place, return, length, and a column `env_config.<name>`
        for each setting. An environment with a vector entry point has one generator for all that are side by side:
        `env_seed` is its, `place` the environment's among them; elsewhere each has its own, and `place` is 0.
    """
    index = np.arange(len(env_seeds))
    one_generator = variant.env.vectorize_mode == "vector_entry_point"
    first = index - index % MAX_ENVS if one_generator else index
    return pd.DataFrame(
        {
            "setting": variant.name,
            "env": variant.env.id,
            "seeds": seeds,
            "explore": explore,
            "env_seed": np.asarray(env_seeds)[first],
            "place": index - first,
            "return": found.returns,
            "length": found.lengths,
            **{name: [value] * len(index) for name, value in variant.point.items()},
        }
    )


def fresh_episodes(policy: Policy, asked: Sequence[Variant], episodes: int, explore: bool) -> pd.DataFrame:
    """Episodes on fresh env seeds, the same in each environment, so that differences are not the seeds'.

    Args:
        policy: The policy.
        asked: The environments.
        episodes: Episodes in each.
        explore: Whether actions are drawn as in training.

    Raises:
        ConfigurationError: An environment raises.
    """
    env_seeds = policy.fresh_seeds(episodes)
    played = [(policy.evaluate(env_seeds, variant.env, explore), variant) for variant in asked]
    return pd.concat([table(found, env_seeds, variant, FRESH, explore) for found, variant in played], ignore_index=True)


def summary(episodes: pd.DataFrame) -> pd.DataFrame:
    """A row for each environment, in their order: setting, num_episodes, return with `_low` and `_high`
    (95%, Student t), return_std, return_min, return_max, length.
    """
    rows = []
    for setting, own in episodes.groupby("setting", sort=False):
        returns = own["return"]
        rows.append(
            {
                "setting": setting,
                "num_episodes": len(own),
                **mean_interval(returns).columns("return"),
                "return_std": float(returns.std(ddof=0)),
                "return_min": float(returns.min()),
                "return_max": float(returns.max()),
                "length": float(own["length"].mean()),
            }
        )
    return pd.DataFrame(rows)
