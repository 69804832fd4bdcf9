"""A line of the plan on batches that lie on one side of the noise scales that are known."""

import math

import numpy as np

from experiments.config.extension import Past
from experiments.contract.words import labelled, plural
from experiments.planning.plan import Plan
from experiments.rllib.algorithms import rows_of_step
from science.noise_scale.intervals import ratio
from science.noise_scale.names import NOISE, SQUARE, SUFFIXES


def batch_lines(plan: Plan, past: Past) -> list[str]:
    """Which grids of batches lie on one side of all noise scales that are known: they cannot show
    where a larger batch stops paying.

    Args:
        plan: The study.
        past: The metrics of earlier trials.
    """
    grids: dict[tuple[str, str], set[int]] = {}
    for c in plan.configurations:
        grids.setdefault((c.suite.algorithm["name"], c.suite.env.name), set()).add(rows_of_step(c.suite.algorithm))
    lines = []
    for (algorithm, env), rows in grids.items():
        if len(rows) < 2 or not (known := past(algorithm, env, f"final/{SQUARE}")):
            continue
        scales = _noise_scales(known)
        below, above = all(max(rows) < low for _, low, _ in scales), all(min(rows) > high for _, _, high in scales)
        if below or above:
            side, what = (
                ("below", "a larger batch may still pay") if below else ("above", "a smaller one may do as well")
            )
            lines.append(
                labelled(
                    "batches",
                    f"{algorithm} on {env}: all of the grid, {min(rows):,} to {max(rows):,} rows "
                    f"of a gradient step, is {side} the gradient noise scale of {plural(len(known), 'earlier trial')}, "
                    f"{' and '.join(words for words, _, _ in scales)}: {what} (science/noise_scale/README.md)",
                )
            )
    return lines


def _noise_scales(known: list[dict[str, float]]) -> list[tuple[str, float, float]]:
    """Of policy and value, where they were measured apart, else of all weights: in words, and its interval,
    or the estimate twice.
    """
    found = []
    apart = [suffix for suffix in SUFFIXES if suffix and all(f"final/{SQUARE}{suffix}" in of for of in known)]
    for suffix in apart or [""]:
        square, noise = (np.array([of[f"final/{name}{suffix}"] for of in known]) for name in (SQUARE, NOISE))
        scale = ratio(square, noise, np.random.default_rng(0))
        few = math.isnan(scale.low)
        numbers = [f"{end:,.0f}" if math.isfinite(end) else "no end" for end in (scale.estimate, scale.low, scale.high)]
        words = numbers[0] if few else f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"
        ends = (scale.estimate, scale.estimate) if few else (scale.low, scale.high)
        found.append((f"{words}{suffix.replace('_', ' of the ')}", *ends))
    return found
