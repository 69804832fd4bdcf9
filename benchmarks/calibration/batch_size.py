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
from benchmarks.support.harness import Table
from science.batch_invariance.question import compare_with_base
from science.noise_scale.intervals import growth, ratio

SQUARE, NOISE, RISE = 1.0, 400.0, 10.0
"""The true |G|^2 and S of an early window, and how many times as large the noise scale is in a late one."""
SPREAD = 0.3
"""Standard deviation of both over seeds, by their logarithm."""
UNSURE = (0.2, 0.5, 1.0)
"""Standard deviation of what is measured of a seed's |G|^2, in |G|^2: its few measurements average out so far."""
SPAN = 500.0


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


def tables(shapes: Mapping[str, Sampler], reps: int, rng: np.random.Generator) -> list[Table]:
    """Both, for the page of calibration; a study of invariance takes twenty times as long as one of the noise scale:
    a tenth of them.
    """
    of_invariance = reps // 10
    return [
        Table(
            "Coverage of 95% intervals of the gradient noise scale, percent",
            (
                "what is measured of a seed",
                *(f"{n} seeds, {what}" for n in (5, 10) for what in ("noise scale", "how it rises")),
            ),
            tuple(
                (
                    f"squared gradient +- {100 * unsure:.0f}%",
                    *(f"{100 * share:.1f}" for n in (5, 10) for share in noise_scale_coverage(unsure, n, reps, rng)),
                )
                for unsure in UNSURE
            ),
            f"{reps} studies per cell. Seeds differ by a factor of e^{SPREAD:g} in |G|^2 and in S; "
            f"from the early window to the late one the noise scale rises {RISE:g} times.",
        ),
        Table(
            "Batch-size invariance, percent of studies",
            (
                "scores over seeds",
                *(
                    f"{n} seeds, {what}"
                    for n in (5, 10)
                    for what in ("wrongly the same", "wrongly changed", "rightly changed")
                ),
            ),
            tuple(
                (
                    name,
                    *(
                        f"{100 * share:.1f}"
                        for n in (5, 10)
                        for share in wrong_invariance(shape, n, of_invariance, rng)
                    ),
                )
                for name, shape in shapes.items()
            ),
            f"{of_invariance} studies per cell. Two smaller batches beside the base, matched seeds; "
            "differences below 5% of the range of returns are the same. wrongly the same: one is 5% below. "
            "wrongly changed: both are. At most 5 are promised of either. rightly changed: both are 20% below.",
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
