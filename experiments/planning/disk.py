"""The disk space that a study takes, beside the room that there is."""

from experiments.config.errors import ConfigurationError
from experiments.contract.words import labelled, mib
from experiments.planning.plan import Plan

_TIGHT = 0.8
"""Share of the room from which on a study is warned of: others write as well."""


def kept_bytes(plan: Plan) -> float:
    """About how many bytes the checkpoints take that a study leaves: of each trial the last one, which is without a
    replay buffer where nobody goes on from it, and those before that are kept.
    """
    policy = plan.suite.checkpoint
    before = policy.keep + policy.keep_best - 1
    sizes = [c.final_bytes + before * c.checkpoint_bytes for c in plan.configurations]
    return 0 if plan.is_measured else sum(sizes) / len(sizes) * plan.num_trials


def needed_bytes(plan: Plan) -> float:
    """The most that they take at a time: each running trial has its full ones, and one more while it is written."""
    if plan.is_measured:
        return 0
    policy, running = plan.suite.checkpoint, min(plan.concurrency, plan.num_trials)
    largest = max(c.checkpoint_bytes for c in plan.configurations)
    full = (policy.keep + policy.keep_best + 1) * largest
    return kept_bytes(plan) * (1 - running / plan.num_trials) + running * full


def check_disk(plan: Plan, free_bytes: int) -> None:
    """Make sure that a study has room for its checkpoints.

    Args:
        plan: The study, which was not begun.
        free_bytes: Bytes that are free where the checkpoints will be.

    Raises:
        ConfigurationError: It has not; names the setting that saves most.
    """
    if (needed := needed_bytes(plan)) > free_bytes:
        raise ConfigurationError(
            f"output_dir={plan.suite.output_dir}: the study's checkpoints take {mib(needed)} at a time, and "
            f"{mib(free_bytes)} are free. {_saving(plan, needed / max(1, free_bytes))}, or choose another disk: "
            "output_dir=/path."
        )


def disk_line(plan: Plan, free_bytes: int) -> str:
    """A warning where it becomes tight; else ""."""
    needed = needed_bytes(plan)
    if needed < _TIGHT * free_bytes:
        return ""
    return labelled("disk", f"checkpoints take up to {mib(needed)}, and {mib(free_bytes)} are free")


def _saving(plan: Plan, times: float) -> str:
    """What makes it so many times smaller."""
    policy = plan.suite.checkpoint
    if policy.keep > 1:
        return "Keep fewer of each trial: checkpoint.keep=1"
    if capacity := max(c.facts["replay_capacity"] or 0 for c in plan.configurations):
        fits = int(0.95 * min(capacity, plan.suite.budget_env_steps) / times)  # networks lie beside it
        return (
            f"They hold the replay buffer. Make it smaller: ++algorithm.training.replay_buffer_config.capacity={fits}"
        )
    return "Run fewer trials: seeds=[0,1]"
