"""Which nodes the processes of a trial go to: `hardware.accelerator_type` and `hardware.placement`,
as Ray's placement groups have them.
"""

import difflib
from collections.abc import Collection

from ray.tune import PlacementGroupFactory
from ray.util import accelerators

from experiments.config.errors import ConfigurationError
from experiments.config.schema import HardwareSettings
from experiments.planning.machines import Cluster, accelerator_resource
from experiments.planning.resources import DoesNotFitError, trials_at_once

ACCELERATOR_TYPES = tuple(
    sorted(value for name, value in vars(accelerators).items() if name.isupper() and isinstance(value, str))
)
"""The names that Ray has for kinds of accelerators."""
_A_SHARE = 0.001
"""Of a node's label, which is a resource of amount 1: what Ray itself asks for."""


def on_nodes(
    request: PlacementGroupFactory, hardware: HardwareSettings, cluster: Cluster, asynchronous: bool
) -> PlacementGroupFactory:
    """A trial's request with what the hardware profile says of its nodes.

    Processes that wait for each other go to one node, if any has room for all of them: what they send each other then
    stays in its memory.

    Args:
        request: The request as RLlib makes it.
        hardware: The profile.
        cluster: The machines that there are.
        asynchronous: Whether the algorithm samples while it learns.

    Raises:
        DoesNotFitError: No node has such an accelerator.
        ConfigurationError: Nobody has, or the trial has no GPU.
    """
    bundles = [dict(bundle) for bundle in request.bundles]
    if (kind := hardware.accelerator_type) is not None:
        check_accelerator_type(kind, cluster.accelerator_types)
        if not any(bundle.get("GPU") for bundle in bundles):
            raise ConfigurationError(
                f"hardware.accelerator_type={kind}: the trial has no GPU, so it would run anywhere. "
                "Give its learner one: hardware.num_gpus_per_learner=1."
            )
        bundles = [
            {**bundle, accelerator_resource(kind): _A_SHARE} if bundle.get("GPU") else bundle for bundle in bundles
        ]
        if kind not in cluster.accelerator_types:
            wanted = PlacementGroupFactory(bundles, strategy=hardware.placement or "PACK")
            has = _has(cluster.accelerator_types)
            raise DoesNotFitError(
                f"hardware.accelerator_type={kind}: no node has one; {has}. Choose one of those, or leave it out.",
                wanted,
            )
    if hardware.placement is not None:
        return PlacementGroupFactory(bundles, strategy=hardware.placement)
    on_one = PlacementGroupFactory(bundles, strategy="STRICT_PACK")
    fits = not asynchronous and trials_at_once(on_one, cluster, limit=1)
    return on_one if fits else PlacementGroupFactory(bundles, strategy="PACK")


def check_accelerator_type(kind: str, there: Collection[str]) -> None:
    """Make sure that a kind of accelerator has a name of Ray's, whether any node has one or not.

    Args:
        kind: The kind as given.
        there: The kinds of the cluster's nodes.

    Raises:
        ConfigurationError: It has none.
    """
    by_lower = {name.lower(): name for name in (*ACCELERATOR_TYPES, *there)}
    if kind in by_lower.values():
        return
    near = [by_lower[name] for name in difflib.get_close_matches(kind.lower(), by_lower, n=3, cutoff=0.4)]
    names = f"; near: {', '.join(near)}" if near else ""
    raise ConfigurationError(
        f"hardware.accelerator_type={kind}: Ray knows no such accelerator{names}. Here {_has(there)}."
    )


def _has(there: Collection[str]) -> str:
    return f"this cluster has {', '.join(sorted(there)) or 'none'}"
