"""Which of MLflow's environment variables the suite leaves to MLflow. Standard library only.

MLflow reads some 280 of them, from whatever shell a command is typed in. Those that say who one is, and how a server or
an object store is reached, are honoured, and checked before a study writes to a server. All others are kept out of the
command's process, and so of those that it starts: where results go, and how, is said by its settings alone.
"""

import importlib.util
import json
import os
from collections.abc import Callable, Mapping, MutableMapping
from fnmatch import fnmatchcase
from pathlib import Path


def _flag(value: str) -> str:
    return "" if value.lower() in ("true", "false", "1", "0") else "must be true or false"


def _file(value: str) -> str:
    return "" if value and Path(value).exists() else "there is no such file"


def _address(value: str) -> str:
    return "" if value.startswith(("http://", "https://")) else "must be http://host:port or https://..."


def _style(value: str) -> str:
    return "" if value in ("auto", "path", "virtual") else "must be auto, path or virtual"


def _mapping(value: str) -> str:
    try:
        return "" if isinstance(json.loads(value), dict) else "must be a mapping in JSON"
    except ValueError as error:
        return f"must be a mapping in JSON ({error})"


def _signature(value: str) -> str:
    if value.lower() in ("true", "1") and importlib.util.find_spec("requests_auth_aws_sigv4") is None:
        return "needs a package, pip install requests-auth-aws-sigv4"
    return _flag(value)


def _any(value: str) -> str:
    return ""


HONOURED: Mapping[str, Callable[[str], str]] = {
    # Who one is. Whether a server knows it is asked there. Other credentials have no name
    # of MLflow's: AWS_*, PGPASSWORD.
    "MLFLOW_TRACKING_USERNAME": _any,
    "MLFLOW_TRACKING_PASSWORD": _any,
    "MLFLOW_TRACKING_TOKEN": _any,
    "MLFLOW_TRACKING_AUTH": _any,
    "MLFLOW_TRACKING_AWS_SIGV4": _signature,
    "MLFLOW_WORKSPACE": _any,
    # What is trusted.
    "MLFLOW_TRACKING_INSECURE_TLS": _flag,
    "MLFLOW_TRACKING_SERVER_CERT_PATH": _file,
    "MLFLOW_TRACKING_CLIENT_CERT_PATH": _file,
    "MLFLOW_ALLOW_HTTP_REDIRECTS": _flag,
    # How files are put where a server says that they belong, if it does not take them itself.
    "MLFLOW_S3_ENDPOINT_URL": _address,
    "MLFLOW_S3_IGNORE_TLS": _flag,
    "MLFLOW_S3_UPLOAD_EXTRA_ARGS": _mapping,
    "MLFLOW_S3_EXPECTED_BUCKET_OWNER": _any,
    "MLFLOW_EXPERIMENTAL_S3_SIGNATURE_VERSION": _any,
    "MLFLOW_BOTO_CLIENT_ADDRESSING_STYLE": _style,
    "MLFLOW_KERBEROS_TICKET_CACHE": _any,
    "MLFLOW_KERBEROS_USER": _any,
    "MLFLOW_PYARROW_EXTRA_CONF": _any,
    # What is sent to MLflow's makers.
    "MLFLOW_DISABLE_TELEMETRY": _flag,
}
"""Variable to what is wrong with a value; "" if nothing is."""

_TLS = ("MLFLOW_TRACKING_INSECURE_TLS", "MLFLOW_TRACKING_SERVER_CERT_PATH")

KEPT_OUT: Mapping[str, str] = {
    "*_URI": "where results go is set by tracking.uri= of run.py and tracking_uri= of the other commands alone",
    "MLFLOW_RUN_*": "a study makes its own runs",
    "MLFLOW_EXPERIMENT_*": "a study makes its own experiments",
    "*ACTIVE_MODEL_ID": "a study makes its own models",
    "MLFLOW_*WORKSPACES*": "it is for servers",
    "MLFLOW_HTTP_*": "tracking.timeout_s= sets how long a request may take, and the suite itself repeats requests",
    "*ASYNC*": "the suite itself writes asynchronously, and MLflow's asynchronous logging loses errors",
    "MLFLOW_SQLALCHEMYSTORE_*": "a study writes to a database by one connection",
    "MLFLOW_MYSQL_*": "a study writes to no such database",
    "*MULTIPART*": "the server decides how files are uploaded",
    "*SYSTEM_METRICS*": "trials log their own system metrics",
    "MLFLOW_TRACE_*": "nothing is traced",
    "MLFLOW_TRACING_*": "nothing is traced",
    "*": "a study does not need it",
}
"""Pattern to why the variables are kept out; the first that fits counts."""

OWN = frozenset(
    {
        "MLFLOW_HTTP_REQUEST_TIMEOUT",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES",
        "MLFLOW_HTTP_POOL_MAXSIZE",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR",
    }
)
"""Those that are kept out without a word: the suite sets them itself where it opens a store,
and may have done so in this process."""


def keep_out(environment: MutableMapping[str, str] | None = None) -> list[str]:
    """Remove MLflow's variables that are not honoured.

    Args:
        environment: Environment variables; this process' by default.

    Returns:
        Which were removed and why, a line for each reason.
    """
    environment = os.environ if environment is None else environment
    removed: dict[str, list[str]] = {}
    for name in sorted(environment):
        if name.startswith(("MLFLOW_", "_MLFLOW_")) and name not in HONOURED:
            del environment[name]
            if name in OWN or name.startswith("_"):  # MLflow's own, which it sets where it is imported
                continue
            reason = next(reason for pattern, reason in KEPT_OUT.items() if fnmatchcase(name, pattern))
            removed.setdefault(reason, []).append(name)
    return [
        f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not read: {reason}."
        for reason, names in removed.items()
    ]


def check_honoured(environment: Mapping[str, str] | None = None) -> None:
    """Make sure that the variables that are honoured can be.

    Args:
        environment: Environment variables; this process' by default.

    Raises:
        ValueError: One cannot.
    """
    environment = os.environ if environment is None else environment
    for name, problem in HONOURED.items():
        if name in environment and (said := problem(environment[name])):
            raise ValueError(f"{name}={environment[name]} in the environment: {said}. Correct it, or unset it.")
    insecure, certificate = (environment.get(name, "") for name in _TLS)
    if certificate and insecure.lower() in ("true", "1"):
        raise ValueError(
            f"{' and '.join(_TLS)} are both in the environment: the first trusts any server, "
            "the second only some. Unset one."
        )
