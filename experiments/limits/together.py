"""How much slower a machine's cores are while all of them work: two that a virtual machine has may be one in truth."""

import functools
import time
import zlib
from threading import Barrier, Thread

_SECONDS = 0.03
_DATA = bytes(range(256)) * 256


@functools.cache
def slowdown(num_cores: int) -> float:
    """Times as long as alone that work takes on each of several cores that work at once: 1 where they have nothing to
    share. Measured, for 60 ms.

    Args:
        num_cores: 1 or more; no more than there are.
    """
    if num_cores < 2:
        return 1.0
    alone = _rate(1)
    return max(1.0, num_cores * alone / _rate(num_cores))


def _rate(num_threads: int) -> float:
    """Units of work a second of all threads together: compressing, for which Python's lock is let go."""
    done, together = [0] * num_threads, Barrier(num_threads)

    def work(index: int) -> None:
        together.wait()
        end = time.perf_counter() + _SECONDS
        while time.perf_counter() < end:
            zlib.compress(_DATA, 1)
            done[index] += 1

    threads = [Thread(target=work, args=(index,), daemon=True) for index in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / _SECONDS
