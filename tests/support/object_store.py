"""An object store that speaks S3's protocol, on this machine."""

import contextlib
import logging
import urllib.request
from collections.abc import Iterator

import boto3
import pytest
from moto.server import ThreadedMotoServer

BUCKET = "bucket"


def environment(server: str) -> dict[str, str]:
    """Of processes that use the store of a server, `host:port`."""
    credentials = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    return {"AWS_ENDPOINT_URL": f"http://{server}", "AWS_DEFAULT_REGION": "us-east-1", **credentials}


@contextlib.contextmanager
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an empty bucket; this process, and those that it starts, find its server by their environment."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name, value in environment(f"{host}:{port}").items():
            monkeypatch.setenv(name, value)
        # what an earlier server of this process held
        with urllib.request.urlopen(f"http://{host}:{port}/moto-api/reset", data=b""):
            pass
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield f"s3://{BUCKET}"
    finally:
        server.stop()
