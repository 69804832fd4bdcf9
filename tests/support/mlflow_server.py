"""A real MLflow server, and a proxy before it that is slow or loses answers."""

import contextlib
import http.client
import http.server
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Server:
    """A real tracking server, that can be killed and started again; by default on an SQLite file."""

    def __init__(
        self, folder: Path, store: str | None = None, workers: int = 1, environment: Mapping[str, str] | None = None
    ) -> None:
        self.folder, self.port, self._workers = folder, free_port(), workers
        self.uri, self.database, self.artifacts = (
            f"http://127.0.0.1:{self.port}",
            folder / "server.db",
            folder / "artifacts",
        )
        self._store, self._environment = store or f"sqlite:///{self.database}", dict(environment or {})
        self.start()

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "mlflow",
            "server",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--workers",
            str(self._workers),
        ]
        stores = ["--backend-store-uri", self._store, "--artifacts-destination", str(self.artifacts)]
        environment = {
            **os.environ,
            **self._environment,
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }  # more processes, for what is not tracking
        with (self.folder / "server.log").open("a") as log:
            self.process = subprocess.Popen(
                [*command, *stores], stdout=log, stderr=log, start_new_session=True, env=environment
            )
        try:
            self._wait_for_health()
        except BaseException:
            self.kill()
            raise

    def _wait_for_health(self) -> None:
        give_up = time.monotonic() + 240  # it takes seconds, and minutes on a machine with much else to do
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self.uri}/health", timeout=5).close()
                return
            assert self.process.poll() is None, (self.folder / "server.log").read_text()[-2000:]
            assert time.monotonic() < give_up
            time.sleep(0.1)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # its workers too
        self.process.wait()


class Proxy:
    """Stands between client and server, and is slow or loses answers.

    `fate` is asked for each request: None passes it on, "drop" passes it on and hangs up without an answer, a number
    passes it on so many seconds later.
    """

    def __init__(self, server: Server) -> None:
        self.fate: Callable[[str], str | float | None] = lambda path: None
        self.requests: list[str] = []
        self.at_once = self.most_at_once = 0
        lock, proxy = threading.Lock(), self

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with lock:
                    fate = proxy.fate(self.path)
                    proxy.requests.append(self.path)
                    proxy.at_once += 1
                    proxy.most_at_once = max(proxy.most_at_once, proxy.at_once)
                try:
                    time.sleep(fate if isinstance(fate, float) else 0)
                    answer, content = self._carry_out(body)
                finally:  # before the client can know of it, and send its next one
                    with lock:
                        proxy.at_once -= 1
                if fate != "drop":
                    self._pass_back(answer, content)
                self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def _carry_out(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                connection.request(
                    self.command, self.path, body, {k: v for k, v in self.headers.items() if k.lower() != "connection"}
                )
                answer = connection.getresponse()
                content = answer.read()
                connection.close()
                return answer, content

            def _pass_back(self, answer: http.client.HTTPResponse, content: bytes) -> None:
                with contextlib.suppress(OSError):  # the client gave up
                    self.send_response(answer.status)
                    self.send_header("Content-Type", answer.headers["Content-Type"] or "")
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
