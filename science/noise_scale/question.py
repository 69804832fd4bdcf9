"""How the gradient noise scale moves over training, and whether it says where a larger batch stops paying.

Pure functions of frames.

The noise scale is S / |G|^2, in rows of a gradient step (`intervals.py`). McCandlish et al. (2018, arXiv
1812.06162) report that it rises during training, tenfold and more, and that it predicts the critical batch.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import AnalysisError
from analysis.evidence import replicates
from analysis.questions.claims import Verdict
from analysis.questions.labels import listed
from analysis.questions.learning_rate_batch import BATCH, learning_rate_axis, points, slices
from analysis.stats import critical_batch
from analysis.stats.interval import Array, Interval
from science.noise_scale.intervals import LEAST_SEEDS, apart, growth, ratio
from science.noise_scale.names import NOISE, SQUARE

NETWORKS = {"": "all weights", "_policy": "policy", "_value": "value"}
"""Suffix of the metrics to what they are of."""
WINDOWS = 5
"""Equal stretches of a trial, up to its end."""
MINIBATCH = "minibatch_size"
PUBLISHED_GROWTH = 10.0
"""Times by which the published noise scales rise, or more."""

_LEAST_BATCHES = 3
_FAR = 10.0
"""Ends of an interval this many times apart from its estimate tell nothing."""


@dataclass(frozen=True)
class Rise:
    """How the noise scale of one network moves from the first window of training to the last.

    Attributes:
        config: The configuration.
        network: Of `NETWORKS`.
        first: Noise scale of the first window, rows.
        last: Of the last one.
        factor: How many times as large the last one is, seed by seed.
        num_seeds: With measurements in both.
        verdict: That it rises.
        sentence: The answer for a report.
    """

    config: str
    network: str
    first: Interval
    last: Interval
    factor: Interval
    num_seeds: int
    verdict: Verdict
    sentence: str


@dataclass(frozen=True)
class Beside:
    """The noise scale of a network beside the critical batch that the same runs measured,
    both in rows of a gradient step.

    Attributes:
        network: Of `NETWORKS`.
        noise_scale: Over the whole training, of the runs that the critical batch rests on; NaN where there is none.
        critical_batch: From env steps to target at several batches; NaN without a fit.
        factor: noise scale / critical batch.
        verdict: `agree`, `disagree` or `can't tell`.
        sentence: The answer for a report.
    """

    network: str
    noise_scale: Interval
    critical_batch: Interval
    factor: Interval
    verdict: str
    sentence: str


def over_time(runs: pd.DataFrame, curves: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """The noise scale of each configuration and network over training.

    Args:
        runs: A study's runs, as `analysis.load` gives them.
        curves: Its points.
        rng: For the bootstrap over seeds.

    Returns:
        A row a configuration, network and window: `config`, `env`, `network`, `window` (from 0), `env_steps` (its
        middle, mean over seeds), `noise_scale` (rows; infinite where |G|^2 does not stand out) with _low and _high,
        `gradient_square`, `gradient_noise` (means over seeds), `num_seeds`. Empty where nothing was measured.
    """
    rows = []
    windows = _windows(runs, curves)
    for (config, network, window), group in windows.groupby(["config", "network", "window"], observed=True, sort=False):
        found = ratio(group[SQUARE].to_numpy(float), group[NOISE].to_numpy(float), rng)
        rows.append(
            {
                "config": config,
                "env": group["env"].iloc[0],
                "network": network,
                "window": window,
                "env_steps": float((window + 0.5) * group["end_env_steps"].mean() / WINDOWS),
                **found.columns("noise_scale"),
                SQUARE: float(group[SQUARE].mean()),
                NOISE: float(group[NOISE].mean()),
                "num_seeds": len(group),
            }
        )
    return pd.DataFrame(rows)


def rises(runs: pd.DataFrame, curves: pd.DataFrame, rng: np.random.Generator) -> list[Rise]:
    """The rise of the noise scale over training: an answer for each configuration and network.

    Args:
        runs: As `over_time`.
        curves: Of these trials, as `analysis.load` gives them.
        rng: For the bootstrap over seeds.
    """
    windows, found = _windows(runs, curves), []
    for (config, network), group in windows.groupby(["config", "network"], observed=True, sort=False):
        parts = [
            group[group["window"] == window].set_index("seed")[[SQUARE, NOISE]].astype(float)
            for window in (0, WINDOWS - 1)
        ]
        both = parts[0].index.intersection(parts[1].index)
        if len(both):
            pairs = [(part.loc[both, SQUARE].to_numpy(), part.loc[both, NOISE].to_numpy()) for part in parts]
            found.append(_rise(str(config), str(network), pairs, rng))
    return found


def beside_critical_batch(
    runs: pd.DataFrame, axes: Sequence[str], replays: bool, rng: np.random.Generator
) -> list[Beside]:
    """The noise scale beside the critical batch of the same runs: of policy and value, where they are apart,
    else of all weights.

    The unit is rows of a gradient step: minibatches where these vary, training batches where an update is one
    gradient step. Where training batches of many minibatches vary, their critical batch is that of the outer
    batch, another question.

    Args:
        runs: Of one environment.
        axes: The searched columns of `runs`.
        replays: Whether the algorithm replays its data: then E counts rows that updates processed,
            in place of env steps.
        rng: For the posterior and the bootstrap.

    Returns:
        One for each network; none where no batch varies, or no noise scale was measured.
    """
    runs = replicates(runs)
    runs = runs[runs["status"] == "finished"]
    if not (suffixes := _measured(runs)):
        return []
    with_minibatches = MINIBATCH in runs and runs[MINIBATCH].notna().any()
    varied = [
        name for name in (MINIBATCH, BATCH) if name in runs and pd.to_numeric(runs[name], errors="coerce").nunique() > 1
    ]
    if not varied:
        return []
    if with_minibatches and varied[0] != MINIBATCH:
        return _unknown(
            "The noise scale is in rows of a gradient step, here a minibatch, which does not vary. "
            "The critical batch of training batches, each of many minibatches, is another question: "
            "vary algorithm.training.minibatch_size to compare them."
        )
    return _beside(runs, axes, varied[0], replays, suffixes, rng)


def _measured(runs: pd.DataFrame) -> list[str]:
    """Suffixes of what was measured: the two networks', where they are apart, else that of all weights."""
    suffix_of = {network: suffix for suffix, network in NETWORKS.items()}
    known = [
        network
        for network, suffix in suffix_of.items()
        if (column := f"{SQUARE}{suffix}") in runs and runs[column].notna().any()
    ]
    return [suffix_of[network] for network in apart_or_all(known)]


def _windows(runs: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """Each seed's averages of both estimates: config, env, end_env_steps, seed, network,
    window, gradient_square, gradient_noise.
    """
    runs = replicates(runs)
    runs = runs[runs["status"] == "finished"]
    metrics = {f"learner/{name}{suffix}": (name, suffix) for name in (SQUARE, NOISE) for suffix in NETWORKS}
    columns = ["config", "env", "end_env_steps", "seed", "network", "window", SQUARE, NOISE]
    mine = curves[curves["metric"].isin(metrics) & curves["run_id"].isin(runs["run_id"])]
    if mine.empty:
        return pd.DataFrame(columns=columns)
    data = mine.astype({"metric": str, "run_id": str})[["run_id", "metric", "env_steps", "value"]].merge(
        runs.astype({"run_id": str})[["run_id", "config", "env", "seed", "end_env_steps"]], on="run_id"
    )
    data["estimate"] = data["metric"].map(lambda name: metrics[name][0])
    data["network"] = data["metric"].map(lambda name: NETWORKS[metrics[name][1]])
    # A report tells of what came before it.
    data["window"] = np.ceil(data["env_steps"] / data["end_env_steps"] * WINDOWS).clip(1, WINDOWS).astype(int) - 1
    keys = [name for name in columns if name not in (SQUARE, NOISE)]
    data["config"] = data["config"].cat.remove_unused_categories() if hasattr(data["config"], "cat") else data["config"]
    means = data.pivot_table(index=keys, columns="estimate", values="value", aggfunc="mean", observed=True)
    order = {word: i for i, word in enumerate(NETWORKS.values())}
    return means.reset_index().sort_values(
        "network", key=lambda names: names.map(order), kind="stable", ignore_index=True
    )


def _rise(config: str, network: str, pairs: list[tuple[Array, Array]], rng: np.random.Generator) -> Rise:
    first, last = (ratio(square, noise, rng) for square, noise in pairs)
    factor = growth(pairs[0], pairs[1], rng)
    num_seeds = len(pairs[0][0])
    verdict = Verdict.OPEN
    if factor.low > 1:
        verdict = Verdict.HOLDS
    elif factor.high < 1:
        verdict = Verdict.FAILS
    what = f"Noise scale, {network}: {rows_text(first)} in the first fifth of training, {rows_text(last)} in the last"
    if num_seeds < LEAST_SEEDS:
        sentence = f"{what}; fewer than {LEAST_SEEDS} seeds give no interval, so whether it rises can't be told."
    else:
        how = {
            Verdict.HOLDS: "It rises",
            Verdict.FAILS: "It falls, and the published rise does not hold in this range",
            Verdict.OPEN: "Whether it rises can't be told in this range",
        }
        known = math.isfinite(factor.estimate) or factor.low > 0 or math.isfinite(factor.high)
        sentence = (
            f"{what}. {how[verdict]}{f': {times_text(factor)} times as large' if known else ''} ({num_seeds} seeds)"
        )
        sentence += f"; {_against_published(factor)}." if verdict is Verdict.HOLDS else "."
    return Rise(config, network, first, last, factor, num_seeds, verdict, sentence)


def _against_published(factor: Interval) -> str:
    """How a rise compares with the published one."""
    published = f"the published {PUBLISHED_GROWTH:.0f} times and more (McCandlish et al. 2018)"
    if factor.low >= PUBLISHED_GROWTH:
        return f"{published} hold too"
    return (
        f"{published} are not reached"
        if factor.high < PUBLISHED_GROWTH
        else f"{published} are neither shown nor excluded"
    )


def _beside(
    runs: pd.DataFrame,
    axes: Sequence[str],
    column: str,
    replays: bool,
    suffixes: Sequence[str],
    rng: np.random.Generator,
) -> list[Beside]:
    """The comparison, where rows of a gradient step vary in `column`."""
    lr = learning_rate_axis(axes)
    try:
        parts = slices(runs, axes, lr, column)
        if len(parts) > 1:
            return _unknown(
                "The noise scale can't be set beside a critical batch: other settings than batch "
                "and learning rate vary as well."
            )
        data = points(runs, "env_steps_to_target", lr, column, need_lrs=False)
    except AnalysisError as error:
        return _unknown(f"The noise scale can't be set beside a critical batch: {error}.")
    data = data[data["value"].notna()]
    best = data.groupby(["batch", "lr"])["value"].mean().groupby("batch").idxmax()
    chosen = data[[pair in set(best) for pair in zip(data["batch"], data["lr"], strict=True)]]
    reached = int(chosen.groupby("batch")["reached"].any().sum())
    if reached < _LEAST_BATCHES or chosen.groupby("batch").size().max() < 2:
        why = (
            f"{reached} of {len(best)} batches reach the target, and a critical batch needs "
            f"{_LEAST_BATCHES}, of several seeds"
        )
        return _unknown(f"The noise scale can't be set beside a critical batch: {why}.")
    size = chosen["batch"].to_numpy(float)
    steps = chosen["env_steps"].to_numpy(float) * (size if replays else 1.0)
    critical, _, _ = critical_batch.fit(size, steps, chosen["reached"].to_numpy(bool), rng)
    return [_compared(suffix, _noise_of(runs.loc[chosen.index], suffix, rng), critical, size) for suffix in suffixes]


def _noise_of(chosen: pd.DataFrame, suffix: str, rng: np.random.Generator) -> Interval:
    """Over the whole training: means over the configurations of each seed, then the ratio."""
    square, noise = f"{SQUARE}{suffix}", f"{NOISE}{suffix}"
    of_seeds = chosen.groupby("seed")[[square, noise]].mean().dropna()
    return ratio(of_seeds[square].to_numpy(float), of_seeds[noise].to_numpy(float), rng) if len(of_seeds) else _NONE


def _compared(suffix: str, noise: Interval, critical: Interval, size: Array) -> Beside:
    network = NETWORKS[suffix]
    what = (
        f"In rows of a gradient step the noise scale ({network}) over the whole training "
        f"is {rows_text(noise)}, and the critical batch, "
    )
    what += f"where twice the fewest rows are needed, is {rows_text(critical)}"
    if not all(math.isfinite(end) and end > 0 for end in (noise.low, noise.estimate, noise.high)):
        words = "whether they agree can't be told, for the noise scale has no two ends"
        return Beside(network, noise, critical, _NONE, "can't tell", f"{what}: {words}.")
    factor = apart(noise, critical)
    span = f"batches from {size.min():,.0f} to {size.max():,.0f}"
    if factor.low > 1 or factor.high < 1:
        verdict, words = "disagree", f"they disagree, by a factor of {times_text(factor)}"
    elif factor.high / factor.estimate > _FAR or factor.estimate / factor.low > _FAR:
        verdict, words = "can't tell", f"whether they agree can't be told: their ratio is {times_text(factor)}"
    else:
        verdict, words = "agree", f"they agree within their intervals, ratio {times_text(factor)}"
    return Beside(network, noise, critical, factor, verdict, f"{what}: {words} ({span}).")


def _unknown(sentence: str) -> list[Beside]:
    return [Beside(NETWORKS[""], _NONE, _NONE, _NONE, "can't tell", sentence)]


_NONE = Interval(math.nan, math.nan, math.nan)


def rows_text(found: Interval) -> str:
    """Rows with their interval: `1,200 [900, 1,500] rows`; `more than 900 rows` where |G|^2 does not stand out."""
    if math.isinf(found.estimate):
        return (
            f"more than {_digits(found.low)} rows"
            if math.isfinite(found.low)
            else "more rows than these measurements can tell"
        )
    ends = f" [{_digits(found.low)}, {_digits(found.high)}]" if not math.isnan(found.low) else ""
    return f"{_digits(found.estimate)}{ends} rows"


def times_text(found: Interval) -> str:
    """A factor with its interval: `24 [8.1, 70]`; `more than 38` without an upper end."""
    if math.isinf(found.estimate):
        return f"more than {_digits(found.low)}"
    numbers = [_digits(value) for value in (found.estimate, found.low, found.high)]
    return f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"


def _digits(value: float) -> str:
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "no end"
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2g}"


def apart_or_all(networks: Iterable[str]) -> list[str]:
    """Policy and value, where they were measured apart, else all weights: those of `NETWORKS` to look at first."""
    given = set(networks)
    known = [network for network in NETWORKS.values() if network in given]
    return known[1:] or known


def across_sentences(found: Sequence[Rise]) -> list[str]:
    """In which configurations the noise scale rises, a sentence for each network."""
    words = {Verdict.HOLDS: "it rises", Verdict.FAILS: "it falls", Verdict.OPEN: "can't be told"}
    sentences = []
    for network in apart_or_all(rise.network for rise in found):
        by_verdict = {
            v: [f"`{rise.config}`" for rise in found if (rise.network, rise.verdict) == (network, v)] for v in words
        }
        parts = [f"{words[verdict]} in {listed(names)}" for verdict, names in by_verdict.items() if names]
        sentences.append(
            f"The gradient noise scale ({network}) from the first fifth of training to the last: {'; '.join(parts)}."
        )
    return sentences
