"""The head of a Ray cluster as a process of its own, which tests join."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path


@contextlib.contextmanager
def ray_head(environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """Its address, `host:port`; it ends with the block, by its own handle.

    Args:
        environment: Of its processes, beside this process's own.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ray_command = str(Path(sys.executable).with_name("ray"))
    start = [
        ray_command,
        "start",
        "--head",
        f"--port={port}",
        "--num-cpus=2",
        "--include-dashboard=false",
        "--disable-usage-stats",
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    head = subprocess.Popen([*start, "--block"], env={**os.environ, **(environment or {})}, **quiet)
    try:
        for _ in range(150):
            time.sleep(0.2)
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
        time.sleep(2)  # the head listens before its node has joined
        yield f"127.0.0.1:{port}"
    finally:
        head.terminate()  # with --block, Ray's processes end with it
        head.wait(timeout=60)
