"""How much tuning a result needed: sensitivity to hyperparameters and their effective
dimensionality, over environments.

After Adkins, Bowling and White (2024), "A Method for Evaluating Hyperparameter Sensitivity in Reinforcement
Learning", arXiv 2412.07165. Pure functions of a table with a row a run: `algorithm`, `environment`, `setting`,
`seed`, `score`, and a column for each hyperparameter, if they are known. A setting is one choice of all
hyperparameters, the same in every environment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from analysis import AnalysisError
from analysis.evidence import conclusive
from analysis.stats.aggregates import known_means
from analysis.stats.bootstrap import redrawn_means
from analysis.stats.interval import CONFIDENCE, Array, Interval

COLUMNS = ("algorithm", "environment", "setting", "seed", "score")
SCALED = "normalized_score"
"""A column of a table that says its scores on a scale of its own, which then stands."""
PERCENTILES = (5, 95)
"""Of the mean scores of all settings of all algorithms in an environment: these become 0 and 1."""
NEAR_PEAK = 0.95
"""Of the score tuned for each environment, that the hyperparameters which have to be tuned must bring."""
DRAWS = 1000
"""Of the bootstrap."""


@dataclass(frozen=True)
class Sensitivity:
    """How much of an algorithm's score is owed to tuning for each environment. Scores are normalised.

    Attributes:
        algorithm: Its name.
        tuned: The score with the best setting of each environment, mean over environments, with its interval.
        common: The score of the setting that is best for all environments together.
        difference: The sensitivity: tuned minus common.
        held_out: The sensitivity where settings are chosen without the seed that they are judged by, mean over seeds;
            NaN with one seed.
        common_setting: The setting that is best for all environments together.
        tuned_settings: Environment to its best setting.
        by_number: For each number of hyperparameters that are tuned for each environment, the others as in the common
            setting: the best choice of so many, and its score. Empty where hyperparameters are not known.
        dimensionality: The effective dimensionality: how many have to be tuned for 95% of `tuned`; None where they are
            not known, or `tuned` is not above 0.
        num_settings: Settings that were run in all environments, of which the common one is chosen.
        num_elsewhere: Others, which an environment can be tuned to that they were run in.
        num_seeds: The fewest seeds of any of them.
    """

    algorithm: str
    tuned: Interval
    common: Interval
    difference: Interval
    held_out: float
    common_setting: str
    tuned_settings: Mapping[str, str]
    by_number: tuple[tuple[tuple[str, ...], float], ...]
    dimensionality: int | None
    num_settings: int
    num_elsewhere: int
    num_seeds: int


def of_runs(runs: pd.DataFrame, axes: Sequence[str], measure: str = "score") -> pd.DataFrame:
    """The table of a study's finished trials.

    Args:
        runs: As `analysis.load` gives them.
        axes: The searched columns of `runs`: all but environment and algorithm are hyperparameters.
        measure: `score` or `auc`.
    """
    finished = conclusive(runs)
    names = [axis for axis in axes if axis not in ("env", "algorithm") and axis in finished]
    settings = [
        " ".join(f"{name}={_text(value)}" for name, value in zip(names, row, strict=True))
        for row in finished[names].to_numpy()
    ]
    table = finished.rename(columns={"env": "environment"}).assign(setting=settings, score=finished[measure])
    return table.loc[np.isfinite(table["score"]), [*COLUMNS, *names]].reset_index(drop=True)


def checked(table: pd.DataFrame) -> pd.DataFrame:
    """A table that somebody wrote, as the functions here take it.

    Args:
        table: Environment, seed and score of each run, its setting or its hyperparameters or both, and its algorithm
            where there are several. Settings such as `lr=1e-3 batch=512` tell their hyperparameters.

    Raises:
        AnalysisError: A column is missing, or no score is a number; names it.
    """
    if missing := [name for name in ("environment", "seed", "score") if name not in table]:
        raise AnalysisError(f"the table has no column {missing[0]!r}; it has {', '.join(map(str, table.columns))}.")
    found = table.assign(score=pd.to_numeric(table["score"], errors="coerce"))
    if found["score"].isna().any():
        row = int(np.flatnonzero(found["score"].isna())[0])
        raise AnalysisError(
            f"score of row {row + 1} of the table is {table['score'].iloc[row]}: must be a number. "
            "Leave failed runs out."
        )
    if "algorithm" not in found:
        found["algorithm"] = "all"
    if SCALED in found:
        found[SCALED] = pd.to_numeric(found[SCALED], errors="coerce")
        if found[SCALED].isna().any():
            raise AnalysisError(f"{SCALED} of the table must be a number in every row.")
    names = [str(name) for name in found if name not in (*COLUMNS, SCALED)]
    if "setting" not in found:
        if not names:
            raise AnalysisError("the table has no column 'setting', nor any hyperparameters in its place.")
        found["setting"] = [
            " ".join(f"{n}={_text(v)}" for n, v in zip(names, row, strict=True)) for row in found[names].to_numpy()
        ]
    elif not names:
        found = found.join(_hyperparameters(found["setting"].astype(str)))
    texts = {name: found[name].astype(str) for name in ("algorithm", "environment", "setting")}
    return found.assign(**texts)[[*COLUMNS, *(name for name in found if name not in COLUMNS)]]


def _hyperparameters(settings: pd.Series) -> pd.DataFrame:
    """The columns of settings of the form `a=1 b=2`; no column unless all have the same keys."""
    rows = [dict(word.split("=", 1) for word in setting.split() if "=" in word) for setting in settings]
    all_words = all(len(row) == len(setting.split()) for row, setting in zip(rows, settings, strict=True))
    if not all_words or len({tuple(sorted(row)) for row in rows}) != 1:
        return pd.DataFrame(index=settings.index)
    return pd.DataFrame(rows, index=settings.index)


def normalised(table: pd.DataFrame) -> pd.DataFrame:
    """The same with scores on the scale that environments share: the percentiles of each one's settings become 0 and 1,
    unless the table says its scores on a scale of its own.

    Args:
        table: As `of_runs` or `checked` give it.

    Raises:
        AnalysisError: In an environment all settings score the same.
    """
    if SCALED in table:
        return table.assign(score=table[SCALED])
    means = table.groupby(["environment", "algorithm", "setting"])["score"].mean()
    ends = {str(env): np.percentile(of_env.to_numpy(), PERCENTILES) for env, of_env in means.groupby("environment")}
    for env, (low, high) in ends.items():
        if not high > low:
            raise AnalysisError(
                f"in {env} all settings score the same: it says nothing about tuning. "
                "Leave it out, or try more settings."
            )
    low, high = (
        table["environment"].map({env: pair[i] for env, pair in ends.items()}).to_numpy(dtype=float) for i in (0, 1)
    )
    return table.assign(score=(table["score"] - low) / (high - low))


def sensitivity(table: pd.DataFrame, rng: np.random.Generator) -> list[Sensitivity]:
    """The sensitivity of each algorithm, the best score tuned for each environment first.

    The best of several noisy means flatters: `tuned` more than `common`, and so the sensitivity, most with few seeds
    and many settings. `held_out` does not, and can be negative.

    Args:
        table: As `of_runs` or `checked` give it.
        rng: For the bootstrap.

    Raises:
        AnalysisError: There is one environment, an algorithm has no setting that was run in all, or no two, or in one
            of them all settings score the same.
    """
    if table["environment"].nunique() < 2:
        raise AnalysisError(
            "sensitivity is over environments: it takes two or more. Search env as well, or name studies of several."
        )
    scaled = normalised(table)
    found = [
        _of_algorithm(str(name), part, rng) for name, part in scaled.groupby("algorithm", sort=False, observed=True)
    ]
    return sorted(found, key=lambda one: -one.tuned.estimate)


def _of_algorithm(algorithm: str, table: pd.DataFrame, rng: np.random.Generator) -> Sensitivity:
    envs = list(dict.fromkeys(table["environment"]))
    seen = table.groupby("setting", sort=False)["environment"].nunique()
    settings, whole = list(map(str, seen.index)), int((seen == len(envs)).sum())
    if not whole or len(settings) < 2:
        raise AnalysisError(
            f"{algorithm} has {whole} of {len(seen)} settings that were run in all {len(envs)} environments: "
            "it takes one, and another anywhere. Search the same values in each; of multiples, "
            "those of a named axis such as lr_multiple."
        )
    scores = _scores(table, envs, settings)
    means = known_means(scores)
    common, best = int(np.nanargmax(means.mean(axis=0))), np.nanargmax(means, axis=1)
    numbers = np.isfinite(scores).sum(axis=2)
    names = [str(name) for name in table if name not in (*COLUMNS, SCALED)]
    by_number = (
        _by_number(means, table.drop_duplicates("setting").set_index("setting").loc[settings, names], common)
        if names
        else ()
    )
    tuned, together, difference = intervals(scores, rng)
    near = [len(some) for some, score in by_number if tuned.estimate > 0 and score >= NEAR_PEAK * tuned.estimate]
    return Sensitivity(
        algorithm,
        tuned=tuned,
        common=together,
        difference=difference,
        held_out=_held_out(scores) if numbers[numbers > 0].min() > 1 else np.nan,
        common_setting=settings[common],
        tuned_settings={env: settings[i] for env, i in zip(envs, best, strict=True)},
        by_number=by_number,
        dimensionality=min(near, default=None),
        num_settings=whole,
        num_elsewhere=len(settings) - whole,
        num_seeds=int(numbers[numbers > 0].min()),
    )


def _scores(table: pd.DataFrame, envs: Sequence[str], settings: Sequence[str]) -> Array:
    """(num_envs, num_settings, most seeds), NaN behind the last seed of each."""
    kept = table[table["setting"].isin(settings)].sort_values("seed", kind="stable")
    groups = {
        key: of_key["score"].to_numpy(dtype=float)
        for key, of_key in kept.groupby(["environment", "setting"], observed=True)
    }
    scores = np.full((len(envs), len(settings), max(map(len, groups.values()))), np.nan)
    for (env, setting), values in groups.items():
        scores[envs.index(env), settings.index(setting), : len(values)] = values
    return scores


def parts(means: Array) -> Array:
    """Tuned for each environment, best common setting, and their difference: (..., 3).

    Args:
        means: (..., num_envs, num_settings), NaN where a setting was not run: it is no common one.
    """
    tuned, common = np.nanmax(means, axis=-1).mean(axis=-1), np.nanmax(means.mean(axis=-2), axis=-1)
    return np.stack([tuned, common, tuned - common], axis=-1)


def intervals(scores: Array, rng: np.random.Generator) -> list[Interval]:
    """The three of `parts` with their intervals, by the bootstrap over the seeds of each setting in each environment.

    A maximum of noisy means is too large, and its bootstrap draws are too large once more: so ends are reflected in the
    estimate (the basic bootstrap, Davison and Hinkley 1997, section 5.2), and drawn out to it where it lies beyond
    them. Draws are spread by sqrt(n / (n - 1)), which a bootstrap of n seeds lacks. Where many settings are equally
    good they still cover too rarely, and percentiles, as in the paper, hardly ever (docs/benchmarks/calibration.md).

    Args:
        scores: (num_envs, num_settings, most seeds), NaN behind the last seed of each.
        rng: For the draws.

    Returns:
        Tuned, common, difference; ends are NaN where no setting has two seeds.
    """
    estimates = parts(known_means(scores))
    if np.isfinite(scores).sum(axis=2).max() < 2:
        return [Interval(float(value), np.nan, np.nan) for value in estimates]
    draws = [parts(means) for means in redrawn_means(scores, rng, DRAWS)]
    tail = (1 - CONFIDENCE) / 2
    low, high = 2 * estimates - np.quantile(draws, [1 - tail, tail], axis=0)
    low[2] = max(low[2], 0.0)  # tuning for each environment can't harm
    return [
        Interval(float(e), float(min(lo, e)), float(max(hi, e))) for e, lo, hi in zip(estimates, low, high, strict=True)
    ]


def _held_out(scores: Array) -> float:
    """The sensitivity judged by each seed in turn, settings chosen by the means of the others."""
    gaps = []
    for seed in range(scores.shape[2]):
        means = known_means(np.delete(scores, seed, axis=2))
        own, common = scores[..., seed], int(np.nanargmax(means.mean(axis=0)))
        gaps.append(np.mean(own[np.arange(len(own)), np.nanargmax(means, axis=1)] - own[:, common]))
    return float(np.nanmean(gaps))  # a fold in which a chosen setting has no seed left judges nothing


def _by_number(means: Array, values: pd.DataFrame, common: int) -> tuple[tuple[tuple[str, ...], float], ...]:
    """The best subset of each size to tune for each environment, and its score.

    Args:
        means: (num_envs, num_settings).
        values: A row a setting, a column a hyperparameter.
        common: The setting from which the others are taken.
    """
    same = values.eq(values.iloc[common]).to_numpy() | (
        values.isna().to_numpy() & values.iloc[common].isna().to_numpy()
    )
    found = []
    for number in range(values.shape[1] + 1):
        subsets = []
        for some in combinations(range(values.shape[1]), number):
            allowed = np.delete(same, some, axis=1).all(axis=1)
            best = float(np.nanmax(means[:, allowed], axis=1).mean())
            subsets.append((tuple(str(values.columns[i]) for i in some), best))
        found.append(max(subsets, key=lambda subset: subset[1]))
    return tuple(found)


def _text(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)  # settings with the same text are one
