"""A process enters its trial's folder, on whichever node it is."""

import errno
from time import sleep

from experiments.trial.attempt import UnfitNodeError
from experiments.trial.folder import TrialFolder
from experiments.trial.usage.pauses import unpaused_s

_SHARED_WITHIN_S = 10.0
"""Until what the driver wrote must be seen on every node: a network file system may take seconds."""


def enter(folder: TrialFolder, attempt: int) -> None:
    """Open a trial's folder, once it is sure to be the driver's, who has begun the attempt in its log:
    a node that joined later was not asked.

    Args:
        folder: The trial's.
        attempt: The attempt's number; 0 if the driver has begun none.

    Raises:
        UnfitNodeError: It is not the driver's, or it cannot be written.
    """
    log, give_up = folder.log, unpaused_s() + _SHARED_WITHIN_S
    try:
        log.new()
        while log.attempt < attempt:
            if unpaused_s() >= give_up:
                raise UnfitNodeError(f"what the driver writes in {folder.path} is not there")
            sleep(0.5)
            log.new()
        folder.open()
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):  # a full disk is no fault of the node's
            raise
        raise UnfitNodeError(f"{folder.path} cannot be written ({error.strerror})") from None
