"""What a trial counts, and saves with each of its checkpoints."""

from dataclasses import dataclass, field


@dataclass
class Counters:
    """Counts of a trial so far: saved with each of its checkpoints.

    Attributes:
        grid_env_steps: The last report.
        env_steps: Env steps sampled.
        iterations: Training iterations of RLlib.
        updates: Gradient steps.
        trained: Steps that the learner consumed.
        staleness_sum: Summed over gradient steps, the updates between the policy that sampled and the one that
            learned.
        staleness_steps: The gradient steps of this sum.
        train_s: Training seconds.
        start_s: Seconds until it was built, its runners started, by the process that began it.
        wall_s: Seconds, all but pauses included, of the processes before this one.
        paused_s: Seconds of pauses, likewise.
        warm: `env_steps`, `train_s` and `trained` at the first report: what comes before is warm-up.
        curve: (env steps, return) of each evaluation.
        at_s: `start_s` and training seconds at each.
        since: As in `TargetWatch`.
        reached: As in `TargetWatch`.
        episode_len: Mean env steps of the episodes that ended last; None before any has.
        kept_in_process: State that code not the suite's had changed in the trial's processes by the last checkpoint
            (`ProcessState`); None if that was not looked at.
    """

    grid_env_steps: int = 0
    env_steps: int = 0
    iterations: int = 0
    updates: int = 0
    trained: float = 0.0
    staleness_sum: float = 0.0
    staleness_steps: int = 0
    train_s: float = 0.0
    start_s: float = 0.0
    wall_s: float = 0.0
    paused_s: float = 0.0
    warm: tuple[int, float, float] | None = None
    curve: list[tuple[float, float]] = field(default_factory=list)
    at_s: list[float] = field(default_factory=list)
    since: tuple[float, float] | None = None
    reached: tuple[float, float] | None = None
    episode_len: float | None = None
    kept_in_process: list[str] | None = None
