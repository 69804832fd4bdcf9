"""How often an algorithm with replay updates: `algorithm.update_to_data`, gradient steps per env step. Pure.

RLlib has it as `training_intensity`, rows trained on per env step, of which a larger batch takes more for the same
number of updates.
"""

from collections.abc import Mapping
from typing import Any

from experiments.config.errors import ConfigurationError

KEY = "update_to_data"


def check_update_to_data(algorithm: Mapping[str, Any], replays: bool) -> None:
    """Make sure that the ratio is a number above 0, or not set, and that nothing else says it.

    Args:
        algorithm: `conf/algorithm` resolved.
        replays: Whether it has a replay buffer.

    Raises:
        ConfigurationError: It is not; names the key.
    """
    ratio = algorithm.get(KEY)
    if ratio is None:
        return
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio < float("inf"):
        raise ConfigurationError(
            f"algorithm.{KEY}={ratio!r}: must be a number of updates per env step, above 0, or null. Try 1.0."
        )
    if not replays:
        raise ConfigurationError(
            f"algorithm.{KEY}={ratio:g}: {algorithm['name']} replays nothing, so this says nothing. Set it to null."
        )
    if algorithm["training"].get("training_intensity") is not None:
        raise ConfigurationError(
            f"algorithm.{KEY}={ratio:g} "
            f"and algorithm.training.training_intensity={algorithm['training']['training_intensity']}: "
            "both say how often to update. Set one of them, and the other to null."
        )


def with_intensity(algorithm: Mapping[str, Any], batch: int) -> dict[str, Any]:
    """The same with RLlib's setting in place of the ratio.

    Args:
        algorithm: `conf/algorithm` resolved.
        batch: Rows of an update, over all learners.
    """
    training = dict(algorithm["training"])
    if (ratio := algorithm.get(KEY)) is not None:
        training["training_intensity"] = float(ratio * batch)
    return {**{section: settings for section, settings in algorithm.items() if section != KEY}, "training": training}
