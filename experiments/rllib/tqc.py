"""TQC as RLlib has it, with the suite's settings of exploration."""

from ray.rllib.algorithms import tqc

from experiments.rllib.exploration import NoiseConfig


class TQCConfig(NoiseConfig, tqc.TQCConfig):  # type: ignore[misc]  # RLlib ships no type information
    """RLlib's, with the settings of `NoiseConfig`."""
