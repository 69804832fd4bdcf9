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
from contextlib import suppress
from functools import cache
from pathlib import Path

from experiments.limits.elf import returning_one
from experiments.limits.processor import this_processor

TOO_LATE = "torch was imported before the suite"
VARIABLE = "RL_SCALING_MKL"
"""Environment variable: `shipped` leaves MKL as it comes."""
EVERYWHERE, SHIPPED = "everywhere", "shipped"
ASKED = "mkl_serv_intel_cpu_true"
"""MKL's function that says whether Intel made the processor."""
_BRANCHES = {3: "SSE2", 4: "SSE2", 8: "SSE4.2", 9: "AVX", 10: "AVX2", 12: "AVX-512", 14: "AVX-512"}
"""`mkl_cbwr_get_auto_branch`'s numbers, as mkl_types.h has them; 2 is that of a processor which Intel did not make."""
INTEL = "GenuineIntel"
OTHERS = "for processors that Intel did not make"


@cache
def answer() -> str:
    """Have MKL take its kernels for this processor's instructions, whoever made it; before torch is imported.

    Returns:
        Why MKL takes other kernels in this process all the same, a clause; "" if it does not.
    """
    if this_processor().vendor == INTEL or platform.machine() != "x86_64" or platform.system() != "Linux":
        return ""
    if os.environ.get(VARIABLE) == SHIPPED:
        return f"{VARIABLE}={SHIPPED} leaves it as it comes"
    if "torch" in sys.modules:
        return TOO_LATE
    try:
        file = os.memfd_create(ASKED)
        with os.fdopen(file, "wb") as library:
            library.write(returning_one(ASKED))
            library.flush()
            ctypes.CDLL(f"/proc/self/fd/{file}", mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        return f"this system loads no library from memory ({error})"
    return ""


@cache
def kernels() -> str:
    """The instructions that MKL's kernels take in this process, or that they are those for other makers' processors; ""
    where torch has no MKL. Imports torch.
    """
    import torch

    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        return _BRANCHES.get(library.mkl_serv_cbwr_get_auto_branch(), OTHERS)
    return ""
