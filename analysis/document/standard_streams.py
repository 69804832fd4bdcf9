"""Standard output and standard error that a command can always write to:
what becomes of them must not end what it does.
"""

import errno
import io
import os
import sys


def keep_streams() -> None:
    """Make `sys.stdout` and `sys.stderr` take any text at any time.

    Called first: in another locale than UTF-8 Python starts anew.

    What cannot be shown in their encoding is replaced. Where they were closed at the start, whoever read them has
    gone away (`| head -1`, a terminal that was closed), or their disk is full, what is written is lost, and nothing
    else happens; of a full disk standard error says so, once. Streams that were put in their place, as a notebook's,
    stay as they are.
    """
    _read_utf8()
    for fd in (0, 1, 2):  # else the next file that is opened would be standard output
        try:
            os.fstat(fd)
        except OSError:
            os.dup2(null := os.open(os.devnull, os.O_RDWR), fd)
            if null > 2:
                os.close(null)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed at the start
            # for as long as the process lasts
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        elif isinstance(stream, io.TextIOWrapper) and stream is getattr(sys, f"__{name}__"):
            errors = "replace" if name == "stdout" else stream.errors
            # typeshed wants names of files
            lasting = io.BufferedWriter(_Lasting(stream.fileno(), name))  # type: ignore[type-var]
            setattr(
                sys,
                name,
                io.TextIOWrapper(
                    lasting, stream.encoding, errors, line_buffering=stream.line_buffering or stream.write_through
                ),
            )


def _read_utf8() -> None:
    """Start Python anew in its UTF-8 mode in a locale of another encoding: files and command lines are UTF-8 in any."""
    if sys.getfilesystemencoding() == "utf-8" or sys.flags.ignore_environment or os.environ.get("PYTHONUTF8") == "1":
        return
    os.environ["PYTHONUTF8"] = "1"  # for all processes that are started from here
    if sys.stdout is not None:  # what the terminal shows stays what it was
        os.environ["PYTHONIOENCODING"] = f"{sys.stdout.encoding}:replace"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


class _Lasting(io.RawIOBase):
    """A file descriptor to which writing always succeeds."""

    def __init__(self, fd: int, name: str) -> None:
        self._fd, self.name, self._is_gone = fd, f"<{name}>", False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    # whatever a BufferedWriter gives, which is bytes-like
    def write(self, data: bytes) -> int:  # type: ignore[override]
        if not self._is_gone:
            try:
                return os.write(self._fd, data)
            except OSError as error:
                self._is_gone = True
                if self._fd == 1 and error.errno != errno.EPIPE:
                    print(
                        f"standard output cannot be written ({error.strerror}): the rest of the output is lost",
                        file=sys.stderr,
                    )
        return len(data)
