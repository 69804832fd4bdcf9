"""Makes sure that all nodes of a cluster have the study's files: trials write theirs where they run."""

import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from experiments.config.errors import ConfigurationError

_MARK = "driver"


@dataclass(frozen=True)
class Mark:
    """What the driver has left in a folder, for the nodes to find.

    Attributes:
        write_back: What each node is asked to do, with `words` and the name of its own mark; says what is wrong there.
        words: As a task takes them.
        arrived: Whether the driver sees the mark of a name.
    """

    write_back: Callable[..., str]
    words: tuple[str, ...]
    arrived: Callable[[str], bool]

    def problem(self, name: str, said: str) -> str:
        """What is wrong with the folder on the node with the mark of a name; "" if nothing is."""
        return said or ("" if self.arrived(name) else "what it writes does not reach the driver")


@contextmanager
def marked(folder: Path, setting: str = "output_dir") -> Iterator[Mark]:
    """A folder with the driver's mark in it; made if need be. With an exception nothing is left behind.

    Args:
        folder: Absolute.
        setting: What chose it.

    Raises:
        ConfigurationError: It cannot be written here.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    mark = folder / f".shared-{secrets.token_hex(8)}"  # a new name: a network file system may remember that an old one was not there
    shared = False
    try:
        try:
            token = secrets.token_hex(16)
            mark.mkdir(parents=True)
            (mark / _MARK).write_text(token)
        except OSError as error:
            raise ConfigurationError(f"{setting}={folder}: {error.filename} cannot be written ({error.strerror}).") from None
        yield Mark(write_back, (str(mark), token), lambda name: (mark / name).exists())
        shared = True
    finally:
        shutil.rmtree(mark, ignore_errors=True)
        for path in () if shared else made:
            with suppress(OSError):
                path.rmdir()


def refusal(where: str, problems: Mapping[str, str]) -> str:
    """What is said of a folder that is not shared.

    Args:
        where: The setting and the folder, as in a command line.
        problems: Node, by name and address, to what is wrong there.
    """
    nodes = "; ".join(f"{node}: {problem}" for node, problem in problems.items())
    return (
        f"{where}: is not shared by all nodes of the cluster ({nodes}). A trial writes its checkpoints where it runs. Mount one file "
        "system at the same path on all nodes, and choose a folder on it: output_dir=/path. Or run on this machine alone: "
        "hardware.address=local."
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
