"""The report of a cluster's node on itself.

Runs there, where as little is imported as can be: what is missing is to be named.
"""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.config.errors import ConfigurationError, first_line, reason_of
from experiments.config.own_modules import check_imported
from experiments.tracking import provenance

SAME = ("python", "ray", "torch", "numpy", "gymnasium")
"""Packages that must be the same on all nodes: each computes results, or carries them between processes."""


@dataclass(frozen=True)
class NodeReport:
    """A node's answer.

    Attributes:
        folder: What is wrong with the study's folder there; "" if nothing is.
        versions: Python's and packages'; one that is not installed is left out.
        code: Digest of the suite's code.
        lacks: What a trial needs and cannot have there, and why; "" if it has everything.
        machine: Its kind, as a provenance record has it: what makes the last bits of a result.
            Empty where something is lacking.
    """

    folder: str
    versions: Mapping[str, str]
    code: str
    lacks: str = ""
    machine: Mapping[str, Any] = field(default_factory=dict)


def report(
    node: str,
    write_back: Callable[..., str],
    words: Sequence[str],
    environments: Sequence[Mapping[str, Any]],
    modules: Mapping[str, str],
) -> NodeReport:
    """On a node: answer for it.

    Args:
        node: Its id, the name of its mark.
        write_back: Leaves the node's mark in the study's folder; says what is wrong there.
            Its last argument is the mark's name.
        words: The ones before.
        environments: Those of the study, as mappings of `EnvSettings`.
        modules: A person's own, name to hash.
    """
    problem, versions, code = write_back(*words, node), own_versions(), provenance.own_code()
    if missing := [name for name in SAME if name not in versions]:
        return NodeReport(problem, versions, code, f"{', '.join(missing)} not installed")
    try:
        _use(environments, modules)
        return NodeReport(problem, versions, code, machine=own_machine())
    except ConfigurationError as error:
        return NodeReport(problem, versions, code, first_line(error))
    except Exception as error:  # noqa: BLE001  # whatever an environment or an import raises
        return NodeReport(problem, versions, code, reason_of(error))


def own_versions() -> dict[str, str]:
    """The versions of `SAME` in this process."""
    installed = provenance.packages()
    return {"python": platform.python_version(), **{name: installed[name] for name in SAME if name in installed}}


def own_machine() -> dict[str, Any]:
    """The properties of this machine, and of its packages, that the last bits of a result depend on."""
    host = provenance.host()
    return {
        "host": {name: host[name] for name in ("cpu", "gpus") if name in host},
        "arithmetic": provenance.arithmetic(),
        "environment": provenance.environment(),
        "packages": provenance.packages(),
    }


def _use(environments: Sequence[Mapping[str, Any]], modules: Mapping[str, str]) -> None:
    """Import and make what a trial does, once.

    Raises:
        Exception: Something cannot be had, whatever that raises.
    """
    from experiments.config.schema import EnvSettings
    from experiments.rllib.made_environments import spaces

    check_imported(modules)
    for environment in environments:
        spaces(EnvSettings(**{**environment, "score_range": tuple(environment["score_range"])}))
