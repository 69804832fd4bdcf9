"""MKL on processors that Intel did not make.

MKL multiplies torch's matrices. Whether Intel made the processor it asks a function of its own, and where not it takes
kernels that leave wide vector units unused (AVX-512) and narrow matrices slow, and has but SSE2's for numbers that are
the same on other processors (`MKL_CBWR`). PyTorch's maintainers advise to answer it by a library of that one function,
which is preloaded (pytorch/builder, pull request 1245). Loaded for all to see before torch is, it is found first as
well; and it is written out here, since few machines that train have a compiler.
"""

import ctypes
import os
import platform
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

from experiments.limits.elf import returning_one

TOO_LATE = "torch was imported before the suite"
VARIABLE = "RL_SCALING_MKL"
"""Environment variable: anything but `everywhere`, such as `shipped`, leaves MKL as it comes."""
EVERYWHERE, SHIPPED = "everywhere", "shipped"
ASKED = "mkl_serv_intel_cpu_true"
"""MKL's function that says whether Intel made the processor."""
OTHERS = "for processors that Intel did not make"
_NOT_TOLD = 1
_BRANCHES = {
    2: OTHERS, 3: "COMPATIBLE", 4: "SSE2", 8: "SSE4.2", 9: "AVX", 10: "AVX2", 12: "AVX-512", 14: "AVX-512",
}  # fmt: skip
"""MKL's numbers of what it takes for numbers that can be had again, `MKL_CBWR_*` in its mkl_types.h."""


@cache
def answer() -> str:
    """Have MKL take its kernels for this processor's instructions, whoever made it; before torch is imported.

    Returns:
        Why MKL takes the kernels that it comes with in this process, a clause; "" if it does not. On one of Intel's
        processors they are the same.
    """
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return ""
    if (asked := os.environ.get(VARIABLE, EVERYWHERE)) != EVERYWHERE:
        return f"{VARIABLE}={asked} leaves it as it comes"
    if "torch" in sys.modules:
        return TOO_LATE
    try:
        with _file() as file:
            file.write(returning_one(ASKED))
            file.flush()
            ctypes.CDLL(f"/proc/self/fd/{file.fileno()}", mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        return f"this system loads no library that was just written ({error})"
    return ""


def _file() -> IO[bytes]:
    """Without a name; in memory, where this Python can."""
    return os.fdopen(os.memfd_create(ASKED), "wb") if hasattr(os, "memfd_create") else tempfile.TemporaryFile()


@cache
def kernels() -> str:
    """The instructions that MKL's kernels take in this process, or that they are those for other makers' processors; ""
    where torch has no MKL. Imports torch.
    """
    import torch

    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        told = library.mkl_serv_cbwr_get(1)
        branch = library.mkl_serv_cbwr_get_auto_branch() if told == _NOT_TOLD else told
        return _BRANCHES.get(branch, f"branch {branch}")
    return ""
