"""The decision whether a trial that lost its process goes on: pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.config.schema import FaultSettings
from experiments.contract.words import plural

PROCESS, MEMORY, NODE, STUDY = "process", "memory", "node", "study"
"""The causes that end an attempt, as `Restarted.cause` has them."""


OUT_OF_MEMORY = "out of memory: "
"""The beginning of the reason for the loss of a trial that ran out of memory."""


@dataclass(frozen=True)
class Loss:
    """Why an attempt did not end its trial.

    Attributes:
        cause: `PROCESS`, `MEMORY` or `NODE`.
        reason: In words.
    """

    cause: str
    reason: str


INTERRUPTED = Loss(STUDY, "the study was interrupted")


def why_not_on(losses: Sequence[Loss], faults: FaultSettings) -> str:
    """Why a trial is not taken up again after its losses, the newest last; "" if it is.

    A process that died may be the trial's own fault, a node that was lost seldom is: each has its own limit. A trial
    that ran out of memory is tried once more, by itself: then what is beside it is no reason.
    """
    processes, nodes = (sum(loss.cause == cause for loss in losses) for cause in (PROCESS, NODE))
    memory = [loss.reason for loss in losses if loss.cause == MEMORY]
    if len(memory) > 1:
        return f"{memory[0]}; run again: {memory[1].removeprefix(OUT_OF_MEMORY)}"
    if nodes > faults.max_node_losses:
        return (
            f"lost its node {plural(nodes, 'time')} (faults.max_node_losses={faults.max_node_losses}): "
            f"{losses[-1].reason}"
        )
    return losses[-1].reason if processes > faults.max_restarts else ""
