"""Makes sure that all nodes of a cluster have the study's files: trials write theirs where they run."""

import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from experiments.config.errors import ConfigurationError, first_line
from experiments.config.output_dir import stored_at
from experiments.storage.objects import Objects

_WAIT_S = 120.0
"""For the answer of a node: it may have to start a process, and to unpack the suite's modules first."""
_MARK = "driver"


def check_shared(folder: Path, setting: str = "output_dir") -> None:
    """Make sure that every node of the cluster that can run a trial sees the driver's files in a folder, and the driver the node's.

    Costs nothing on a single node.

    Args:
        folder: Absolute; made if need be.
        setting: What chose it.

    Raises:
        ConfigurationError: Some do not; names each of them. Nothing is left behind.
    """
    alive = _alive()
    if len(alive) < 2:
        return
    nodes = [node for node in alive.values() if node["Resources"].get("CPU")]
    if (uri := stored_at(folder)) is not None:
        _check_reached(uri, nodes, setting)
        return
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    mark = folder / f".shared-{secrets.token_hex(8)}"  # a new name: a network file system may remember that an old one was not there
    shared = False
    try:
        token = secrets.token_hex(16)
        mark.mkdir(parents=True)
        (mark / _MARK).write_text(token)
        problems = _problems(nodes, write_back, (str(mark), token), lambda node: (mark / node).exists())
        shared = not problems
    except OSError as error:
        raise ConfigurationError(f"{setting}={folder}: {error.filename} cannot be written ({error.strerror}).") from None
    finally:
        shutil.rmtree(mark, ignore_errors=True)
        for path in () if shared else made:
            with suppress(OSError):
                path.rmdir()
    if problems:
        raise ConfigurationError(refusal(f"{setting}={folder}", problems))


def _check_reached(uri: str, nodes: Sequence[Mapping[str, Any]], setting: str) -> None:
    """Make sure that nodes can use an object store; raises as `check_shared`."""
    objects, token = Objects(f"{uri}/.shared-{secrets.token_hex(8)}"), secrets.token_hex(16)
    try:
        objects.write(_MARK, token.encode())
        problems = _problems(nodes, write_object_back, (objects.uri, token), objects.exists)
        objects.remove(objects.names())
    except OSError as error:
        raise ConfigurationError(f"{setting}={uri}: {error.filename} cannot be written ({error.strerror}).") from None
    if problems:
        said = "; ".join(f"{node}: {problem}" for node, problem in problems.items())
        raise ConfigurationError(
            f"{setting}={uri}: cannot be used from all nodes of the cluster ({said}). Trials write there from where they run: the "
            "environment of `ray start` on each node needs the credentials, or its machine a role that has them."
        )


def refusal(where: str, problems: Mapping[str, str]) -> str:
    """What is said of a folder that is not shared.

    Args:
        where: The setting and the folder, as in a command line.
        problems: Node, by name and address, to what is wrong there.
    """
    nodes = "; ".join(f"{node}: {problem}" for node, problem in problems.items())
    return (
        f"{where}: is not shared by all nodes of the cluster ({nodes}). A trial writes its checkpoints where it runs. Mount one file "
        "system at the same path on all nodes, and choose a folder on it: output_dir=/path. Or run on this machine alone: leave "
        "hardware.address out."
    )


def write_back(mark: str, token: str, node: str) -> str:
    """On a node: read the driver's mark and leave one beside it.

    Args:
        mark: Folder of the marks.
        token: What the driver's says.
        node: File name of the node's.

    Returns:
        What is wrong; "" if nothing is.
    """
    try:
        if (Path(mark) / _MARK).read_text() != token:
            return "another file is there"
    except FileNotFoundError:
        return "what the driver writes is not there"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    try:
        (Path(mark) / node).write_text(token)
    except OSError as error:
        return f"cannot be written ({error.strerror})"
    return ""


def write_object_back(mark: str, token: str, node: str) -> str:
    """As `write_back`, in a folder of an object store."""
    try:
        objects = Objects(mark, patience_s=10.0)
        if objects.read(_MARK) != token.encode():
            return "another object is there"
        objects.write(node, token.encode())
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return ""


def _alive() -> dict[str, Mapping[str, Any]]:
    return {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}


def _problems(
    nodes: Sequence[Mapping[str, Any]], answer: Callable[..., str], words: tuple[str, ...], arrived: Callable[[str], bool]
) -> dict[str, str]:
    """Node to what is wrong there; of nodes where nothing is, nothing.

    Args:
        nodes: That are asked.
        answer: What each is asked to do, with `words` and the file name of its mark.
        words: Where the marks are, and what the driver's says.
        arrived: Whether the driver sees the mark of a file name.
    """
    task = ray.remote(num_cpus=0, max_retries=0)(answer)
    asked = {}
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        asked[task.options(scheduling_strategy=there).remote(*words, node["NodeID"])] = node
    ray.wait(list(asked), num_returns=len(asked), timeout=_WAIT_S)
    problems = {}
    for answered, node in asked.items():
        problem = _answer(answered)
        if not problem and not arrived(node["NodeID"]):
            problem = "what it writes does not reach the driver"
        if problem and node["NodeID"] in _alive():  # one that is lost meanwhile runs no trial
            problems[f"{node['NodeManagerHostname']}, {node['NodeManagerAddress']}"] = problem
    return problems


def _answer(answer: Any) -> str:
    try:
        return str(ray.get(answer, timeout=0))
    except GetTimeoutError:
        ray.cancel(answer, force=True)
        return f"gives no answer within {_WAIT_S:g} s"
    except RayError as error:
        return f"gives no answer ({first_line(error)})"
