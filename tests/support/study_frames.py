"""Small hand-made `runs` and `curves`, as `analysis.load` gives them."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

BUDGET = 100_000
TARGET = 475.0
Values = Mapping[str, Sequence[float]]
Points = Sequence[tuple[int, float, float]]
"""Env steps, wall seconds, value."""


def make_runs(
    scores: Values,
    *,
    env: str = "cartpole",
    target: float = TARGET,
    score_range: tuple[float, float] = (0.0, 500.0),
    budget_env_steps: int = BUDGET,
    exclusive: bool = True,
    params: Mapping[str, Mapping[str, float]] | None = None,
    **measures: Values,
) -> pd.DataFrame:
    """Finished trials, a row for each score.

    Args:
        scores: Configuration to its scores, of the seeds 0, 1, ...
        env: Of all.
        target: NaN for an env without one.
        score_range: NaN where the env has no bound.
        budget_env_steps: Of each trial.
        exclusive: Whether each ran alone.
        params: Columns that say what a configuration is: name, then configuration, to value.
        measures: Other columns, configuration by configuration, such as `env_steps_to_target`. A configuration that
            is not given trains at 1000 env steps per second and, where its score is at the target, reaches it after
            half its budget.
    """
    rows = []
    for config, of_seeds in scores.items():
        for seed, score in enumerate(of_seeds):
            steps = budget_env_steps / 2 if score >= target else np.nan
            steps = measures.get("env_steps_to_target", {}).get(config, [steps] * len(of_seeds))[seed]
            row = {
                "run_id": f"{env}/{config}/{seed}", "config": config, "config_id": config, "algorithm": "ppo",
                "env": env, "hardware": "laptop", "phase": "fixed", "seed": seed, "repeat": 0, "status": "finished",
                "failure": "", "diverged": False, "exclusive": exclusive, "host": "here", "cpu": "", "gpu": "",
                "node_type": "", "exploratory": False, "trial_id": f"{config}_s{seed}".replace(" ", "_"), "parent": "",
                "copied": False, "generation": pd.NA, "start_env_steps": 0, "end_env_steps": budget_env_steps,
                "weights": f"{config}/{seed}", "reused_from": "", "restarts": 0, "reproducible": True,
                "started": pd.Timestamp("2026-01-01", tz="UTC"), "ended": pd.Timestamp("2026-01-02", tz="UTC"),
                "budget_env_steps": budget_env_steps, "target": target, "score_range_low": score_range[0],
                "score_range_high": score_range[1], "commit": "abc", "score": score, "auc": 0.8 * score,
                "env_steps_to_target": steps, "seconds_to_target": steps / 1000, "env_steps_per_s": 1000.0,
                "trained_steps_per_s": 1000.0, "disturbed_share": np.nan, "memory_mib": 480.0,
                "start_s": 0.5, "train_s": budget_env_steps / 1000, "wall_s": budget_env_steps / 1000 + 10,
                "paused_s": np.nan,
            }  # fmt: skip
            row |= {name: values[config][seed] for name, values in measures.items() if config in values}
            row |= {name: values[config] for name, values in (params or {}).items()}
            rows.append(row)
    runs = pd.DataFrame(rows)
    floats = runs.columns[runs.columns.get_loc("score") : runs.columns.get_loc("paused_s") + 1]
    return runs.astype(dict.fromkeys([*floats, "target", "score_range_low", "score_range_high"], float)).astype(
        {"config": pd.CategoricalDtype(list(scores), ordered=True), "reproducible": "boolean", "generation": "Int64"}
    )


HELD_OUT = 1000
"""The first seed that confirms."""


def make_search(found: Values, confirmed: Values) -> pd.DataFrame:
    """A search: its trials, which ended a minute apart, seed by seed, and then those that confirm.

    Args:
        found: Configuration to its scores in the search; NaN where a scheduler stopped the trial.
        confirmed: Configuration to its scores on held-out seeds, the base last.
    """
    return _with_confirmed(
        [make_runs(found).sort_values("seed", kind="stable").assign(phase="search", exploratory=True)], confirmed
    )


def _with_confirmed(parts: list[pd.DataFrame], confirmed: Values) -> pd.DataFrame:
    """Trials of a search, and then those that confirm; they ended a minute apart."""
    if confirmed:
        of_confirmation = make_runs(confirmed).assign(phase="confirm", seed=lambda runs: runs["seed"] + HELD_OUT)
        of_confirmation["trial_id"] += "_confirm"
        parts = [
            *parts,
            of_confirmation.assign(run_id=of_confirmation["run_id"] + "/confirm").sort_values("seed", kind="stable"),
        ]
    runs = pd.concat([part.astype({"config": str}) for part in parts], ignore_index=True)
    runs["ended"] = runs["ended"] + pd.to_timedelta(np.arange(len(runs)), unit="min")
    return runs.astype({"config": pd.CategoricalDtype(list(dict.fromkeys(runs["config"])), ordered=True)})


Member = tuple[str, int | None, float]
"""Settings, the member whose weights it started from (None in the first generation),
and the score that it ended with."""
GENERATION = BUDGET // 5
"""Env steps."""


def make_population(generations: Sequence[Sequence[Member]], confirmed: Values, status: str = "failed") -> pd.DataFrame:
    """Population-based training: a trial for each generation of each member, in order, and then those that confirm.

    Args:
        generations: Each with its members, which have the seeds 0, 1, ...; the last may have fewer,
            for it has only begun.
        confirmed: As in `make_search`.
        status: Of a member whose score is NaN.
    """
    parts: list[pd.DataFrame] = []
    for g, members in enumerate(generations):
        for seed, (settings, parent, score) in enumerate(members):
            config, start = f"{settings} g={g}", g * GENERATION
            run = make_runs({config: [score]}, budget_env_steps=start + GENERATION).assign(
                seed=seed, phase="search", exploratory=True
            )
            run = run.assign(run_id=f"{g}/{seed}", trial_id=f"g{g}_s{seed}", start_env_steps=start).assign(
                generation=pd.array([g], "Int64")
            )
            if parent is not None:
                run = run.assign(parent=f"g{g - 1}_s{parent}", copied=parent != seed)
            parts.append(run if np.isfinite(score) else with_status(run, config, [seed], status))
    return _with_confirmed(parts, confirmed)


def with_status(runs: pd.DataFrame, config: str, seeds: Sequence[int], status: str) -> pd.DataFrame:
    """The same with trials of a configuration failed, running, interrupted or missing:
    nothing is known of their ends.
    """
    changed = runs.copy()
    rows = (changed["config"] == config) & changed["seed"].isin(seeds)
    changed.loc[rows, "status"] = status
    changed.loc[rows, "failure"] = "out of memory" if status == "failed" else ""
    changed.loc[rows, "end_env_steps"] = changed.loc[rows, "start_env_steps"]
    changed.loc[
        rows, ["score", "auc", "env_steps_to_target", "seconds_to_target", "env_steps_per_s", "train_s", "wall_s"]
    ] = np.nan
    if status == "missing":
        changed.loc[rows, ["run_id", "trial_id"]] = [pd.NA, ""]
    return changed


def together(*parts: pd.DataFrame) -> pd.DataFrame:
    """Studies of several envs as one; their configurations are different ones."""
    configs = [c for part in parts for c in part["config"].cat.categories]
    return pd.concat([part.astype({"config": str}) for part in parts], ignore_index=True).astype(
        {"config": pd.CategoricalDtype(configs, ordered=True)}
    )


def make_curves(runs: pd.DataFrame, curves: Mapping[tuple[str, int], Mapping[str, Points]]) -> pd.DataFrame:
    """Curves of trials.

    Args:
        runs: As `make_runs` gives them.
        curves: Configuration and seed, to metric, to points.
    """
    ids = runs.set_index(["config", "seed"])["run_id"]
    rows = [
        (ids[config, seed], config, seed, metric, env_steps, wall_s, value)
        for (config, seed), metrics in curves.items()
        for metric, points in metrics.items()
        for env_steps, wall_s, value in points
    ]
    frame = pd.DataFrame(rows, columns=["run_id", "config", "seed", "metric", "env_steps", "wall_s", "value"])
    frame.insert(3, "repeat", 0)
    dtypes = {
        "run_id": pd.CategoricalDtype(list(runs["run_id"].dropna())), "config": runs["config"].dtype, "seed": "int64",
        "repeat": "int64", "metric": "category", "env_steps": "int64", "wall_s": float, "value": float,
    }  # fmt: skip
    return frame.astype(dtypes).sort_values(["run_id", "metric", "env_steps"], ignore_index=True)


def run_again(runs: pd.DataFrame, curves: pd.DataFrame, times: int = 1) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Every trial's first run and as many repeats, all of them the same to the bit."""

    def repeat(frame: pd.DataFrame, number: int) -> pd.DataFrame:
        return frame.assign(repeat=number, run_id=frame["run_id"].astype(object).map(lambda run: f"{run}/{number}"))

    all_runs, all_curves = (
        pd.concat([frame.astype({"run_id": object}), *(repeat(frame, 1 + i) for i in range(times))], ignore_index=True)
        for frame in (runs, curves)
    )
    all_curves["run_id"] = pd.Categorical(all_curves["run_id"], categories=list(all_runs["run_id"].dropna()))
    return all_runs.astype({"run_id": runs["run_id"].dtype}), all_curves
