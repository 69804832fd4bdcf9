"""Memory of the fast parts over time: whether anything stays behind."""

import time
from typing import Any

import psutil
from scipy import stats

from benchmarks.fast.sides import Side
from benchmarks.support.harness import Report, Table

MIB = 2**20
PER_HOUR = 60
_CARTPOLE: dict[str, Any] = {"env": "CartPole-v1", "envs": 16, "width": 64}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "sampling": ("sampling", _CARTPOLE),
    "PPO": ("ppo", {**_CARTPOLE, "minibatch": 1000, "epochs": 4}),
}


def measure(quick: bool) -> Report:
    """Run it."""
    minutes = 0.1 if quick else 5.0
    sides = {name: Side(name, function, "fast", settings) for name, (function, settings) in CASES.items()}
    try:
        found = _sampled(sides, minutes)
    finally:
        for side in sides.values():
            side.end()
    rows = []
    for name, points in found.items():
        second_half = points[len(points) // 2 :]  # what is allocated once is there by then
        fit = stats.linregress([m for m, _, _ in second_half], [mib for _, mib, _ in second_half])
        half = stats.t.ppf(0.975, len(second_half) - 2) * fit.stderr
        steps = sum(rate for _, _, rate in points) / len(points) * minutes * 60
        slope, low, high = (PER_HOUR * value for value in (fit.slope, fit.slope - half, fit.slope + half))
        rows.append(
            (
                name,
                f"{steps / 1e6:.1f} M",
                f"{points[0][1]:.0f}",
                f"{points[-1][1]:.0f}",
                f"{slope:+.1f} [{low:+.1f}, {high:+.1f}]",
            )
        )
    return Report(
        name="fast_memory",
        title="Memory of the fast parts",
        compared=(
            "Resident memory of a process that samples, and of one that trains PPO, on CartPole-v1 "
            f"with 16 environments for {minutes:g} minutes, side by side. The slope is that of the second half's "
            "points, with its 95% interval."
        ),
        verdict="; ".join(f"{row[0]}: {row[-1]} MiB an hour" for row in rows) + ".",
        tables=(
            Table(
                "Memory", ("", "env steps", "first, MiB", "last, MiB", "slope, MiB/h"), tuple(rows), "One run of each."
            ),
        ),
    )


def _sampled(sides: dict[str, Side], minutes: float) -> dict[str, list[tuple[float, float, float]]]:
    """(minutes, MiB, env steps per second) of each side, some sixty times."""
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in sides}
    for side in sides.values():
        side.answer()
    start = time.monotonic()
    while (past := (time.monotonic() - start) / 60) < minutes:
        for side in sides.values():
            side.ask(minutes)  # a sixtieth
        for name, side in sides.items():
            rate = side.answer()
            found[name].append((past, psutil.Process(side.pid).memory_info().rss / MIB, rate))
    return found
