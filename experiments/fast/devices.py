"""On which devices the fast learners take the place of RLlib's."""

import torch


def why_stock(device: torch.device) -> str | None:
    """The reason why RLlib's own code has to learn on a device; None if there is none.

    The bits were compared on CPUs alone. On a GPU torch's Adam steps over all parameters at once;
    divisions and norms round differently.
    """
    return (
        None
        if device.type == "cpu"
        else f"a learner on a device of type {device.type}, where the bits were not compared with RLlib's"
    )
