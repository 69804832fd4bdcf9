"""PPO-EWMA: PPO that learns the same whatever its batch, and from old samples (Hilton et al. 2022, arXiv 2110.00641).

PPO's old policy has two roles: it corrects for who sampled, for which it must be the policy that did, and it holds the
new policy back, for which it must be recent, in env steps. Here the second role has a policy of its own, the proximal
policy: an average of the weights after every gradient step. With minibatches a factor c smaller, and as many of them in
a training batch, as much is learned from as many env steps if

- Adam's learning rate is divided by sqrt(c),
- the centers of mass 1 / (1 - beta) - 1 of its two averages are multiplied by c (by the same reasoning;
  not known to be the paper's),
- the center of mass of the average of weights is multiplied by c: in env steps it stays where it was,
- advantages are standardised over c times as many batches, 1 / (1 - decay) = c.

The paper takes one epoch, and batches well below the critical one.
"""

from collections import deque
from typing import Any, Literal, Self

from ray.rllib.algorithms.ppo.ppo import PPO
from ray.rllib.execution.rollout_ops import synchronous_parallel_sample
from ray.rllib.utils.from_config import NotProvided
from ray.rllib.utils.metrics import (
    ALL_MODULES,
    ENV_RUNNER_RESULTS,
    ENV_RUNNER_SAMPLING_TIMER,
    LEARNER_RESULTS,
    LEARNER_UPDATE_TIMER,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_MODULE_STEPS_TRAINED_LIFETIME,
    SYNCH_WORKER_WEIGHTS_TIMER,
    TIMERS,
)

from experiments.rllib.moving_averages import decay_at, window_decay
from experiments.rllib.ppo import PPOConfig
from experiments.rllib.ppo_ewma_learner import FastPPOEWMATorchLearner, PPOEWMATorchLearner
from experiments.rllib.recurrent import STACKED


class PPOEWMAConfig(PPOConfig):
    """The suite's configuration of PPO, with a proximal policy of its own.

    Attributes:
        proximal_policy: `ewma`, an average of weights; or `sampling`, the policy that sampled: PPO.
        proximal_center_of_mass: How many gradient steps the average lies back,
            with minibatches of `base_minibatch_size`.
        adjusted: Whether settings are adjusted to minibatches of another size than that.
        base_minibatch_size: Rows of a minibatch with which `lr` and the other settings hold as they are.
        staleness: Training iterations for which samples wait before they are learned from.
    """

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class=algo_class or PPOEWMA)
        self.proximal_policy = "ewma"
        self.proximal_center_of_mass = 8.0
        self.adjusted = True
        self.base_minibatch_size = 128
        self.staleness = 0

    def training(
        self,
        *,
        proximal_policy: Literal["ewma", "sampling"] = NotProvided,
        proximal_center_of_mass: float = NotProvided,
        adjusted: bool = NotProvided,
        base_minibatch_size: int = NotProvided,
        staleness: int = NotProvided,
        **kwargs: Any,
    ) -> Self:
        """As RLlib's, with the settings above."""
        super().training(**kwargs)
        own = {
            "proximal_policy": proximal_policy,
            "proximal_center_of_mass": proximal_center_of_mass,
            "adjusted": adjusted,
            "base_minibatch_size": base_minibatch_size,
            "staleness": staleness,
        }
        for name, value in own.items():
            if value is not NotProvided:
                setattr(self, name, value)
        return self

    @property
    def averages_weights(self) -> bool:
        """True if the proximal policy is an average of weights."""
        return self.proximal_policy == "ewma"

    @property
    def batch_factor(self) -> float:
        """The paper's c: how many times as large the base minibatch is; 1 where nothing is adjusted."""
        return self.base_minibatch_size / self.minibatch_size if self.adjusted else 1.0

    @property
    def adjusted_lr(self) -> Any:
        """The learning rate, or its schedule, for these minibatches."""
        factor = self.batch_factor**-0.5
        if isinstance(self.lr, list):
            return [[env_steps, rate * factor] for env_steps, rate in self.lr]
        return self.lr * factor

    @property
    def proximal_decay(self) -> float:
        """Of the average of weights, for these minibatches."""
        return decay_at(self.batch_factor * self.proximal_center_of_mass)

    @property
    def advantage_decay(self) -> float:
        """Of the moments of advantages; 0 where each batch has its own."""
        return window_decay(self.batch_factor)

    def get_default_learner_class(self) -> type:
        """PPO-EWMA's."""
        return PPOEWMATorchLearner

    def get_fast_learner_class(self) -> type:
        """The same, fast: `make_fast` takes it."""
        return FastPPOEWMATorchLearner

    def validate(self) -> None:
        """As RLlib's.

        Raises:
            ValueError: A setting has no meaning here.
        """
        super().validate()
        if self.minibatch_size is None:
            raise ValueError(
                "algorithm.training.minibatch_size=null: PPO-EWMA is adjusted to its size. Give it a number."
            )
        if self.num_learners > 1:
            raise ValueError(
                f"algorithm.learners.num_learners={self.num_learners}: PPO-EWMA averages in one learner. Try 0 or 1."
            )
        if self.averages_weights and self.use_kl_loss:
            raise ValueError("algorithm.training.use_kl_loss=true: PPO-EWMA's objective clips. Try use_kl_loss=false.")
        if self.averages_weights and self.model_config.get("use_lstm"):
            raise ValueError(
                "algorithm.rl_module.use_lstm=true: an average of recurrent networks has no memory. "
                f"Try algorithm=ppo, or {STACKED}."
            )


class PPOEWMA(PPO):  # type: ignore[misc]  # RLlib ships no type information
    """RLlib's PPO, whose samples may be learned from some iterations later: artificial staleness, as in the paper.

    Attributes:
        waiting: Batches of episodes that were not learned from yet, the oldest first.
    """

    def setup(self, config: Any) -> None:
        """As RLlib's."""
        super().setup(config)
        self.waiting: deque[list[Any]] = deque()

    def training_step(self) -> None:
        """As RLlib's, with the batch that was sampled `staleness` iterations ago;
        nothing is learned in the first ones.
        """
        if not self.config.staleness:
            super().training_step()
            return
        with self.metrics.log_time((TIMERS, ENV_RUNNER_SAMPLING_TIMER)):
            episodes, results = synchronous_parallel_sample(
                worker_set=self.env_runner_group,
                max_env_steps=self.config.total_train_batch_size,
                sample_timeout_s=self.config.sample_timeout_s,
                _uses_new_env_runners=True,
                _return_metrics=True,
            )
            if not episodes:
                return
            self.metrics.aggregate(results, key=ENV_RUNNER_RESULTS)
        self.waiting.append(episodes)
        if len(self.waiting) > self.config.staleness:
            self._learn_from(self.waiting.popleft())

    def _learn_from(self, episodes: list[Any]) -> None:
        """The second half of RLlib's training step (algorithms/ppo/ppo.py)."""
        sampled, trained = (
            (ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME),
            (LEARNER_RESULTS, ALL_MODULES, NUM_MODULE_STEPS_TRAINED_LIFETIME),
        )
        with self.metrics.log_time((TIMERS, LEARNER_UPDATE_TIMER)):
            results = self.learner_group.update(
                episodes=episodes,
                timesteps={
                    NUM_ENV_STEPS_SAMPLED_LIFETIME: self.metrics.peek(sampled),
                    NUM_MODULE_STEPS_TRAINED_LIFETIME: self.metrics.peek(trained, default=0),
                },
                num_epochs=self.config.num_epochs,
                minibatch_size=self.config.minibatch_size,
                shuffle_batch_per_epoch=self.config.shuffle_batch_per_epoch,
            )
            self.metrics.aggregate(results, key=LEARNER_RESULTS)
        with self.metrics.log_time((TIMERS, SYNCH_WORKER_WEIGHTS_TIMER)):
            self.env_runner_group.sync_weights(
                from_worker_or_learner_group=self.learner_group,
                policies=set(results[0].keys()) - {ALL_MODULES},
                inference_only=True,
            )
