"""The disk space that a study takes, beside the room that there is."""

from pathlib import Path

from experiments.config.errors import ConfigurationError
from experiments.config.search_settings import Pbt
from experiments.contract.words import labelled, mib
from experiments.limits.disk import free_bytes, used_share
from experiments.planning.plan import Plan

_TRIAL_FILES_BYTES, _REPORT_BYTES = 150_000, 6_000
"""Of a trial in an embedded store: its files, and the metrics of a report. As measured on the default study, about."""
_RAYS_MOST = 0.95
"""Of a disk (`local_fs_capacity_threshold` in ray_config_def.h)."""
_TIGHT = 0.8
"""Share of the room from which on a study is warned of: others write as well."""


def kept_bytes(plan: Plan) -> float:
    """About how many bytes the checkpoints take that a study leaves: without a replay buffer,
    unless somebody goes on from them.
    """
    policy = plan.suite.checkpoint
    sizes = [(policy.keep + policy.keep_best) * c.final_bytes for c in plan.configurations]
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


def store_bytes(plan: Plan) -> float:
    """About how many bytes a study takes in an embedded store of MLflow: its metrics, and files of each trial."""
    reports = plan.suite.budget_env_steps / plan.report_every_env_steps
    return plan.num_trials * (_TRIAL_FILES_BYTES + reports * _REPORT_BYTES)


def check_store_disk(plan: Plan, folder: Path) -> None:
    """Make sure that there is room where an embedded store is.

    Args:
        plan: The study, which was not begun.
        folder: The folder that the store's database is in.

    Raises:
        ConfigurationError: There is not.
    """
    if (needed := store_bytes(plan)) > (free := free_bytes(folder)):
        raise ConfigurationError(
            f"{folder}: the store of MLflow takes about {mib(needed)} more, and {mib(free)} are free. Free some "
            "(experiments/delete.py deletes studies), or choose another disk: output_dir=/path, or tracking.uri=..."
        )


def full_line(folder: Path) -> str:
    """A warning where Ray's files are on a disk that is nearly full, on which it makes no large objects; else ""."""
    if (used := used_share(folder)) < _RAYS_MOST:
        return ""
    return labelled(
        "disk",
        f"the disk of {folder} is {used:.0%} full: from {_RAYS_MOST:.0%} on Ray puts nothing on it that does not fit "
        "into its memory, such as large batches on their way. Free some, or choose another: RAY_TMPDIR=/path",
    )


def _saving(plan: Plan, times: float) -> str:
    """What makes it so many times smaller."""
    policy = plan.suite.checkpoint
    if policy.keep > 1:
        return "Keep fewer of each trial: checkpoint.keep=1"
    capacity = max(c.facts["replay_capacity"] or 0 for c in plan.configurations)
    if policy.replay and capacity:
        fits = int(0.95 * min(capacity, plan.suite.budget_env_steps) / times)  # networks lie beside it
        without = "" if isinstance(plan.suite.scheduler, Pbt) else "Leave it out: checkpoint.replay=false, or make"
        return (
            f"They hold the replay buffer. {without or 'Make'} it smaller: "
            f"++algorithm.training.replay_buffer_config.capacity={fits}"
        )
    return "Run fewer trials: seeds=[0,1]"
