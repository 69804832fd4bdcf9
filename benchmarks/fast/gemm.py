"""Every processor at its speed: what products of matrices reach here by torch, NumPy and oneDNN, and what learners do
with it, by the kernels that MKL takes and for bits that are the same on any processor.

    python -m benchmarks gemm
"""

import multiprocessing
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

from benchmarks.fast.sides import PRODUCT, Side, flops_per_env_step
from benchmarks.fast.speed import MAIN, Case
from benchmarks.support.harness import Report, Table, ratios, spread, take_turns
from experiments.limits import mkl
from experiments.limits.arithmetic import PORTABLE, Arithmetic
from experiments.limits.processor import this_processor

_OF_ONE = Arithmetic(1).variables
KERNELS: Mapping[str, Mapping[str, str]] = {
    "as shipped": {**_OF_ONE, mkl.VARIABLE: mkl.SHIPPED},
    "native": {**_OF_ONE, mkl.VARIABLE: mkl.EVERYWHERE},
    "portable": Arithmetic(1, PORTABLE).variables,
}
"""What a process is started with."""
LIBRARIES: Mapping[str, tuple[str, str]] = {
    "torch, as shipped": ("torch", "as shipped"),
    "torch": ("torch", "native"),
    "torch, portable": ("torch", "portable"),
    "NumPy": ("numpy", "native"),
    "oneDNN": ("onednn", "native"),
}
"""Column to what multiplies, and how its process is started."""
PRODUCTS = {
    (1000, 64, 64): "PPO, a layer of a minibatch of 1000",
    (64, 1000, 64): "PPO, its weights' gradient",
    (1000, 64, 2): "PPO, the head",
    (128, 64, 64): "PPO, a layer of a minibatch of 128",
    (32, 64, 64): "DQN, a layer",
    (256, 256, 256): "SAC, a layer",
    (64, 4, 64): "PPO, the first layer while it samples",
}
"""Rows, terms of each sum, and columns, to what has them."""
LEARNERS = {
    "PPO, minibatches of 1000 x 4 epochs": (1000, 64, 64),
    "PPO, minibatches of 128 x 10 epochs": (128, 64, 64),
    "DQN, prioritised": (32, 64, 64),
    "SAC, critics of SB3's shape": (256, 256, 256),
}
"""Cases of `benchmarks fast`, and the product that they are mostly made of."""


@contextmanager
def _started_with(variables: Mapping[str, str]) -> Iterator[None]:
    """For processes that start meanwhile."""
    before = dict(os.environ)
    known = {name for own in KERNELS.values() for name in own}
    for name in known:
        os.environ.pop(name, None)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in known:
            os.environ.pop(name, None)
        os.environ.update(before)


def _measured(case: Case, sides: Mapping[str, tuple[str, str]], repeats: int, turn_s: float) -> dict[str, list[float]]:
    """What each side does a second, turn by turn.

    Args:
        case: What they do.
        sides: Name to the side, and how its process is started.
        repeats: Turns.
        turn_s: At least so long.
    """
    processes: dict[str, Side] = {}
    try:
        for name, (side, started) in sides.items():
            with _started_with(KERNELS[started]):
                processes[name] = Side(f"{case.name}, {name}", case.function, side, case.settings)
        for process in processes.values():
            process.answer()

        def turn(name: str) -> float:
            processes[name].ask(turn_s)
            return processes[name].answer()

        return take_turns({name: lambda name=name: turn(name) for name in sides}, repeats)  # type: ignore[misc]
    finally:
        for process in processes.values():
            process.end()


def _flops(case: Case) -> float:
    with (
        _started_with(KERNELS["native"]),
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        return pool.submit(flops_per_env_step, case.function, case.settings).result()


def measure(quick: bool) -> Report:
    """Run it."""
    repeats, products = (1, list(PRODUCTS)[:1]) if quick else (5, list(PRODUCTS))
    reached: dict[tuple[int, int, int], dict[str, list[float]]] = {}
    for shape in products:
        names = ("rows", "terms", "columns")
        case = Case("x".join(map(str, shape)), PRODUCT, dict(zip(names, shape, strict=True)))
        found = _measured(case, LIBRARIES, repeats, 0.05 if quick else 0.5)
        reached[shape] = {name: [value / 1e9 for value in values] for name, values in found.items()}
    rows, learners = [], {case.name: case for case in MAIN if case.name in LEARNERS}
    for name, shape in LEARNERS.items():
        if shape not in reached:
            continue
        case, kernels = learners[name], {side: ("fast", side) for side in KERNELS}
        found = _measured(case, kernels, repeats, 0.1 if quick else case.turn_s)
        kflops = _flops(case) / 1e3
        most = sorted(reached[shape]["torch"])[len(reached[shape]["torch"]) // 2] * 1e6 / kflops
        rows.append(_row(name, found, kflops, most))
    processor = this_processor()
    return Report(
        name="gemm",
        title="Every processor at its speed",
        compared=(
            f"One thread of {processor.vendor}'s family {processor.family}, model {processor.model}, with "
            f"{', '.join(processor.vector_instructions)}. *As shipped*: torch as it comes. *Native*, the "
            "default: MKL takes its kernels for this processor's instructions, whoever made it "
            "(`experiments/limits/mkl.py`). *Portable*: `bits=portable`. The sides take turns, each in a warm process."
        ),
        verdict="; ".join(
            f"{row[0]}: native {row[4].split()[0]} of as shipped, portable {row[5].split()[0]} of native"
            for row in rows
        )
        + ".",
        tables=(
            Table(
                "Products of matrices, single precision",
                ("rows x terms x columns", "in", *(f"{name}, GFLOP/s" for name in LIBRARIES)),
                tuple(
                    ("x".join(map(str, shape)), PRODUCTS[shape], *(spread(found[name], ".0f") for name in LIBRARIES))
                    for shape, found in reached.items()
                ),
                f"Median (minimum-maximum) of {repeats} turns. oneDNN: torch's `_linear_pointwise`.",
            ),
            Table(
                "Learners",
                (
                    "",
                    *(f"{side}, env steps/s" for side in KERNELS),
                    "native / as shipped",
                    "portable / native",
                    "kFLOP an env step",
                    "at most, env steps/s",
                    "reached",
                ),
                tuple(rows),
                f"Median (minimum-maximum) of {repeats} turns, with sampling. kFLOP: of torch's products of matrices "
                "in RLlib's own parts, counted by torch. at most: if all of them ran as fast as the one that the "
                "learner is mostly made of, and nothing else took time. reached: native's share of that.",
            ),
        ),
    )


def _row(name: str, found: Mapping[str, list[float]], kflops: float, most: float) -> tuple[str, ...]:
    native = sorted(found["native"])[len(found["native"]) // 2]
    return (
        name,
        *(spread(found[side], ",.0f") for side in KERNELS),
        ratios(found["native"], found["as shipped"]),
        ratios(found["portable"], found["native"]),
        f"{kflops:,.0f}",
        f"{most:,.0f}",
        f"{100 * native / most:.0f}%",
    )
