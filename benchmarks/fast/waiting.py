"""The wait of IMPALA and APPO for samples: what it gains where it saves a CPU,
and costs where an early runner idles.
"""

from benchmarks.fast.speed import Case, measured
from benchmarks.support.harness import Report, Table, ratio, ratios, spread

_RUNNERS = {
    "one runner": [0.05],
    "two even runners": [0.05, 0.05],
    "two uneven runners, 0.05 and 2 ms a step": [0.05, 2.0],
}
CASES = tuple(
    Case(f"{algorithm.upper()}, {name}", "waiting", {"algorithm": algorithm, "costs_ms": costs}, sides=("asks",))
    for algorithm in ("impala", "appo")
    for name, costs in _RUNNERS.items()
)


def measure(quick: bool) -> Report:
    """Run it."""
    repeats, cases = (1, CASES[:1]) if quick else (5, CASES)
    found = {case.name: measured(case, repeats, quick) for case in cases}
    gains = {name: ratio(sides["fast"], sides["asks"]) for name, sides in found.items()}
    return Report(
        name="fast_waiting",
        title="Waiting for samples",
        compared=(
            "*Waits*: the algorithm's loop waits for samples of all runners, 10 ms at most. "
            "*Asks*: it asks without pause, as RLlib does. Runners of 4 environments with fragments of 25 steps, "
            "whose steps wait as long as the name says."
        ),
        verdict="; ".join(f"{name}: {gain:.2f} times as fast with the wait" for name, gain in gains.items()) + ".",
        tables=(
            Table(
                "Env steps per second",
                ("", "asks", "waits", "waits / asks"),
                tuple(
                    (
                        name,
                        spread(sides["asks"], ",.0f"),
                        spread(sides["fast"], ",.0f"),
                        ratios(sides["fast"], sides["asks"]),
                    )
                    for name, sides in found.items()
                ),
                f"Median (minimum-maximum) of {repeats} turns.",
                {"waits / asks": True},
            ),
        ),
    )
