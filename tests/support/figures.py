"""Frames for every figure, written by hand, and what is found in a drawn one."""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex

from analysis.plots import (
    batch_tradeoff,
    best_lr,
    group_gaps,
    improvement_matrix,
    learning_curves,
    lineage,
    pareto,
    product,
    returns_by_setting,
    sample_efficiency,
    score_heatmap,
    score_profile,
    search_confirmed,
    search_progress,
    seed_scatter,
    style,
    text,
    throughput_bars,
    time_breakdown,
)
from experiments.contract import extensions
from tests.support.drawn_axes import lines_of

LRS = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
BATCHES = (512, 2000, 4000)
LONG = "algorithm.training.learner_connector_gae_lambda=0.95 train_batch_size_per_learner=4000 num_envs_per_env_runner="
TARGET = 475.0


@dataclass(frozen=True)
class Study:
    """A study's frames, as the default study would give them: learning rate x batch, 15 points a curve."""

    lrs: tuple[float, ...] = LRS
    batches: tuple[int, ...] = BATCHES
    num_seeds: int = 3
    long_names: bool = False

    @property
    def grid(self) -> list[tuple[float, int]]:
        return list(itertools.product(self.lrs, self.batches))

    def settings(self) -> pd.DataFrame:
        """A policy in several environments; with one seed there is one episode."""
        means = np.linspace(-900.0, -150.0, len(self.names))
        half = np.where(self.num_seeds > 1, 40.0, np.nan)
        return pd.DataFrame(
            {"setting": self.names, "return": means, "return_low": means - half, "return_high": means + half}
        )

    @property
    def names(self) -> list[str]:
        short = [f"lr={text.rate(lr)} b={batch}" for lr, batch in self.grid]
        return [f"{LONG}{i} {name}" for i, name in enumerate(short)] if self.long_names else short

    def frame(self, rows: list[dict[str, Any]], *columns: str) -> pd.DataFrame:
        frame = pd.DataFrame(rows)
        for column in columns or ("config",):
            frame[column] = pd.Categorical(frame[column], categories=self.names, ordered=True)
        return frame

    def with_interval(self, name: str, value: float, half: float) -> dict[str, float]:
        half = half if self.num_seeds > 1 else math.nan
        return {name: value, f"{name}_low": value - half, f"{name}_high": value + half}

    def bands(self, x: str = "env_steps") -> pd.DataFrame:
        rows = []
        for (lr, batch), name in zip(self.grid, self.names, strict=True):
            speed = 2 - abs(math.log10(lr / 3e-3))
            for step in range(4000, 60_001, 4000):
                value = 500 * (1 - math.exp(-step / 15_000 * speed))
                point = step if x == "env_steps" else step / 8000
                rows.append(
                    {
                        "config": name,
                        "lr": lr,
                        "train_batch_size_total": batch,
                        x: point,
                        **self.with_interval("value", value, 30.0),
                    }
                )
        return self.frame(rows)

    def summary(self) -> pd.DataFrame:
        rows = []
        for i, ((lr, batch), name) in enumerate(zip(self.grid, self.names, strict=True)):
            rows.append(
                {
                    "config": name,
                    "lr": lr,
                    "train_batch_size_total": batch,
                    "num_seeds": self.num_seeds,
                    "num_reached": self.num_seeds,
                    "on_front": i < 2,
                    **self.with_interval("score", 400.0 + i, 20.0),
                    **self.with_interval("env_steps_to_target", 20_000.0 + 1000 * i, 3000.0),
                    **self.with_interval("seconds_to_target", 5.0 - 0.3 * i if i < 2 else 5.0 + i, 0.5),
                    **self.with_interval("env_steps_per_s", 8000.0 + 10 * i, 200.0),
                }
            )
        return self.frame(rows)

    def runs(self) -> pd.DataFrame:
        seeds = range(self.num_seeds)
        rows = [
            {"config": name, "seed": seed, "status": "finished", "score": 400.0 + i + 5 * seed}
            for (i, name), seed in itertools.product(enumerate(self.names), seeds)
        ]
        return self.frame(rows)

    def profile(self, x: str, top: float) -> pd.DataFrame:
        rows = []
        for (i, name), at in itertools.product(enumerate(self.names), np.linspace(0, top, 21)):
            share = float(at < top * (0.5 + i / 200)) if x == "threshold" else float(at > top * (0.5 + i / 200))
            rows.append(
                {
                    "config": name,
                    x: at,
                    "share": share,
                    "share_low": max(0, share - 0.5),
                    "share_high": min(1, share + 0.5),
                }
            )
        return self.frame(rows)

    def pairs(self) -> pd.DataFrame:
        columns = ("config_a", "config_b", "probability_of_improvement", "p_adjusted")
        rows = [dict(zip(columns, (a, b, 0.75, 0.2), strict=True)) for a, b in itertools.combinations(self.names, 2)]
        return self.frame(rows, "config_a", "config_b") if rows else pd.DataFrame(columns=list(columns))

    def shares(self) -> pd.DataFrame:
        parts = {"sample": 0.5, "learn": 0.4, "sync": 0.06, "other": 0.04}
        return self.frame(
            [{"config": n, "part": part, "share": share} for n in self.names for part, share in parts.items()]
        )

    def best(self) -> pd.DataFrame:
        rows = []
        for i, batch in enumerate(self.batches):
            edges = {"at_edge": "", "low_open": False, "high_open": False}
            rate = 1e-3 * 2**i
            low, high = (rate / 2, rate * 2) if self.num_seeds > 1 else (math.nan, math.nan)
            rows.append(
                {
                    "train_batch_size_total": batch,
                    "best_lr": rate,
                    "best_lr_low": low,
                    "best_lr_high": high,
                    "grid_best_lr": 1e-3,
                    **edges,
                }
            )
        return pd.DataFrame(rows)

    def gaps(self) -> pd.DataFrame:
        groups = range(2, 6)
        return self.frame(
            [
                {"config": n, "group": g, "gap_95": (60.0 + i) / math.sqrt(g)}
                for (i, n), g in itertools.product(enumerate(self.names), groups)
            ]
        )

    def curse(self) -> pd.DataFrame:
        rows = [
            {
                "config": n,
                "is_base": i == 1,
                "searched": 450.0 - 2 * i,
                **self.with_interval("confirmed", 430.0 - 7 * i, 15.0),
            }
            for i, n in enumerate(self.names)
        ]
        return self.frame(rows)

    def progress(self) -> pd.DataFrame:
        rows = [
            {"config": n, "env_steps": 60_000.0 * (i + 1), "outcome": "finished", "score": 300.0 + i, "best": 300.0 + i}
            for i, n in enumerate(self.names)
        ]
        return self.frame(rows)

    def layouts(self) -> pd.DataFrame:
        rows = [
            {
                "config": n,
                "layout": f"{i} x 16",
                **self.with_interval("env_steps", 15_000.0 + 100 * i, 900.0),
                **self.with_interval("env_steps_per_s", 9_000.0 - 20 * i, 300.0),
                **self.with_interval("minutes", 0.03 + 1e-4 * i, 2e-3),
            }
            for i, n in enumerate(self.names)
        ]
        return self.frame(rows)

    def lineage(self) -> pd.DataFrame:
        """A member a configuration; the worst is copied from the best, and is the best of the third generation."""
        rows = []
        for generation, (i, name) in itertools.product(range(3), enumerate(self.names)):
            copied = generation == 1 and i == len(self.names) - 1
            best = i == (len(self.names) - 1 if generation else 0)
            rows.append(
                {
                    "member": i, "generation": generation, "settings": self.names[0] if copied else name,
                    "start_env_steps": 20_000 * generation, "env_steps": 20_000 * (generation + 1),
                    "status": "finished", "score": 200.0 + 100 * generation - i,
                    "parent_member": 0 if copied else i if generation else pd.NA, "copied": copied, "is_best": best,
                }
            )  # fmt: skip
        return pd.DataFrame(rows).astype({"parent_member": "Int64"})

    def tradeoff(self) -> pd.DataFrame:
        rows = []
        for batch in self.batches:
            steps = 15_000.0 * (1 + batch / 2000)
            costs = {
                **self.with_interval("env_steps_to_target", steps, 2000.0),
                **self.with_interval("updates_to_target", steps / batch, 2000 / batch),
            }
            rows.append({"train_batch_size_total": batch, **costs})
        return pd.DataFrame(rows)


@dataclass(frozen=True)
class Slope:
    estimate: float = 0.5
    low: float = 0.1
    high: float = 0.9
    reference_batch: float = 1000.0
    reference_lr: float = 2e-3


DEFAULT = Study()
SMALL = Study(lrs=LRS[:2], batches=BATCHES[:2])
FIGURES: dict[str, tuple[Callable[..., Axes], Callable[[Study], pd.DataFrame]]] = {
    "learning_curves": (learning_curves.plot, Study.bands),
    "score_heatmap": (score_heatmap.plot, Study.summary),
    "best_lr": (best_lr.plot, Study.best),
    "score_profile": (score_profile.plot, lambda study: study.profile("threshold", 500.0)),
    "sample_efficiency": (sample_efficiency.plot, lambda study: study.profile("env_steps", 60_000.0)),
    "throughput_bars": (throughput_bars.plot, Study.summary),
    "time_breakdown": (time_breakdown.plot, Study.shares),
    "pareto": (pareto.plot, Study.summary),
    "seed_scatter": (seed_scatter.plot, Study.runs),
    "improvement_matrix": (improvement_matrix.plot, Study.pairs),
    "batch_tradeoff": (batch_tradeoff.plot, Study.tradeoff),
    "group_gaps": (lambda gaps, **options: group_gaps.plot(gaps, "score", **options), Study.gaps),
    "search_confirmed": (search_confirmed.plot, Study.curse),
    "search_progress": (search_progress.plot, Study.progress),
    "lineage": (lineage.plot, Study.lineage),
    "returns_by_setting": (returns_by_setting.plot, Study.settings),
    "product": (product.plot, Study.layouts),
}
STUDIES = {
    "one configuration, one seed": Study(lrs=(1e-3,), batches=(512,), num_seeds=1),
    "one seed": replace(SMALL, num_seeds=1),
    "40 configurations": Study(
        lrs=tuple(float(lr) for lr in np.geomspace(1e-4, 1e-1, 8)), batches=(256, 512, 1024, 2048, 4096)
    ),
}
UNITS = {
    "learning_curves": ("env steps", "evaluation return"),
    "score_heatmap": ("train batch (transitions)", "learning rate"),
    "best_lr": ("train batch (transitions)", "learning rate"),
    "score_profile": ("score threshold (mean return)", "runs that score above it (%)"),
    "sample_efficiency": ("env steps", "seeds that hold the target (%)"),
    "throughput_bars": ("throughput (env steps/s)", ""),
    "time_breakdown": ("share of training time (%)", ""),
    "pareto": ("seconds to target (training time)", "env steps to target"),
    "seed_scatter": ("score (mean return of the final evaluation)", ""),
    "batch_tradeoff": ("updates to target (training batches)", "env steps to target"),
    "group_gaps": ("seeds on either side", "difference in score"),
    "search_confirmed": ("mean score in the search (return)", "mean score on held-out seeds (return)"),
    "search_progress": ("env steps spent in the search", "score (mean return)"),
    "lineage": ("env steps", "member (its seed)"),
    "returns_by_setting": ("mean return", ""),
    "product": ("seconds to target", "layout"),
    "improvement_matrix": ("a run of the row beats one of the column: probability (%)", ""),
}
"""Labels of the axes."""
for extension in extensions.found():  # its figures keep to the same rules: FIGURES and UNITS of its module `testing`
    if (extension.folder / "testing.py").is_file():
        testing = extension.load(".testing:__dict__")
        FIGURES |= testing.get("FIGURES", {})
        UNITS |= testing.get("UNITS", {})
each_figure = pytest.mark.parametrize("figure", FIGURES)


def drawn(figure: str, study: Study = DEFAULT, **options: Any) -> Axes:
    plot, frame_of = FIGURES[figure]
    return plot(frame_of(study), **options)


def patches_of(ax: Axes) -> list[Any]:
    return list(ax.patches)


def matrix_of(ax: Axes) -> Any:
    image: Any = ax.images[0]
    return np.ma.getdata(image.get_array())


def coloured(ax: Axes) -> list[Any]:
    """Lines of the data that are neither grey, nor targets, nor samples beside a label."""
    lines = [line for line in lines_of(ax) if line.get_label() and not str(line.get_label()).startswith("_")]
    return [line for line in lines if to_hex(line.get_color()) != style.GREY.lower()]


def bands(ax: Axes) -> list[PolyCollection]:
    return [c for c in ax.collections if isinstance(c, PolyCollection)]


def segments(ax: Axes) -> Iterator[Any]:
    for collection in ax.collections:
        if isinstance(collection, LineCollection):
            yield from (s for s in collection.get_segments() if len(s) and np.isfinite(s).all())
