"""Waits for nodes that may come, before a study starts."""

import time
from collections.abc import Callable

from ray.tune import PlacementGroupFactory
from ray.util import remove_placement_group

from experiments.contract.words import labelled
from experiments.planning.machines import Cluster
from experiments.planning.plan import Plan
from experiments.planning.resources import DoesNotFitError, needs, trials_at_once

_LOOK_EVERY_S = 1.0

Look = Callable[[], Cluster]


def planned(
    make: Callable[[Cluster], Plan], cluster: Cluster, look: Look, wait_s: float, say: Callable[[str], None]
) -> Plan:
    """A plan whose first trial has room on the nodes that are there, if need be when others have joined.

    Args:
        make: Plans the study on a cluster.
        cluster: What there is, or may come.
        look: What there is by now.
        wait_s: How long to wait at most. 0: not at all; what an autoscaler may add counts as there.
        say: Takes a line for the terminal.

    Raises:
        DoesNotFitError: There is no room, and none came in time; or there never will be,
            as the autoscaler's settings say.
        ConfigurationError: Anything else is wrong.
    """
    give_up = time.monotonic() + wait_s
    while True:
        try:
            plan, problem = make(cluster), None
            request = plan.configurations[0].request
        except DoesNotFitError as error:
            if not cluster.is_joined or cluster.num_coming or not wait_s:
                raise
            plan, problem, request = None, error, error.request
        if plan is not None and (not cluster.is_joined or not wait_s or trials_at_once(request, cluster.present, 1)):
            return plan
        if time.monotonic() >= give_up:
            said = str(problem) if problem else f"A trial needs {needs(request)}; {cluster}."
            raise DoesNotFitError(
                f"{said} No such node joined within {wait_s:g} s (hardware.wait_for_nodes_s).", request
            )
        say(labelled("waiting", f"for {needs(request)}, at most {wait_s:g} s in all (hardware.wait_for_nodes_s)"))
        cluster = _changed(cluster, request, look, give_up)


def _changed(cluster: Cluster, request: PlacementGroupFactory, look: Look, give_up: float) -> Cluster:
    """The cluster when its nodes are others, or when time is over."""
    group = request.to_placement_group()  # an autoscaler, if there is one, hears by it what is wanted
    try:
        while (now := look()) == cluster and time.monotonic() < give_up:
            time.sleep(_LOOK_EVERY_S)
        return now
    finally:
        remove_placement_group(group)
