"""A PostgreSQL server of the tests' own: its own data, its own port, a password,
and as many connections as a test allows.
"""

import contextlib
import getpass
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.mlflow_server import free_port

SUPERUSER, USER, DATABASE = "postgres", "suite", "mlflow"
_DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
"""Where Debian puts the programs, which are not on the path."""


class PostgresServer:
    """A server on 127.0.0.1, run by a user who is not root: PostgreSQL refuses to run as root.

    Attributes:
        uri: Of an empty database, without the credentials.
        environment: The credentials of its owner, as libpq reads them.
        log: What the server says.
    """

    def __init__(self, programs: Path, folder: Path, max_connections: int) -> None:
        self._programs, self._data, self._max_connections = programs, folder / "data", max_connections
        self._password, self.port, self.log = secrets.token_hex(16), free_port(), folder / "server.log"
        self.uri = f"postgresql://127.0.0.1:{self.port}/{DATABASE}"
        self.environment = {"PGUSER": USER, "PGPASSWORD": secrets.token_hex(16)}
        self._runs_as = None if os.getuid() else "nobody"
        (password := folder / "password").write_text(self._password)
        for path in (folder, password) if self._runs_as else ():
            shutil.chown(path, self._runs_as)
        words = [
            "--no-sync",
            "--auth=scram-sha-256",
            f"--username={SUPERUSER}",
            f"--pwfile={password}",
            "--encoding=UTF8",
        ]
        assert self._run("initdb", *words, f"--pgdata={self._data}").wait(120) == 0, self.log.read_text()
        self.start()
        self.query(f"CREATE ROLE {USER} LOGIN PASSWORD '{self.environment['PGPASSWORD']}'", database="postgres")
        self.query(f"CREATE DATABASE {DATABASE} OWNER {USER}", database="postgres")

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "max_connections": self._max_connections,
            "fsync": "off",
        }
        options["unix_socket_directories"] = str(self._data.parent)
        self.process = self._run(
            "postgres", "-D", str(self._data), *(w for k, v in options.items() for w in ("-c", f"{k}={v}"))
        )
        give_up = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError):
                self.query("SELECT 1", database="postgres")
                return
            assert self.process.poll() is None and time.monotonic() < give_up, self.log.read_text()[-2000:]
            time.sleep(0.1)

    def stop(self) -> None:
        """End it and all its connections."""
        self.process.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
        self.process.wait(60)

    def query(self, sql: str, *values: Any, database: str = DATABASE) -> list[tuple[Any, ...]]:
        """The rows of a statement, as the superuser, for whom the server keeps connections back.

        Raises:
            OSError: There is no connection.
        """
        import psycopg

        login = {"user": SUPERUSER, "password": self._password}
        try:
            connection = psycopg.connect(host="127.0.0.1", port=self.port, dbname=database, autocommit=True, **login)
        except psycopg.OperationalError as error:
            raise OSError(str(error)) from error
        with connection:
            cursor = connection.execute(sql, values or None)
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [self._programs / program, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._data.parent,
                user=self._runs_as,
                group="nogroup" if self._runs_as else None,
                extra_groups=[] if self._runs_as else None,
            )


@contextlib.contextmanager
def postgres_server(max_connections: int = 100) -> Iterator[PostgresServer]:
    """A server that is ended and removed afterwards; skips the test where the programs are missing."""
    on_path = shutil.which("initdb")
    found: Sequence[Path] = [Path(on_path).resolve().parent] if on_path else _DEBIAN
    if not found:
        pytest.skip("PostgreSQL's server is not installed: apt-get install postgresql")
    # Not pytest's own folder, into which no other user may look.
    with tempfile.TemporaryDirectory(prefix=f"suite-postgresql-{getpass.getuser()}-", dir="/tmp") as folder:
        server = PostgresServer(found[0], Path(folder), max_connections)
        try:
            yield server
        finally:
            server.stop()
