"""Do the intervals of the gradient noise scale, and the test of batch-size invariance, keep their promises?

Simulated, the truth known.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.questions.claims import Verdict
from analysis.questions.convergence import MEASURES
from analysis.stats.interval import Array, Interval
from benchmarks.calibration.robustness import Sampler
from benchmarks.calibration.statistic import Statistic
from science.batch_invariance.question import compare_with_base
from science.noise_scale.intervals import growth, ratio

SQUARE, NOISE, RISE = 1.0, 400.0, 10.0
"""The true |G|^2 and S of an early window, and how many times as large the noise scale is in a late one."""
SPREAD = 0.3
"""Standard deviation of both over seeds, by their logarithm."""
UNSURE = (0.2, 0.5, 1.0)
"""Standard deviation of what is measured of a seed's |G|^2, in |G|^2: its few measurements average out so far."""
SPAN = 500.0
NOTES = (
    f"Noise scale: seeds differ by a factor of e^{SPREAD:g} in |G|^2 and in S; from the early window to the late one "
    f"it rises {RISE:g} times.",
    "Batch-size invariance: two smaller batches beside the base, matched seeds; differences below 5% of the range of "
    "returns are the same. Wrongly the same: one is 5% below; wrongly changed: both are; rightly changed: both are 20% "
    "below.",
)


def noise_scale_coverage(unsure: float, num_seeds: int, reps: int, rng: np.random.Generator) -> tuple[float, float]:
    """How often the intervals of a noise scale, and of how many times as large it is later, hold the truth."""
    held = np.zeros(2)
    for _ in range(reps):
        first, last = _measured(SQUARE, unsure, num_seeds, rng), _measured(SQUARE / RISE, unsure, num_seeds, rng)
        held += [_holds(ratio(*first, rng), NOISE / SQUARE), _holds(growth(first, last, rng), RISE)]
    return float(held[0] / reps), float(held[1] / reps)


def wrong_invariance(shape: Sampler, num_seeds: int, reps: int, rng: np.random.Generator) -> tuple[float, float, float]:
    """Studies in which two smaller batches bring other scores than the base one.

    Returns:
        How often learning is said to stay the same where one of them is 5% of the range below, which is too much; to
        change, where both are 5% below, which is just not too much; and to change where both are a fifth of the range
        below, which is right.
    """
    found = []
    for below, verdict in (((0.0, 0.05), Verdict.HOLDS), ((0.05, 0.05), Verdict.FAILS), ((0.2, 0.2), Verdict.FAILS)):
        answers = []
        for _ in range(reps):
            scores = shape(rng, (3, num_seeds)) - SPAN * np.array([[*below, 0.0]]).T
            (answer,) = (
                a
                for a in compare_with_base(_runs(scores), ["proximal_policy", "train_batch_size_total"])
                if a.measure == "score"
            )
            answers.append(answer.answer is verdict)
        found.append(float(np.mean(answers)))
    return found[0], found[1], found[2]


def statistics(shapes: Mapping[str, Sampler], reps: int, rng: np.random.Generator) -> list[Statistic]:
    """Both, for the page on calibration; a study of invariance takes twenty times as long as one of the noise scale:
    a tenth of them.
    """
    numbers, of_invariance = (5, 10), reps // 10
    scales = {(unsure, n): noise_scale_coverage(unsure, n, reps, rng) for unsure in UNSURE for n in numbers}
    answers = {
        (name, n): wrong_invariance(shape, n, of_invariance, rng) for name, shape in shapes.items() for n in numbers
    }
    same, changed = ({f"{name}; {n} seeds": shares[i] for (name, n), shares in answers.items()} for i in (0, 1))
    return [
        *(
            Statistic(
                f"Noise scale and its rise, {num} seeds",
                "95",
                {
                    f"squared gradient +- {100 * unsure:.0f}%, {what}": share
                    for (unsure, n), shares in scales.items()
                    if n == num
                    for what, share in zip(("noise scale", "its rise"), shares, strict=True)
                },
                reps,
            )
            for num in numbers
        ),
        Statistic("Batch-size invariance: wrongly the same", "at most 5", same, of_invariance, risk=True),
        Statistic("Batch-size invariance: wrongly changed", "at most 5", changed, of_invariance, risk=True),
        *(
            Statistic(
                f"Batch-size invariance: rightly changed, {num} seeds",
                "",
                {name: shares[2] for (name, n), shares in answers.items() if n == num},
                of_invariance,
            )
            for num in numbers
        ),
    ]


def _measured(square: float, unsure: float, num_seeds: int, rng: np.random.Generator) -> tuple[Array, Array]:
    true, noise = (mean * rng.lognormal(-(SPREAD**2) / 2, SPREAD, num_seeds) for mean in (square, NOISE))
    return true + unsure * square * rng.standard_normal(num_seeds), noise


def _holds(found: Interval, truth: float) -> bool:
    return found.low <= truth <= found.high


def _runs(scores: Array) -> pd.DataFrame:
    """Of scores (batches, seeds), the base last: what the question reads of a study's runs."""
    batches = [512 * (i + 1) for i in range(len(scores))]
    runs = pd.DataFrame(
        [
            {"config": f"b={batch}", "train_batch_size_total": batch, "seed": seed, "score": score, "auc": score}
            for batch, of_seeds in zip(batches, scores, strict=True)
            for seed, score in enumerate(of_seeds)
        ]
    ).astype({"config": pd.CategoricalDtype([f"b={batch}" for batch in batches])})
    ended = {
        "status": "finished",
        "env": "simulated",
        "repeat": 0,
        "exploratory": False,
        "target": np.nan,
        "env_steps_to_target": np.nan,
        "budget_env_steps": 1,
    }
    unused = dict.fromkeys({*MEASURES, "train_s", "wall_s"} - {*runs, *ended}, np.nan)
    return runs.assign(
        **ended, **unused, proximal_policy="ewma", adjusted=False, score_range_low=0.0, score_range_high=SPAN
    )
