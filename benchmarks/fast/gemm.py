"""Every processor at its speed: what products of matrices reach here by torch, NumPy and oneDNN, and what learners do
with it, by the kernels that MKL takes and for bits that are the same on any processor.

    python -m benchmarks gemm
"""

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from unittest.mock import patch

from benchmarks.fast.sides import PRODUCT, flops_per_env_step
from benchmarks.fast.speed import MAIN, OF_ONE_THREAD, Case, turn_by_turn
from benchmarks.support.harness import Report, Table, ratios, spread
from experiments.limits import mkl
from experiments.limits.arithmetic import PORTABLE, Arithmetic

KERNELS: Mapping[str, Mapping[str, str]] = {
    "as shipped": {**OF_ONE_THREAD, mkl.VARIABLE: mkl.SHIPPED},
    "native": {**OF_ONE_THREAD, mkl.VARIABLE: mkl.EVERYWHERE},
    "portable": Arithmetic(1, PORTABLE).variables,
}
"""What a process is started with."""
LIBRARIES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "torch, as shipped": ("torch", KERNELS["as shipped"]),
    "torch": ("torch", KERNELS["native"]),
    "torch, portable": ("torch", KERNELS["portable"]),
    "NumPy": ("numpy", KERNELS["native"]),
    "oneDNN": ("onednn", KERNELS["native"]),
}
"""Column to what multiplies, and what its process is started with."""
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
_PRODUCT, _LEARNER, _FLOPS = "product", "learner", "flops"

Values = Mapping[tuple[str, str, str], Sequence[float]]
"""Kind, name and side to what was measured, turn by turn."""


def _flops(case: Case) -> float:
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    with patch.dict(os.environ, KERNELS["native"]), pool:
        return pool.submit(flops_per_env_step, case.function, case.settings).result()


def measure(quick: bool) -> Report:
    """Run it."""
    with patch.dict(os.environ):
        for name in {name for variables in KERNELS.values() for name in variables}:
            os.environ.pop(name, None)  # what the shell has
        return _report(_measured(quick))


def _measured(quick: bool) -> Values:
    repeats, products = (1, list(PRODUCTS)[:1]) if quick else (5, list(PRODUCTS))
    learners = {case.name: case for case in MAIN if LEARNERS.get(case.name) in products}
    found: dict[tuple[str, str, str], Sequence[float]] = {}
    for shape in products:
        settings = dict(zip(("rows", "terms", "columns"), shape, strict=True))
        turns = turn_by_turn(Case(_of(shape), PRODUCT, settings), LIBRARIES, repeats, 0.05 if quick else 0.5)
        found |= {(_PRODUCT, _of(shape), side): values for side, values in turns.items()}
    for name, case in learners.items():
        kernels = {side: ("fast", variables) for side, variables in KERNELS.items()}
        turns = turn_by_turn(case, kernels, repeats, 0.1 if quick else case.turn_s)
        found |= {(_LEARNER, name, side): values for side, values in turns.items()}
        found[_FLOPS, name, "stock"] = [_flops(case)]
    return found


def _report(values: Values) -> Report:
    learners = tuple(
        _learner(name, shape, values) for name, shape in LEARNERS.items() if (_FLOPS, name, "stock") in values
    )
    verdicts = [
        f"{name}: native {native.split()[0]} of as shipped, portable {portable.split()[0]} of native"
        for name, _, _, _, native, portable, *_ in learners
    ]
    ours = "native / as shipped", "portable / native"
    return Report(
        name="gemm",
        title="Every processor at its speed",
        compared=(
            "One thread. *As shipped*: torch as it comes. *Native*, the default: MKL takes its kernels for the "
            "processor's instructions, whoever made it (`experiments/limits/mkl.py`). *Portable*: `bits=portable`. The "
            "sides take turns, each in a warm process."
        ),
        verdict="; ".join(verdicts) + ".",
        tables=(
            Table(
                "Products of matrices, single precision",
                ("rows x terms x columns", "in", *(f"{name}, GFLOP/s" for name in LIBRARIES)),
                tuple(
                    _product(shape, what, values)
                    for shape, what in PRODUCTS.items()
                    if (_PRODUCT, _of(shape), "torch") in values
                ),
                "Median (minimum-maximum) of turns. oneDNN: torch's `_linear_pointwise`.",
            ),
            Table(
                "Learners",
                (
                    "",
                    *(f"{side}, env steps/s" for side in KERNELS),
                    *ours,
                    "kFLOP an env step",
                    "at most, env steps/s",
                    "reached",
                ),
                learners,
                "Median (minimum-maximum) of turns, with sampling. kFLOP: of torch's products of matrices in RLlib's "
                "own parts, counted by torch. at most: if all of them ran as fast as the one that the learner is "
                "mostly made of, and nothing else took time. reached: native's share of that.",
                dict.fromkeys(ours, True),
            ),
        ),
    )


def _of(shape: tuple[int, int, int]) -> str:
    return "x".join(map(str, shape))


def _product(shape: tuple[int, int, int], what: str, values: Values) -> tuple[str, ...]:
    cells = (spread([value / 1e9 for value in values[_PRODUCT, _of(shape), side]], ".0f") for side in LIBRARIES)
    return (_of(shape), what, *cells)


def _learner(name: str, shape: tuple[int, int, int], values: Values) -> tuple[str, ...]:
    found = {side: values[_LEARNER, name, side] for side in KERNELS}
    (flops,) = values[_FLOPS, name, "stock"]
    most, native = median(values[_PRODUCT, _of(shape), "torch"]) / flops, median(found["native"])
    return (
        name,
        *(spread(found[side], ",.0f") for side in KERNELS),
        ratios(found["native"], found["as shipped"]),
        ratios(found["portable"], found["native"]),
        f"{flops / 1e3:,.0f}",
        f"{most:,.0f}",
        f"{100 * native / most:.0f}%",
    )
