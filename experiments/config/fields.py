"""The types of which settings are made, and how a wrong value is named."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeGuard
from urllib.parse import urlparse

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from experiments.config.errors import ConfigurationError

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
MAX_TRIALS = 100_000
"""Of one study: a space that makes more was mistyped, which would only be found out after hours of checking each."""

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""Pattern of what becomes part of run names, experiment names, folders and MLflow's filters."""


AUTO_ADDRESS = "auto"
"""Of the cluster that runs on this machine."""
LOCAL_ADDRESS = "local"
"""Ray is started on this machine, whatever the environment says."""


def check_address(address: str) -> str:
    """An address that a study can be run at, as it is.

    Raises:
        ValueError: It is none; says why, and what is.
    """
    if address.startswith("ray://"):
        raise ValueError(
            "ray:// is Ray's client, whose driver is not in the cluster: a study would train and report nothing. "
            "Give the command on the cluster's head node, with hardware.address=auto, or submit it as a job: "
            "ray job submit --address http://HEAD:8265 -- python experiments/run.py ..."
        )
    if "://" in address:
        raise ValueError(
            "is the address of a web page, such as Ray's dashboard, and not of a cluster, "
            "which is host:port (mostly port 6379)"
        )
    host, _, port = address.rpartition(":")
    named = address in (AUTO_ADDRESS, LOCAL_ADDRESS)
    if not named and not (host and not re.search(r"\s", host) and port.isdecimal() and 0 < int(port) < 2**16):
        raise ValueError(
            "must be auto, local or host:port, with a port of at most 65535; null takes RAY_ADDRESS, or starts Ray here"
        )
    return address


def _check_uri(uri: str) -> str:
    # Without the value, which may have a password in it.
    try:
        parsed = urlparse(uri)
        has_host = bool(parsed.hostname) and parsed.port != 0  # a port that is no number from 0 to 65535 raises
    except ValueError as error:
        raise ConfigurationError(f"tracking.uri: is not an address: {error}.") from None
    if not parsed.scheme or (parsed.scheme in ("http", "https") and not has_host):
        raise ConfigurationError(
            "tracking.uri: must be http://host:port, https://..., postgresql://host/database "
            "or sqlite:////absolute/path.db; null is the embedded store."
        )
    return uri


def is_number(value: Any) -> TypeGuard[float]:
    """True for an integer or a float, which YAML's true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def whole(value: Any) -> Any:
    """A number without a fraction as an integer, everything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _listed(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        several = f", seeds=[{','.join(map(str, range(value)))}] for {value} of them" if 1 < value <= 10 else ""
        raise ConfigurationError(f"seeds={value}: must be a list: seeds=[{value}] for that one{several}.")
    return value


Number = Annotated[float, Field(strict=True)]
Name = Annotated[StrictStr, Field(pattern=NAME)]
Count = Annotated[StrictInt, BeforeValidator(whole), Field(ge=0)]
Positive = Annotated[StrictInt, BeforeValidator(whole), Field(ge=1)]
"""1e5 is one: it is read as a number with a fraction of zero."""
Seeds = Annotated[tuple[Count, ...], BeforeValidator(_listed)]
Address = Annotated[StrictStr, AfterValidator(check_address)]
Uri = Annotated[StrictStr, AfterValidator(_check_uri)]


@contextmanager
def readable_errors() -> Iterator[None]:
    """Turns what pydantic says of wrong settings into a ConfigurationError with a line for each."""
    try:
        yield
    except ValidationError as error:
        raise ConfigurationError("\n".join(_describe(e) for e in error.errors())) from None


_KINDS = frozenset({"grid", "random", "optuna", "racing", "compare", "joint", "fifo", "asha", "median", "pbt"})
"""The names that pydantic adds to the path of a setting that has several kinds."""


def _describe(error: Any) -> str:  # pydantic_core.ErrorDetails is a TypedDict of pydantic's border
    key = ".".join(str(part) for part in error["loc"] if part not in _KINDS)
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, ConfigurationError):
        return str(cause)
    if error["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"{key}: there is no such setting. Run with --cfg job to see the settings there are."
    if error["type"] in ("missing", "missing_argument"):
        return f"{key}: this setting is missing."
    return f"{key}={error['input']!r}: {said(error)}."


def said(error: Any) -> str:
    """An error in the words of whoever raised it: pydantic puts `Value error, ` before them,
    and begins its own with a capital.
    """
    if (cause := error.get("ctx", {}).get("error")) is not None:
        return str(cause)
    if error.get("ctx", {}).get("pattern") == NAME:
        return "must be a word of letters, digits, '.', '_' and '-'"
    if error["type"] == "string_too_short":
        return "must not be empty"
    if error["type"] == "tuple_type":
        return "must be a list, in brackets"
    return f"{error['msg'][0].lower()}{error['msg'][1:]}"
