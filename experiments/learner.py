"""What a learner logs: means over an update beside the values of its last minibatch, and how long its updates take."""

from typing import Any

import torch
from ray.rllib.utils.metrics import ALL_MODULES

from experiments.metrics import LEARNER_KEYS, LEARNER_SECONDS, LEARNER_THREAD_TIMER, MINIBATCH_MEANS, sum_blocks


def average_over_minibatches(learner: Any) -> None:
    """Make an RLlib learner report means over the minibatches of an update as well.

    RLlib logs its losses with `window=1`: of an update with hundreds of minibatches the last one is reported. The original values
    stay, since PPO and APPO read their KL divergence back from them.

    Args:
        learner: In its own process, through `learner_group.foreach_learner`.
    """
    metrics = learner.metrics
    log_value = metrics.log_value
    averaged = {key for keys in LEARNER_KEYS.values() for key in keys} | {"logps"}
    before: dict[tuple[str, str], torch.Tensor] = {}

    def log_mean_too(key: Any, value: Any, **kwargs: Any) -> None:
        log_value(key, value, **kwargs)
        if kwargs.get("window") == 1 and isinstance(key, tuple) and len(key) == 2 and key[1] in averaged:
            # Detached: an unwindowed series would keep the graph of every minibatch alive.
            value = value.detach() if isinstance(value, torch.Tensor) else value
            if (others := before.pop(key, None)) is not None:
                value = torch.cat([others, torch.as_tensor(value, dtype=others.dtype, device=others.device).view(1)]).nanmean()
            log_value((key[0], MINIBATCH_MEANS, key[1]), value, reduce="mean")

    def keep(module_id: str, values: dict[str, torch.Tensor]) -> None:
        before.update({(module_id, name): others for name, others in values.items()})

    metrics.log_value = log_mean_too
    if hasattr(learner, "minibatch_values"):  # a learner of experiments.fast: it logs the last minibatch only, and shows the others
        learner.minibatch_values = keep


def time_updates(learner: Any) -> None:
    """Make an asynchronous RLlib learner report the seconds that its thread spends on updates.

    Args:
        learner: In its own process, as above.
    """
    metrics = learner.metrics

    def count(part: str, seconds: float) -> None:
        metrics.log_value((ALL_MODULES, part), seconds, reduce="sum")

    sum_blocks(metrics, lambda key: LEARNER_SECONDS if key == (ALL_MODULES, LEARNER_THREAD_TIMER) else None, count)
