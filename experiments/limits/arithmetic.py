"""The instructions that numbers are computed with: this processor's own, or those that processors have in common.

Torch, MKL, oneDNN, OpenBLAS, NumPy and the C library each look which processor they are on and take other kernels,
whose sums differ in their last bits; a policy that learns from them is another one after the first iteration. Each can
be told to take what x86-64 processors have had for ten years, AVX2 and FMA: a process that was started with `VARIABLES`
and runs the versions in `SEEN_WITH` gives the same bits on all of them. What it gives is compared with what was seen
(`DIGESTS`), since a variable that a library does not know is ignored without a word.
"""

import hashlib
import math
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any, Literal

from experiments.limits import mkl
from experiments.limits.processor import Processor, this_processor

Bits = Literal["native", "portable"]
NATIVE: Bits = "native"
PORTABLE: Bits = "portable"
VARIABLES: Mapping[str, str] = {
    "MKL_CBWR": "AVX2",
    mkl.VARIABLE: mkl.EVERYWHERE,
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
}
"""What a process is started with, whatever its shell has: MKL's conditional numerical reproducibility, whoever made the
processor, ATen's and oneDNN's dispatch, OpenBLAS's DYNAMIC_ARCH, and NumPy's CPU dispatcher, whose names are those of
NumPy 2.4. MKL's COMPATIBLE is not the same everywhere: it has square roots from an instruction (rsqrtps) whose digits
are the processor's own, and a quarter of AVX2's speed.
"""
SEEN_WITH: Mapping[str, str] = {"torch": "2.13.0", "numpy": "2.4.6"}
"""Versions that `DIGESTS` were seen with; a build of torch for a GPU computes the same on a CPU."""
DIGESTS: Mapping[str, str] = {
    "a product of torch's": "18671028e4795db9",
    "a large product of torch's": "b84dfba15d445de6",
    "a gradient's product of torch's": "8dd8abc0d49b354e",
    "a sum of torch's": "b4fab05e5877b9ad",
    "functions of torch's": "b06dfe887115b1e7",
    "a convolution of torch's": "aea9b901ae8d77ef",
    "a convolution of torch's, channels last": "aea9b901ae8d77ef",
    "an LSTM of torch's": "a0967845324f786d",
    "a product of NumPy's": "05c38f723a1a6678",
    "a sum of NumPy's": "776e95e51d7e1718",
    "functions of NumPy's": "d6dbd338b7147155",
    "functions of the C library's": "dacea71e36b0ae44",
}
"""Operation to the digest of its result. One that is renewed needs its reason in the same commit."""
_NEEDED = ("avx2", "fma")


class UnportableError(RuntimeError):
    """This process does not compute as all others would; names what differs, and the fix."""


@dataclass(frozen=True)
class Arithmetic:
    """How a process computes.

    Attributes:
        threads: Of torch.
        bits: `native` or `portable`.
    """

    threads: int
    bits: Bits = NATIVE

    def take(self) -> None:
        """Compute so in this process from now on.

        Raises:
            UnportableError: It was not started so that it can.
        """
        import torch

        torch.set_num_threads(self.threads)
        if self.bits == PORTABLE and (found := differences()):
            raise UnportableError(f"bits=portable: {found}")

    @property
    def variables(self) -> dict[str, str]:
        """The environment that a process needs for it."""
        threads = str(self.threads)
        counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads)
        return counts | (dict(VARIABLES) if self.bits == PORTABLE else {})


def lacking(machine: str = platform.machine(), processor: Processor | None = None) -> str:
    """What this machine lacks for portable bits, a clause; "" if nothing.

    Args:
        machine: Architecture, as `platform.machine()` has it.
        processor: Whose instructions are looked at; None: this machine's.
    """
    if platform.system() != "Linux" or machine != "x86_64":
        return f"it takes Linux on x86-64, and this is {platform.system()} on {machine}"
    missing = [name for name in _NEEDED if name not in (processor or this_processor()).flags]
    return f"this processor has no {' and no '.join(missing).upper()}" if missing else ""


def missing() -> list[str]:
    """Names of the `VARIABLES` that this process does not have."""
    return [name for name, value in VARIABLES.items() if os.environ.get(name) != value]


@cache
def differences() -> str:
    """What this process computes otherwise than was seen, a clause; "" if nothing."""
    if found := lacking():
        return found
    other = [
        f"{name} {installed}, not {version}"
        for name, version in SEEN_WITH.items()
        if (installed := metadata.version(name).partition("+")[0]) != version
    ]
    if other:
        return f"the promise is for the pinned packages, and here is {' and '.join(other)}"
    if unset := missing():
        return f"this process was started without {', '.join(unset)}"
    wrong = [name for name, digest in digests().items() if DIGESTS.get(name) != digest]
    why = f" ({mkl.answer()})" if mkl.answer() else ""
    return f"{', '.join(wrong)} came out otherwise than on the processors that were seen{why}" if wrong else ""


def digests() -> dict[str, str]:
    """Operation to the digest of what this process makes of it. Inputs need no arithmetic to be made, and nothing is
    drawn: it may be asked while a trial is built.
    """
    return {name: _digest(operation()) for name, operation in _OPERATIONS.items()}


def _digest(result: Any) -> str:
    return hashlib.sha256(result.tobytes()).hexdigest()[:16]


def _numbers(*shape: int) -> Any:
    """Single-precision numbers in [-1, 1) that look drawn (Knuth's multiplicative hash), exact on any machine."""
    import numpy as np

    hashed = np.arange(1, math.prod(shape) + 1, dtype=np.uint64) * np.uint64(2654435761) % np.uint64(1 << 24)
    return (hashed.astype(np.float32) / np.float32(1 << 23) - np.float32(1)).reshape(shape)


def _torch(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[], Any]:
    def run() -> Any:
        import torch

        with torch.no_grad():
            return function(torch, *(torch.from_numpy(_numbers(*shape)) for shape in shapes)).contiguous().numpy()

    return run


def _numpy(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[], Any]:
    def run() -> Any:
        import numpy as np

        return np.ascontiguousarray(function(np, *(_numbers(*shape) for shape in shapes)))

    return run


def _lstm(torch: Any, x: Any, weights: Any) -> Any:
    # not the module, which draws weights of its own
    of_input, of_state, *biases = weights.reshape(4, 64, 16)
    params, zeros = [of_input, of_state, *(bias[:4].flatten() for bias in biases)], torch.zeros(1, len(x), 16)
    return torch.lstm(x, (zeros, zeros), params, True, 1, 0.0, False, False, True)[0]  # one layer, batch first


def _transcendental(np: Any, x: Any) -> Any:
    x = x.astype(np.float64)
    return np.stack([np.exp(x), np.arctan2(x, x[::-1]), np.power(np.abs(x) + 0.5, x), np.sin(x), np.tanh(x)])


_OPERATIONS: Mapping[str, Callable[[], Any]] = {
    "a product of torch's": _torch(lambda torch, a, b: a @ b, (128, 64), (64, 64)),
    "a large product of torch's": _torch(lambda torch, a, b: a @ b, (1000, 64), (64, 256)),
    "a gradient's product of torch's": _torch(lambda torch, a, b: a.T @ b, (1000, 64), (1000, 64)),
    "a sum of torch's": _torch(lambda torch, a: a.sum(dim=1), (64, 1000)),
    "functions of torch's": _torch(
        lambda torch, a: torch.stack([a.exp(), a.tanh(), a.sigmoid(), a.log_softmax(dim=-1), a.abs().sqrt()]), (64, 64)
    ),
    "a convolution of torch's": _torch(
        lambda torch, a, b: torch.nn.functional.conv2d(a, b, stride=2), (4, 4, 32, 32), (16, 4, 4, 4)
    ),
    "a convolution of torch's, channels last": _torch(
        lambda torch, a, b: torch.nn.functional.conv2d(a.contiguous(memory_format=torch.channels_last), b, stride=2),
        (4, 4, 32, 32),
        (16, 4, 4, 4),
    ),
    "an LSTM of torch's": _torch(_lstm, (4, 8, 16), (4 * 64 * 16,)),
    "a product of NumPy's": _numpy(lambda np, a, b: a @ b, (256, 256), (256, 256)),
    "a sum of NumPy's": _numpy(lambda np, a: a.sum(axis=0), (1000, 64)),
    "functions of NumPy's": _numpy(_transcendental, (1000,)),
    "functions of the C library's": _numpy(
        lambda np, a: np.array([f(float(x)) for x in a for f in (math.sin, math.cos, math.exp)]), (1000,)
    ),
}
