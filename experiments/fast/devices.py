"""On which devices the fast learners take the place of RLlib's."""

import torch

COMPARED = {"cpu"}
"""Types of devices where their weights were compared with those of RLlib's, to the bit; `tests/fast/test_gpu.py` compares them on a GPU."""


def why_stock(device: torch.device) -> str | None:
    """The reason why RLlib's own code has to learn on a device; None if there is none."""
    if device.type in COMPARED:
        return None
    return f"a learner on a device of type {device.type}, where the bits were not compared with RLlib's"
