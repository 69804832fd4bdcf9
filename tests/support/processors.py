"""The processors on which portable bits were seen to hold, and this one."""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence

import pytest

from experiments.limits.arithmetic import DIGESTS, PORTABLE, Arithmetic
from experiments.limits.processor import this_processor
from tests.support.suite import ROOT

SEEN = ("AuthenticAMD 25 1",)
"""Vendor, family and model. One is added when the tests passed there."""
PORTABLY = Arithmetic(1, PORTABLE).variables
_ASKED = (
    "import json; from experiments.limits import arithmetic as a; print(json.dumps([a.digests(), a.differences()]))"
)


def computed(variables: Mapping[str, str], by: Sequence[str] = ()) -> tuple[dict[str, str], str]:
    """What a process makes of all operations that was started with some variables, and what it says of that.

    Args:
        variables: Of its environment.
        by: The command that runs it, such as an emulator.
    """
    plain = {name: value for name, value in os.environ.items() if name not in (*PORTABLY, "GLIBC_TUNABLES")}
    done = subprocess.run(
        [*by, sys.executable, "-W", "ignore", "-c", _ASKED],
        cwd=ROOT, env={**plain, **Arithmetic(1).variables, **variables}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    digests, differs = json.loads(done.stdout)
    return digests, differs


def assert_seen(found: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """That digests are those of other processors.

    On one that was not seen yet a difference is told, and is no failure of the change that is tested; that there is
    none is told too.
    """
    processor = this_processor()
    here = f"{processor.vendor} {processor.family} {processor.model}"
    if here in SEEN:
        assert dict(found) == dict(expected)
        return
    differs = sorted(name for name in expected if found.get(name) != expected[name])
    if differs:
        pytest.skip(f"not seen to be portable on {here}: {', '.join(differs)}")
    warnings.warn(f"portable bits hold on {here}, which was not seen before", RuntimeWarning, stacklevel=2)


def assert_alike() -> None:
    """That a process that was started for portable bits computes as on the processors that were seen."""
    assert_seen(computed(PORTABLY)[0], DIGESTS)
