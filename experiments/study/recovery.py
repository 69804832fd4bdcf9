"""Whether a trial that lost its process goes on: pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.config.schema import FaultSettings
from experiments.planning.machines import plural

PROCESS, NODE, STUDY = "process", "node", "study"
"""What ended an attempt, as `Restarted.cause` has it."""


@dataclass(frozen=True)
class Loss:
    """Why an attempt did not end its trial.

    Attributes:
        cause: `PROCESS` or `NODE`.
        reason: In words.
    """

    cause: str
    reason: str


INTERRUPTED = Loss(STUDY, "the study was interrupted")


def why_not_on(losses: Sequence[Loss], faults: FaultSettings) -> str:
    """Why a trial is not taken up again after its losses, the newest last; "" if it is.

    A process that died may be the trial's own fault, a node that was lost seldom is: each has its own limit.
    """
    processes, nodes = (sum(loss.cause == cause for loss in losses) for cause in (PROCESS, NODE))
    if nodes > faults.max_node_losses:
        return f"lost its node {plural(nodes, 'time')} (faults.max_node_losses={faults.max_node_losses}): {losses[-1].reason}"
    return losses[-1].reason if processes > faults.max_restarts else ""
