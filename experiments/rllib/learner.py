"""Values that a learner logs beside RLlib's: means over an update, its KL divergence,
the time of its updates.
"""

from typing import Any

import torch
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core.columns import Columns
from ray.rllib.utils.metrics import ALL_MODULES

from experiments.rllib.clocks import LEARNER_THREAD_TIMER, sum_blocks
from experiments.rllib.results import LAST_KL, LEARNER_KEYS, LEARNER_SECONDS, MINIBATCH_MEANS


def average_over_minibatches(learner: Any) -> None:
    """Make an RLlib learner report means over the minibatches of an update as well.

    RLlib logs its losses with `window=1`: of an update with hundreds of minibatches the last one is reported. The
    original values stay, since PPO and APPO read their KL divergence back from them.

    Args:
        learner: RLlib's learner, in its own process, through `learner_group.foreach_learner`.
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
                value = torch.cat(
                    [others, torch.as_tensor(value, dtype=others.dtype, device=others.device).view(1)]
                ).nanmean()
            log_value((key[0], MINIBATCH_MEANS, key[1]), value, reduce="mean")

    def keep(module_id: str, values: dict[str, torch.Tensor]) -> None:
        before.update({(module_id, name): others for name, others in values.items()})

    metrics.log_value = log_mean_too
    # a learner of experiments.fast: it logs the last minibatch only, and shows the others
    if hasattr(learner, "minibatch_values"):
        learner.minibatch_values = keep


def time_updates(learner: Any) -> None:
    """Make an asynchronous RLlib learner report the seconds that its thread spends on updates.

    Args:
        learner: RLlib's learner, in its own process, as above.
    """
    metrics = learner.metrics

    def count(part: str, seconds: float) -> None:
        metrics.log_value((ALL_MODULES, part), seconds, reduce="sum")

    sum_blocks(metrics, lambda key: LEARNER_SECONDS if key == (ALL_MODULES, LEARNER_THREAD_TIMER) else None, count)


def log_kl(learner: Any) -> None:
    """Make PPO's learner report how far the policy is from the one that sampled, where its loss does not:
    RLlib reports 0 there.

    Args:
        learner: RLlib's learner, in its own process, as above.
    """
    if not isinstance(learner, PPOTorchLearner) or learner.config.use_kl_loss:
        return

    def log(module_id: str, batch: Any, outputs: Any) -> None:
        module = learner.module[module_id].unwrapped()
        with torch.no_grad():
            before = module.get_exploration_action_dist_cls().from_logits(batch[Columns.ACTION_DIST_INPUTS])
            now = module.get_train_action_dist_cls().from_logits(outputs[Columns.ACTION_DIST_INPUTS])
            kl, mask = before.kl(now), batch.get(Columns.LOSS_MASK)
            learner.metrics.log_value((module_id, LAST_KL), kl.mean() if mask is None else kl[mask].mean(), window=1)

    if hasattr(learner, "last_minibatch"):  # a learner of experiments.fast
        learner.last_minibatch = log
        return
    compute_loss = learner.compute_loss_for_module

    def with_kl(*, module_id: str, config: Any, batch: Any, fwd_out: Any) -> Any:
        loss = compute_loss(module_id=module_id, config=config, batch=batch, fwd_out=fwd_out)
        log(module_id, batch, fwd_out)
        return loss

    learner.compute_loss_for_module = with_kl
