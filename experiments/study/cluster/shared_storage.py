"""Makes sure that all nodes of a cluster have the study's files: trials write theirs where they run."""

import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from experiments.config.errors import ConfigurationError
from experiments.config.output_dir import stored_at
from experiments.storage.objects import Objects

_MARK = "driver"
_SHARE = (
    "A trial writes its checkpoints where it runs. Mount one file system at the same path on all nodes, "
    "and choose a folder on it: output_dir=/path; or name an object store: output_dir=s3://bucket/folder. "
    "Or run on this machine alone: hardware.address=local."
)
_REACH = (
    "Trials write there from where they run: the environment of `ray start` on each node needs the credentials, "
    "or its machine a role that has them."
)


@dataclass(frozen=True)
class Mark:
    """A mark that the driver has left in a folder or an object store, for the nodes to find.

    Attributes:
        where: The setting and what it names, as in a command line.
        fix: What to do where some nodes do not find it.
        write_back: What each node is asked to do, with `words` and the name of its own mark; says what is wrong there.
        words: The mark's arguments, as a task takes them.
        arrived: Whether the driver sees the mark of a name.
    """

    where: str
    fix: str
    write_back: Callable[..., str]
    words: tuple[str, ...]
    arrived: Callable[[str], bool]

    def problem(self, name: str, said: str) -> str:
        """The problem with the mark of a name on this node; "" if there is none."""
        return said or ("" if self.arrived(name) else "what it writes does not reach the driver")

    def refusal(self, problems: Mapping[str, str]) -> str:
        """The problems of nodes, by name and address, to what is wrong there."""
        nodes = "; ".join(f"{node}: {problem}" for node, problem in problems.items())
        return f"{self.where}: is not shared by all nodes of the cluster ({nodes}). {self.fix}"


@contextmanager
def marked(folder: Path, setting: str = "output_dir") -> Iterator[Mark]:
    """A folder with the driver's mark in it, or the object store that it is a copy of.

    With an exception nothing is left behind.

    Args:
        folder: Absolute; made if need be.
        setting: What chose it.

    Raises:
        ConfigurationError: It cannot be written here.
    """
    name, token, uri = (
        f".shared-{secrets.token_hex(8)}",
        secrets.token_hex(16),
        stored_at(folder),
    )  # a new name: caches know of no such file
    where = f"{setting}={uri or folder}"
    try:
        if uri is not None:
            with _marked_objects(Objects(f"{uri}/{name}"), token) as objects:
                yield Mark(where, _REACH, write_object_back, (objects.uri, token), objects.exists)
        else:
            with _marked_folder(folder / name, token) as mark:
                yield Mark(where, _SHARE, write_back, (str(mark), token), lambda node: (mark / node).exists())
    except OSError as error:
        raise ConfigurationError(f"{where}: {error.filename} cannot be written ({error.strerror}).") from None


@contextmanager
def _marked_folder(mark: Path, token: str) -> Iterator[Path]:
    made = [path for path in mark.parents if not path.exists()]
    shared = False
    try:
        mark.mkdir(parents=True)
        (mark / _MARK).write_text(token)
        yield mark
        shared = True
    finally:
        shutil.rmtree(mark, ignore_errors=True)
        for path in () if shared else made:
            with suppress(OSError):
                path.rmdir()


@contextmanager
def _marked_objects(objects: Objects, token: str) -> Iterator[Objects]:
    try:
        objects.write(_MARK, token.encode())
        yield objects
    finally:
        with suppress(OSError):
            objects.remove(objects.names())


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
