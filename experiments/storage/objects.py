"""Objects in a store (S3, Google Cloud Storage, Azure), by obstore: each is there whole or not at all,
and some can be written but once.
"""

import errno
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import ObjectStore, from_url

SCHEMES = ("s3", "gs", "az")
"""Of the addresses that are taken: S3 and what speaks its protocol, Google Cloud Storage, Azure."""
_AT_ONCE = 32
"""Objects that are read at the same time: one takes some 30 ms, most of it waiting."""


class Objects:
    """The objects below an address, by its name from there: `events/000001.json`.

    Attributes:
        uri: The address.
    """

    def __init__(self, uri: str, patience_s: float = 60.0, store: ObjectStore | None = None, prefix: str = "") -> None:
        """Connect; credentials are those of the environment.

        Args:
            uri: `s3://bucket/folder`.
            patience_s: How long a request is tried again, while the store does not answer or is overloaded.
            store: One that is connected; None: a new connection.
            prefix: Prefix of all names in `store`.

        Raises:
            OSError: The address is none of a store, or what the environment says of it is not understood.
        """
        self.uri, self._prefix = uri.rstrip("/"), prefix
        with self._errors(""):
            self._store = _connected(self.uri, patience_s) if store is None else store

    def below(self, name: str) -> "Objects":
        """Those in a folder."""
        return Objects(f"{self.uri}/{name}", store=self._store, prefix=f"{self._prefix}{name}/")

    def read(self, name: str) -> bytes:
        """The content of an object.

        Raises:
            FileNotFoundError: There is none.
            OSError: The store does not give it.
        """
        return self.versioned(name)[0]

    def versioned(self, name: str) -> tuple[bytes, str]:
        """The content of an object, and its version, as `replace` takes it; raises as `read`."""
        with self._errors(name):
            found = obstore.get(self._store, self._prefix + name)
            return bytes(found.bytes()), str(found.meta["e_tag"])

    def read_all(self, names: Sequence[str]) -> list[bytes]:
        """The contents of objects, in the same order; raises as `read`."""
        if not names:
            return []
        with ThreadPoolExecutor(min(_AT_ONCE, len(names))) as pool:
            return list(pool.map(self.read, names))

    def write(self, name: str, content: bytes | Path) -> None:
        """Put an object, in the place of one that is there.

        Raises:
            OSError: The store does not take it; it is as before.
        """
        with self._errors(name):
            obstore.put(self._store, self._prefix + name, content)

    def create(self, name: str, content: bytes) -> str:
        """Put an object unless there is one, whoever else tries at the same time.

        The same content counts as put by this call.

        Args:
            name: Its name.
            content: Content that no one else writes.

        Returns:
            Its version.

        Raises:
            FileExistsError: There is one.
            OSError: The store does not take it; it is as before.
        """
        return self._put_if(name, content, "create")

    def replace(self, name: str, content: bytes, version: str) -> str:
        """Put an object in the place of the one of a version; otherwise as `create`.

        Raises:
            FileExistsError: It is of another version by now, or gone.
            OSError: The store does not take it; it is as before.
        """
        return self._put_if(name, content, {"e_tag": version})

    def _put_if(self, name: str, content: bytes, mode: Any) -> str:
        with self._errors(name):
            try:
                return str(obstore.put(self._store, self._prefix + name, content, mode=mode)["e_tag"])
            except (AlreadyExistsError, PreconditionError):
                pass
            except FileNotFoundError:
                if mode == "create":  # not even a bucket is there
                    raise
        try:
            there, version = self.versioned(name)
        except FileNotFoundError:
            there = None
        if there != content:  # else the answer to a first request was lost, and a second one found what that had put
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), f"{self.uri}/{name}")
        return version

    def names(self) -> list[str]:
        """Of all objects, sorted."""
        return sorted(self.sizes())

    def sizes(self) -> dict[str, int]:
        """Name to bytes, of all objects."""
        with self._errors(""):
            pages = list(obstore.list(self._store, self._prefix))
        return {str(each["path"]).removeprefix(self._prefix): int(each["size"]) for page in pages for each in page}

    def files(self) -> list[str]:
        """Names of the objects that are in no folder below, sorted."""
        return sorted(str(each["path"]).removeprefix(self._prefix) for each in self._children()["objects"])

    def folders(self) -> list[str]:
        """Names of the folders directly below, sorted."""
        return sorted(str(path).removeprefix(self._prefix) for path in self._children()["common_prefixes"])

    def _children(self) -> Any:
        with self._errors(""):
            return obstore.list_with_delimiter(self._store, self._prefix)

    def exists(self, name: str) -> bool:
        """True if there is an object.

        Raises:
            OSError: The store does not say.
        """
        try:
            with self._errors(name):
                obstore.head(self._store, self._prefix + name)
        except FileNotFoundError:
            return False
        return True

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects; those that are gone are no fault.

        Raises:
            OSError: The store does not.
        """
        if paths := [self._prefix + name for name in names]:
            with self._errors(""):
                obstore.delete(self._store, paths)

    def write_folder(self, name: str, folder: Path) -> None:
        """Put a folder as one object, a tar; raises as `write`, or what the disk raises."""
        with tempfile.TemporaryDirectory() as temporary:
            packed = Path(temporary) / "folder.tar"
            with tarfile.open(packed, "w") as tar:
                tar.add(folder, ".")
            self.write(name, packed)

    def read_folder(self, name: str, into: Path) -> None:
        """Unpack what `write_folder` put, in the place of a folder; raises as `read`, or what the disk raises."""
        partial = into.with_name(f"{into.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        with tempfile.TemporaryFile() as packed, self._errors(name):
            for chunk in obstore.get(self._store, self._prefix + name):
                packed.write(chunk)
            packed.seek(0)
            with tarfile.open(fileobj=packed) as tar:
                tar.extractall(partial, filter="data")
        shutil.rmtree(into, ignore_errors=True)
        partial.rename(into)

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        """Name the object at which obstore failed, in an error that is the system's own."""
        place = f"{self.uri}/{name}" if name else self.uri
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place) from error
        except (BaseError, ValueError) as error:
            number = errno.EACCES if isinstance(error, PermissionDeniedError | UnauthenticatedError) else errno.EIO
            raise OSError(number, str(error).strip().partition("\n")[0], place) from error


def _connected(uri: str, patience_s: float) -> ObjectStore:
    if uri.partition("://")[0] not in SCHEMES:
        raise ValueError(f"only {', '.join(f'{scheme}://' for scheme in SCHEMES)} are known")
    return from_url(
        uri,
        client_options={"allow_http": True},  # where the environment names an endpoint of one's own network
        retry_config={"retry_timeout": timedelta(seconds=patience_s)},
    )
