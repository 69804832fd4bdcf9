"""What processes compute that were started with some variables, here and on emulated processors."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from experiments.limits.arithmetic import DIGESTS, PORTABLE, Arithmetic
from experiments.limits.processor import this_processor
from experiments.planning.emulated import EMULATOR
from tests.support.suite import ROOT

PORTABLY = Arithmetic(1, PORTABLE).variables
_ASKED = (
    "import json; from experiments.limits import arithmetic as a; print(json.dumps([a.digests(), a.differences()]))"
)


def _emulates_avx2() -> bool:
    """Whether there is a QEMU that has AVX2, which came with 7.2."""
    if shutil.which(EMULATOR) is None:
        return False
    said = subprocess.run([EMULATOR, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"version (\d+)\.(\d+)", said)
    return found is not None and (int(found[1]), int(found[2])) >= (7, 2)


emulated = pytest.mark.skipif(not _emulates_avx2(), reason=f"needs {EMULATOR} 7.2 or later: apt install qemu-user")


def printed(code: str, variables: Mapping[str, str], by: Sequence[str] = ()) -> Any:
    """What a process of its own prints as JSON.

    Args:
        code: Of Python.
        variables: Added to its environment, which has none that decide on bits beside the number of threads.
        by: The command that runs it, such as an emulator.
    """
    plain = {name: value for name, value in os.environ.items() if name not in (*PORTABLY, "GLIBC_TUNABLES")}
    done = subprocess.run(
        [*by, sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT, env={**plain, **Arithmetic(1).variables, **variables}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def computed(variables: Mapping[str, str], by: Sequence[str] = ()) -> tuple[dict[str, str], str]:
    """What a process makes of all operations that was started with some variables, and what it says of that; as
    `printed`.
    """
    digests, differs = printed(_ASKED, variables, by)
    return digests, differs


def assert_seen(found: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """That digests are those of all processors that this ran on before; else it names this one."""
    processor = this_processor()
    differs = {name: found.get(name) for name, digest in expected.items() if found.get(name) != digest}
    assert not differs, f"not portable on {processor.vendor} {processor.family} {processor.model}: {differs}"


def assert_alike() -> None:
    """That a process that was started for portable bits computes as on the processors that were seen."""
    assert_seen(computed(PORTABLY)[0], DIGESTS)
