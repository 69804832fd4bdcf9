"""Where the processes of a trial may be: on any node that the study uses."""

from collections.abc import Callable, Set
from inspect import signature
from typing import Any

from ray.tune import PlacementGroupFactory
from ray.util.placement_group import PlacementGroup
from ray.util.placement_group import placement_group as ask_ray

_NODE_ID = "ray.io/node-id"
"""Ray's own label of each node."""
_ASK = signature(ask_ray)


class StudyPlacement(PlacementGroupFactory):  # type: ignore[misc]  # Tune ships no type information
    """A trial's request, met on the nodes that the study uses at that moment.

    Equal to the request itself, so that processes are shared.
    """

    def __init__(self, request: PlacementGroupFactory, unused: Callable[[], Set[str]]) -> None:
        """Meet a request elsewhere than on some nodes.

        Args:
            request: The processes that the trial asks for.
            unused: Gives the ids of the nodes that are left out.
        """
        super().__init__(*request._bound.args, **request._bound.kwargs)
        self._head_bundle_is_empty = request.head_bundle_is_empty
        self._unused = unused

    def __reduce__(self) -> tuple[Any, ...]:  # Tune saves it with the experiment
        return PlacementGroupFactory, (self._bundles, self._strategy)

    def to_placement_group(self) -> PlacementGroup:
        """Ask Ray for the processes' places."""
        asked = _ASK.bind(*self._bound.args, **self._bound.kwargs).arguments
        if unused := self._unused():
            elsewhere = {_NODE_ID: f"!in({','.join(sorted(unused))})"}
            selectors = asked.get("bundle_label_selector") or [{} for _ in self._bundles]
            asked["bundle_label_selector"] = [{**selector, **elsewhere} for selector in selectors]
        return ask_ray(**asked)
