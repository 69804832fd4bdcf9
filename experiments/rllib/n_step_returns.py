"""Returns of several env steps: which replay buffer makes them."""

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.sac import SACConfig

from experiments.config.errors import ConfigurationError
from experiments.config.rllib_settings import N_STEP_BUFFER
from experiments.fast.replay import N_STEP_BUFFER_PATH

_UNIFORM = "EpisodeReplayBuffer"
_MOST = 3
"""Up to so many env steps RLlib's uniform buffer counts each row that it draws as one."""


def take_returns(config: AlgorithmConfig) -> None:
    """Give an algorithm the replay buffer of the suite where it asks for that, and check `n_step` for the uniform one.

    The latter takes rows back from its count where a return would reach beyond the end of the episode
    (`B += actual_length - episode_ts - (actual_n_step - 1) + 1` in
    rllib/utils/replay_buffers/episode_replay_buffer.py): batches are larger than asked, and where episodes are short
    it draws for ever.

    Args:
        config: Of an algorithm, with or without replay; changed.

    Raises:
        ConfigurationError: `n_step` is too large for the buffer, or the algorithm does not take it; names the fix.
    """
    buffer = getattr(config, "replay_buffer_config", None)
    if buffer is None:
        return
    if buffer["type"] == N_STEP_BUFFER:
        if isinstance(config, SACConfig):
            raise ConfigurationError(
                f"algorithm.training.replay_buffer_config.type={N_STEP_BUFFER}: RLlib's SAC and TQC take no buffer but "
                "RLlib's own. Try PrioritizedEpisodeReplayBuffer, and algorithm.training.n_step=1."
            )
        buffer["type"] = N_STEP_BUFFER_PATH
    n_step: int = config.n_step
    if buffer["type"] == _UNIFORM and n_step > _MOST:
        raise ConfigurationError(
            f"algorithm.training.n_step={n_step}: RLlib's {_UNIFORM} draws more rows than asked for returns of more "
            f"than {_MOST} env steps, and in short episodes never ends. "
            f"Try algorithm.training.replay_buffer_config.type={N_STEP_BUFFER}."
        )
