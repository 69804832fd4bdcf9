"""The metric contract: names and units; how stores are addressed, and what of the shell they are told.

Standard library only.
"""

PROGRAM = "rl-scaling"
"""What is installed, of which each command is a part."""
MAX_REPORTS = 320
"""Points of a curve that MLflow's UI draws without sampling: what a trial has at most."""
MAX_ENVS = 100
"""Environments that an evaluation steps side by side; more episodes come in turns."""
CONSTRAINTS = ("failure_probability", "memory_gib", "hours", "cost")
"""What a study may limit of the configuration that it recommends: the settings of `constraints`."""

METRICS: dict[str, str] = {
    "eval/return_mean": "mean return of the deterministic policy over held-out episodes",
    "eval/return_std": "standard deviation of the same returns over episodes",
    "eval/episode_len_mean": "env steps per evaluation episode, mean",
    "train/return_mean": "mean return of the episodes that ended since the last report",
    "train/return_min": "lowest of them",
    "train/return_max": "highest of them",
    "train/episode_len_mean": "env steps per episode, mean of the same episodes",
    "train/episodes": "how many they are",
    "train/phase_diversity": (
        "how evenly the rows of a training batch are spread over the episode: 0 all at the same time of it, 1 evenly"
    ),
    "throughput/env_steps_per_s": "env steps per training second since the last report",
    "throughput/trained_steps_per_s": (
        "steps that the learner consumed per training second; on-policy: each once, whatever the epochs"
    ),
    "throughput/sample_share": "share of training seconds spent sampling, or waiting for samples",
    "throughput/learn_share": "share of training seconds spent in learner updates and the replay buffer",
    "throughput/sync_share": "share of training seconds spent sending weights and connector states",
    "throughput/other_share": "the rest of the training seconds",
    "throughput/pauses": (
        "pauses since the last report: times that the machine or the trial's process stood still; absent without one"
    ),
    "time/env_step_share": "share of the wall-clock since the last report spent stepping environments",
    "time/inference_share": "share of it spent in the policy that acts",
    "time/connectors_share": "share of it spent on connectors, and on making episodes of steps",
    "time/transfer_share": "share of it spent moving samples from the runners to the trial's process",
    "time/waiting_share": "share of it spent waiting for the slowest runner",
    "time/learn_share": "share of it spent in learner updates and the replay buffer",
    "time/sync_share": "share of it spent sending weights and connector states",
    "time/evaluation_share": "share of it spent in evaluations",
    "time/logging_share": "share of it spent on reports and checkpoints",
    "time/unexplained_share": "the rest of it",
    "progress/env_steps": "env steps sampled so far",
    "progress/iterations": "RLlib iterations so far",
    "progress/updates": "gradient steps so far",
    "progress/train_s": "training seconds so far",
    "progress/wall_s": "seconds since the trial started, all but pauses included",
    "progress/batch_env_steps": "env steps collected per training batch, mean since the last report",
    "learner/loss": "total loss, mean over the minibatches of the last iteration",
    "learner/policy_loss": "policy loss, likewise",
    "learner/value_loss": "value or Q loss per sample, unclipped, likewise",
    "learner/entropy": "policy entropy in nats, likewise",
    "learner/kl": (
        "KL divergence to the sampling policy in nats; PPO without a KL loss: of the last minibatch of an update"
    ),
    "learner/grad_norm": "global gradient norm before clipping, likewise",
    "learner/lr": "learning rate",
    "learner/explained_variance": "share of the returns' variance that the value function explains",
    "learner/staleness_updates": "updates between the policy that sampled and the one that learns",
    "system/cpu_percent": "CPU of the trial's process tree; 100 is one core",
    "system/memory_mib": "resident memory of the trial's process tree, MiB",
    "system/driver_cpu_percent": "CPU of the trial's own process, where it has others; 100 is one core",
    "system/runners_cpu_percent": "CPU of its env runners, likewise",
    "system/learners_cpu_percent": "CPU of its learners, likewise",
    "system/driver_memory_mib": "resident memory of the trial's own process, where it has others, MiB",
    "system/runners_memory_mib": "resident memory of its env runners, MiB",
    "system/learners_memory_mib": "resident memory of its learners, MiB",
    "system/machine_cpu_percent": "CPU use of the machine that the trial's own process is on; 100 is all its cores",
    "system/other_cpu_percent": "CPU of what is not the study's on it; 100 is one core",
    "system/stolen_cpu_percent": (
        "CPU that the machine, a virtual one, wanted and its host gave to others; 100 is one core; absent without any"
    ),
    "system/cpu_pressure_percent": "share of the time in which something on the machine waited for a CPU, percent",
    "system/runner_cpu_share": "share of the runners' sampling seconds in which they had a CPU",
    "system/gpu_percent": "use of the GPUs that the trial's processes see, mean over them and the time",
    "final/score": "mean return of the final evaluation",
    "final/auc": (
        "area under eval/return_mean up to the budget, divided by it; a trial that stops early keeps its last value"
    ),
    "final/env_steps_to_target": "env steps until eval/return_mean first holds the target for 2 evaluations",
    "final/seconds_to_target": "training seconds until then",
    "final/score_in_minutes": (
        "mean return of the last evaluation within the minutes that the study's objective names, starting counted; "
        "final/score of a trial that ended by then"
    ),
    "final/env_steps_per_s": "env steps per training second over the trial, warm-up left out",
    "final/trained_steps_per_s": "steps that the learner consumed per training second, likewise",
    "final/staleness_updates": (
        "updates between the policy that sampled and the one that learned, mean over the trial's updates; "
        "of algorithms that sample while they learn"
    ),
    "final/disturbed_share": (
        "share of a throughput's seconds in which others used more of the machine than the measurement allows"
    ),
    "final/memory_mib": "peak of the resident memory of the trial's processes, MiB",
    "final/start_s": "seconds until its networks were built and its runners started, before training",
    "final/train_s": "training seconds of the trial",
    "final/wall_s": "seconds of the trial, all but pauses included",
    "final/paused_s": (
        "seconds in which the machine or the trial's process stood still, part of no other metric; absent without any"
    ),
}
"""The allow-list: every metric that may reach MLflow, and what it means."""


TIME_PARTS = tuple(name.removeprefix("time/").removesuffix("_share") for name in METRICS if name.startswith("time/"))
"""The parts of the wall-clock, as in the metrics `time/*_share`."""


RETURN, SCORE = "eval/return_mean", "final/score"
"""The metrics by which trials are compared while they run, and at their end."""


def depends_on_clock(metric: str) -> bool:
    """True if a metric measures time or load, and so differs between two runs of one trial
    that are otherwise the same.
    """
    of_machine = metric.startswith(("system/", "throughput/", "time/"))
    return of_machine or metric.endswith(("_s", "/seconds_to_target", "/score_in_minutes", "/memory_mib"))


FINISHED, PRUNED, FAILED = "finished", "pruned", "failed"
"""How a trial ends: with its whole budget, before that by an early-stopping rule, or for good with a reason."""


FIXED, SEARCH, CONFIRM, THROUGHPUT = "fixed", "search", "confirm", "throughput"
"""Phases of trials: of a design that was known before, asked for by a search, of what it found on held-out seeds, and
where throughput is measured."""


RESUME_MAY_CHANGE = (
    "output_dir",
    "tracking",
    "tracking.uri",
    "tracking.timeout_s",
    "hardware.address",
    "report",
    "report.video",
    "dry_run",
)
"""Settings that a study that goes on may be given anew: all others are as it began."""


NAMED_AXES = {"learning_rate": "lr", "batch_size": "batch", "update_to_data": "update_to_data"}
"""Names of axes that any algorithm may have, whose values are relative to its base point. Where one moves several
settings at once, the parameters `lr_multiple` and `lr_rule` say how; here is what these begin with."""


_OF_THE_BATCH = ("batch_size", "batch_multiple", "train_batch_size_per_learner", "train_batch_size_total")


def is_work(axis: str) -> bool:
    """True for a setting of learning that may change what the learner does with an env step, and so how long that
    takes: all but learning rates, which change nothing of it, and the batch.

    Args:
        axis: Its dotted path, its name as an axis, or its column.
    """
    leaf = axis.rpartition(".")[2]
    is_rate = leaf in ("learning_rate", "lr") or leaf.startswith("lr_") or leaf.endswith("_lr")
    return not is_rate and leaf not in _OF_THE_BATCH


COLUMNS = frozenset(
    (
        *(name.removeprefix("final/") for name in METRICS if name.startswith("final/")),
        *(
            "run_id",
            "config",
            "config_id",
            "algorithm",
            "env",
            "hardware",
            "phase",
            "seed",
            "repeat",
            "status",
            "failure",
            "diverged",
        ),
        *(
            "exclusive",
            "host",
            "cpu",
            "gpu",
            "node_type",
            "exploratory",
            "trial_id",
            "parent",
            "copied",
            "generation",
            "start_env_steps",
        ),
        *(
            "bottleneck",
            "health",
            "weights",
            "reused_from",
            "restarts",
            "reproducible",
            "started",
            "ended",
            "end_env_steps",
            "budget_env_steps",
            "target",
        ),
        *("score_range_low", "score_range_high", "failure_below", "delta", "objective", "price_per_hour", "commit"),
        *("minutes_to_target", "cost_to_target"),
        *("comparison_seeds_per_look", "comparison_looks", "comparison_alpha"),
        *(f"constraint_{name}" for name in CONSTRAINTS),
        *("metric", "env_steps", "value"),
    )
)
"""Columns of the frames of a study (`analysis.load`) that are none of its parameters:
what is searched is called otherwise."""


def of_generation(settings: str, generation: int) -> str:
    """The name of a configuration of a population: its settings, and the generation that trains with them."""
    return f"{settings} g={generation}"


# Names in MLflow.

AT_BASE = "base"
"""The name of every rule of a setting (parameter `lr_rule`) at its base batch, where they all say the same."""

INDEX_EXPERIMENT = "studies"
"""The experiment with a run per execution of a study."""


NOT_HASHED = (
    *("seed", "checkpoint", "faults", "objective", "repeat", "label", "rules", "multiples", "phase", "exploratory"),
)
"""Of a trial's record (config.json), what is no part of its configuration's hash; of `checkpoint`, the spacing is."""


class Tag:
    """Names of the tags of runs: of studies (S), of trials (T)."""

    KIND = "kind"  # S, T: study or trial
    STUDY = "study"  # S, T
    ALGORITHM = "algorithm"  # S, T
    ENV = "env"  # S, T
    HARDWARE = "hardware"  # S, T: its profile
    EXCLUSIVE = "exclusive"  # S: whether trials were to run alone; T: whether it had its machines to itself
    HOST = "host"  # T: the machines that its processes ran on, its own process' first
    CPU = "cpu"  # T: models of their CPUs
    GPU = "gpu"  # T: models of the GPUs that it had; none without one
    NODE_TYPE = "node_type"  # T: node groups of an autoscaling cluster, if it ran in one
    NOTE = "mlflow.note.content"  # S: question and answer
    QUESTION = "question"  # S
    ANSWERS = "answers"  # S: JSON, a sentence for each environment
    COMMAND = "mlflow.source.name"  # S, T
    COMMIT = "mlflow.source.git.commit"  # S, T
    STUDY_FOLDER = "study_folder"  # S: where its state and its checkpoints are
    BEST = "best"  # S: the chosen configurations
    CONFIRMS = "confirms"  # S: the run of the study whose recommendation it runs again on fresh seeds
    LIMIT = "limit"  # S: which one ended it before it was done
    STUDY_RUN = "study_run"  # T: the id of its study's run
    CONFIG = "config"  # T: readable, without the seed
    CONFIG_ID = "config_id"  # T: of its hash
    SEED = "seed"  # T
    REPEAT = "repeat"  # T
    PHASE = "phase"  # T: search, confirm, throughput or fixed
    EXPLORATORY = "exploratory"  # T: whether other trials confirm what it found
    TRIAL_ID = "trial_id"  # T
    PARENT = "parent"  # T: the trial whose weights it started from
    COPIED = "copied"  # T: whether that one is another member's
    GENERATION = "generation"  # T: of a population, from 0
    FAILURE = "failure"  # T: the reason
    DIVERGED = "diverged"  # T: whether it failed on a value that was not finite
    RESTARTS = "restarts"  # T
    REPRODUCIBLE = "reproducible"  # T: whether it must come out the same to the bit
    REUSED_FROM = "reused_from"  # T: the run of another study's trial that it was taken from, in place of running
    BITS = "bits"  # T: portable, if on other processors too
    WEIGHTS = "weights"  # T: a digest of the final ones
    UNSAVED = "unsaved"  # T: why a checkpoint was not written
    STOPPED_AT = "stopped_at_env_steps"  # T: where a scheduler ended it
    BOTTLENECK = "bottleneck"  # T
    HEALTH = "health"  # T
