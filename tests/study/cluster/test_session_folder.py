"""A folder for temporary files whose name is too long for Unix sockets."""

import os
import socket
from pathlib import Path

import pytest

from experiments.config.errors import ConfigurationError
from experiments.study.cluster.session_folder import _BELOW, MOST_BYTES, session_folder
from tests.support.commands import run_here


def test_a_long_tmpdir_is_not_rays_and_a_short_one_is() -> None:
    assert session_folder({}) is None
    assert session_folder({"TMPDIR": "/scratch"}) is None
    assert session_folder({"TMPDIR": f"/{'x' * 79}"}) == "/tmp/ray"
    assert session_folder({"TMPDIR": f"/{'x' * 79}", "RAY_TMPDIR": "/scratch"}) is None


def test_a_long_ray_tmpdir_is_refused_with_the_longest_that_there_may_be(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", f"/{'ü' * 40}")
    refused = run_here("experiments/run.py", f"output_dir={tmp_path}")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "is too long for the sockets of Ray's processes. Name a folder of at most 37 bytes" in refused.stderr
    with pytest.raises(ConfigurationError, match="at most 37 bytes"):
        session_folder({"RAY_TMPDIR": "x" * 38})
    assert session_folder({"RAY_TMPDIR": "x" * 37}) is None


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_no_socket_of_rays_has_a_longer_name_than_is_counted_with() -> None:
    import ray

    session = Path(ray._private.worker._global_node.get_session_dir_path())
    sockets = [path for path in session.rglob("*") if path.is_socket()]
    assert sockets
    assert all(len(os.fsencode(path.relative_to(session.parents[1]))) < len(_BELOW) for path in sockets)
    with socket.socket(socket.AF_UNIX) as unix, pytest.raises(OSError, match="too long"):
        unix.bind("x" * (MOST_BYTES + 1))
