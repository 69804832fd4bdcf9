"""Whom a study tells, on 127.0.0.1."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


class Sink(HTTPServer):
    """Takes what is posted to it."""

    def __init__(self) -> None:
        self.taken: list[dict[str, str]] = []
        self.status = 200

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:  # noqa: N805
                body = handler.rfile.read(int(handler.headers["Content-Length"]))
                self.taken.append(json.loads(body))
                handler.send_response(self.status)
                handler.end_headers()

            def log_message(handler, *_: object) -> None:  # noqa: N805
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def address(self) -> str:
        return f"json://127.0.0.1:{self.server_port}/"


@contextmanager
def listening() -> Iterator[Sink]:
    """One that takes messages until the end of the block."""
    server = Sink()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
