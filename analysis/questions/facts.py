"""Facts of a trial beside what it logged."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Facts:
    """Facts of a trial beside what it logged.

    Attributes:
        num_env_runners: 0: the trial's own process samples.
        num_envs_per_env_runner: Environments of each.
        num_learners: 0: the trial's own process learns.
        num_gpus_per_learner: 0: it learns on CPUs.
        vectorize_mode: sync, async or vector_entry_point; "" if unknown.
        num_cpus: Of the machine; None if unknown.
        num_gpus: Of the machine.
        exclusive: Whether the trial had the machine to itself.
        has_vector_entry_point: Whether the environment brings a vector implementation of its own.
        max_entropy: Of a discrete action space: ln(actions), nats. None: continuous or unknown.
        action_dims: Of a Box. None: discrete or unknown.
        target: The environment's, a return; None if it has none.
        score: Of the final evaluation; None if unknown.
        asynchronous: Whether the algorithm samples while it learns.
        replays: Whether it learns from a replay buffer.
        kl_target: Of the algorithm; None for RLlib's default.
        replay_capacity: Env steps that its replay buffer holds; None if it has none, or is unknown.
        batch_env_steps: Of a training batch of all learners; None if unknown.
    """

    num_env_runners: int
    num_envs_per_env_runner: int
    num_learners: int = 0
    num_gpus_per_learner: float = 0.0
    vectorize_mode: str = ""
    num_cpus: int | None = None
    num_gpus: float = 0.0
    exclusive: bool = True
    has_vector_entry_point: bool = False
    max_entropy: float | None = None
    action_dims: int | None = None
    target: float | None = None
    score: float | None = None
    asynchronous: bool = False
    replays: bool = False
    kl_target: float | None = None
    replay_capacity: int | None = None
    batch_env_steps: int | None = None

    @property
    def on_policy(self) -> bool:
        """True if the algorithm learns from what its newest policy sampled, and samples nothing meanwhile."""
        return not self.asynchronous and not self.replays

    @property
    def env_processes(self) -> bool:
        """True if each environment has a process of its own."""
        return self.vectorize_mode == "async" and self.num_envs_per_env_runner > 1

    @property
    def processes(self) -> int:
        """Processes that may want a core: runners (or their environments), learners,
        and the trial's own beside remote runners.
        """
        sampling = max(1, self.num_env_runners) * (self.num_envs_per_env_runner if self.env_processes else 1)
        return sampling + self.num_learners + (1 if self.num_env_runners else 0)
