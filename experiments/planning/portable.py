"""What cannot come out the same on another processor."""

from experiments.config.errors import ConfigurationError
from experiments.config.trial_config import TrialConfig
from experiments.limits.arithmetic import lacking
from experiments.planning.machines import Cluster
from experiments.planning.resources import Layout
from experiments.rllib.algorithms import is_asynchronous


def check_portable(trial: TrialConfig, layout: Layout, cluster: Cluster) -> None:
    """Refuse what cannot be promised before anything starts.

    Args:
        trial: Of a study with `bits=portable`.
        layout: Its processes.
        cluster: The machines; of one that is joined, each process looks for itself.

    Raises:
        ConfigurationError: It cannot; names the fix.
    """
    fix = "Leave bits=portable out"
    if is_asynchronous(trial.algorithm):
        raise ConfigurationError(
            f"bits=portable: {trial.algorithm['name']} samples while it learns, and comes out otherwise on the same "
            f"machine. {fix}, or try algorithm=ppo."
        )
    if layout.num_gpus_per_learner:
        raise ConfigurationError(f"bits=portable: GPUs differ by their kind. {fix}, or try hardware.num_gpus=0.")
    if trial.env.backend != "gymnasium":
        raise ConfigurationError(
            f"bits=portable: EnvPool does not even promise the same bits on one machine. {fix}, or try "
            "env.backend=gymnasium."
        )
    if not cluster.is_joined and (lacks := lacking()):
        raise ConfigurationError(f"bits=portable: {lacks}. {fix}.")
