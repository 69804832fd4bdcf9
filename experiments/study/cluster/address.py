"""Which Ray a study uses: one that is started on this machine, or a cluster that is there."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ray._private.authentication.authentication_token_setup import AuthenticationTokenLoader
from ray._private.ray_constants import RAY_ADDRESS_ENVIRONMENT_VARIABLE
from ray._private.runtime_env.constants import RAY_JOB_CONFIG_JSON_ENV_VAR
from ray.exceptions import AuthenticationError

from experiments.config.errors import ConfigurationError, first_line
from experiments.config.fields import AUTO_ADDRESS, LOCAL_ADDRESS, check_address
from experiments.config.schema import HardwareSettings
from experiments.config.trial_config import Compose
from experiments.contract.words import labelled

JOB_STOP_S = 60
"""How long a study may take to save itself and to end its runs in MLflow, after a signal."""
_JOB_STOP_VARIABLE, _JOB_STOP_DEFAULT_S = "RAY_JOB_STOP_WAIT_TIME_S", "3"
"""Where Ray is told how long a job has after `ray job stop`, and what it takes otherwise."""


def address_now(given: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The cluster that a command means.

    Args:
        given: `hardware.address`.
        environment: Of the process. Ray sets `RAY_ADDRESS` in a job's.

    Returns:
        Where a cluster is; `local` for this machine; None if nothing says it.

    Raises:
        ConfigurationError: `RAY_ADDRESS` is none that a study can be run at.
    """
    found = environment.get(RAY_ADDRESS_ENVIRONMENT_VARIABLE, "")
    if given not in (None, AUTO_ADDRESS) or not found:  # Ray itself reads the variable for `auto`
        return given
    try:
        return check_address(found)
    except ValueError as error:
        raise ConfigurationError(
            f"RAY_ADDRESS={found}: {error}. hardware.address=... is asked first, and hardware.address=local "
            "starts Ray on this machine."
        ) from None


def joined_line(given: str | None, address: str | None) -> str:
    """The line on a cluster that the command line does not name; "" if nothing."""
    if given is not None or address in (None, LOCAL_ADDRESS):
        return ""
    return labelled(
        "cluster", f"at RAY_ADDRESS={address}, joined; hardware.address=local starts Ray on this machine instead"
    )


def job_line(environment: Mapping[str, str] = os.environ) -> str:
    """The line on a Ray job that is killed before it can end its runs in MLflow, when it is stopped;
    "" if nothing.

    Args:
        environment: Of the driver: the job's.
    """
    left_s = environment.get(_JOB_STOP_VARIABLE, _JOB_STOP_DEFAULT_S)
    if RAY_JOB_CONFIG_JSON_ENV_VAR not in environment or int(left_s) >= JOB_STOP_S:
        return ""
    return labelled(
        "job",
        f"`ray job stop` kills it after {left_s} s, and its runs in MLflow stay RUNNING. "
        f"It needs up to {JOB_STOP_S} s: "
        f"""ray job submit --runtime-env-json='{{"env_vars": {{"{_JOB_STOP_VARIABLE}": "{JOB_STOP_S}"}}}}'""",
    )


def at(hardware: HardwareSettings, address: str | None) -> HardwareSettings:
    """A profile at another address: of a cluster, `local`, or None, which leaves it where it is."""
    return hardware if address is None else replace(hardware, address=None if address == LOCAL_ADDRESS else address)


def composed_at(compose: Compose, address: str | None) -> Compose:
    """The same composition, at an address."""
    if address is None:
        return compose

    def composed(choices: Mapping[str, str]) -> Mapping[str, Any]:
        settings = compose(choices)
        return {
            **settings,
            "hardware": {**settings["hardware"], "address": None if address == LOCAL_ADDRESS else address},
        }

    return composed


def why_not_joined(error: Exception) -> str:
    """The ways to join a cluster that cannot be joined, as clauses: a conflict, a token,
    or none that answers.
    """
    if "Failed to merge the Job's runtime env" in str(error):
        return (
            "the runtime environment of the Ray job conflicts with that of the study, which sets py_modules, "
            "OMP_NUM_THREADS, MKL_NUM_THREADS, OPENBLAS_NUM_THREADS, PYTHONHASHSEED and PYTHONWARNINGS. "
            "Leave these out of `ray job submit --runtime-env-json=...`: threads are hardware.threads_per_process=..., "
            "modules of your own modules=[...]."
        )
    if isinstance(error, AuthenticationError) or "Failed to connect to Ray cluster" in str(error):
        has_token = AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True)
        found = "the one that was found here is not the cluster's" if has_token else "none was found here"
        return (
            f"joining it fails ({first_line(error)}). A Ray cluster asks for a token if it has one, "
            f"and perhaps {found}. `ray get-auth-token` on the head node prints it; give it as RAY_AUTH_TOKEN, "
            "as a file by RAY_AUTH_TOKEN_PATH, or as ~/.ray/auth_token."
        )
    return f"no Ray cluster answers there ({error})."
