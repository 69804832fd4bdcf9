"""Installation: what uv is told of pip's settings, when it may install, and what the pins hold."""

import importlib.util
import re
from pathlib import Path

import pytest

from tests.support.suite import ROOT

spec = importlib.util.spec_from_file_location("install", ROOT / "deploy/install.py")
assert spec is not None and spec.loader is not None
install = importlib.util.module_from_spec(spec)
spec.loader.exec_module(install)

PEERS = [ROOT / "requirements-peers.txt"]
"""Of an environment of their own."""
PINS = sorted({*ROOT.glob("requirements*.txt")} - {*PEERS})


def test_uv_finds_what_pip_finds() -> None:
    listed = """:env:.find-links='/wheels /more'
global.cert='/etc/ca.crt'
global.constraint='/etc/constraints.txt'
global.extra-index-url='file:///a https://b/simple'
global.find-links='/others'
global.index-url='https://weaker/simple'
install.index-url='https://stronger/simple'
"""
    assert install.variables(listed) == {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_DEFAULT_INDEX": "https://stronger/simple",
        "UV_INDEX": "file:///a https://b/simple",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_CONSTRAINT": "/etc/constraints.txt",
        "SSL_CERT_FILE": "/etc/ca.crt",
    }
    assert install.variables("") == {"UV_INDEX_STRATEGY": "unsafe-best-match"}


@pytest.mark.parametrize(
    ("planned", "otherwise"),
    [
        ([" + torch==2.13.0+cpu", " + box2d==2.3.10", "Resolved 2 packages in 3ms"], []),
        # As pip does where no wheel for CPUs lies:
        ([" + torch==2.13.0", " + nvidia-cublas==13.0.2", " + cuda-toolkit==13.0", " + triton==3.5"], []),
        ([" + torch==2.14.1"], ["torch"]),
        ([" + torch==2.13.0", " + setuptools==84.2.1"], ["setuptools"]),  # which nobody has pinned
    ],
)
def test_uv_installs_the_pins_or_nothing(planned: list[str], otherwise: list[str]) -> None:
    assert install.differing(install.pins(planned), install.pins(["torch==2.13.0", "Box2D==2.3.10"])) == otherwise


@pytest.mark.parametrize("paths", [PINS, PEERS], ids=["the suite", "its peers"])
def test_requirements_are_pins_of_no_build_of_its_own_and_name_no_index(paths: list[Path]) -> None:
    lines = [line for path in paths for line in path.read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    names = install.pins(lines)
    assert len(names) == len(lines)  # each once
    assert [name for name in names if re.match(r"(nvidia|cuda|triton)\b", name)] == []
    assert names["torch"] == "2.13.0"
