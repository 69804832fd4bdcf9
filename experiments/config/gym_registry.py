"""Environments of Gymnasium's registry that have no file of their own: `env=gym env.id=...`."""

import difflib
import importlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments.config import own_modules
from experiments.config.errors import ConfigurationError, reason_of

if TYPE_CHECKING:  # half a second, for those who ask for it
    from gymnasium.envs.registration import EnvSpec

REGISTERED = "registered"
"""As `env.target`: the reward threshold of the registry, if it has one."""


def spec_of(gym_id: str) -> "EnvSpec":
    """The registration of an environment.

    Args:
        gym_id: Gymnasium id; `module:Id` imports the module first.

    Raises:
        ConfigurationError: Gymnasium knows no such id; names the nearest.
        Exception: Whatever the import of the module raises.
    """
    import gymnasium as gym

    module, colon, plain_id = gym_id.rpartition(":")
    if colon:
        importlib.import_module(module)
    spec = gym.registry.get(plain_id)
    if spec is None:
        by_lower = {known.lower(): known for known in gym.registry}
        near = [by_lower[found] for found in difflib.get_close_matches(plain_id.lower(), by_lower, n=3, cutoff=0.5)]
        hint = (
            f"The nearest are {', '.join(near)}."
            if near
            else "python -c 'import gymnasium; gymnasium.pprint_registry()' lists them."
        )
        raise ConfigurationError(
            f"env.id={gym_id}: Gymnasium knows no such id. {hint} One that a package registers when it is imported: "
            "env.id=package:Id; a file of yours: modules=[my_env.py]."
        )
    return spec


def name_of(gym_id: str) -> str:
    """The name of an environment in run names and folders: `Walker2d-v5` as `walker2d-v5`,
    `ale_py:ALE/Pong-v5` as `ale-pong-v5`.
    """
    plain_id = gym_id.rpartition(":")[2]
    return re.sub(r"[^a-z0-9_.-]+", "-", plain_id.lower()).strip("-_.")


def id_named(name: str) -> str | None:
    """The id that is called so, in whatever case; None if Gymnasium knows none."""
    import gymnasium as gym

    return next((gym_id for gym_id in gym.registry if name.lower() in (gym_id.lower(), name_of(gym_id))), None)


def with_registry(env: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an environment, with what its file leaves to the registry: its name (`null`), its target
    (`registered`). An id that a module of a person's own registers is prefixed with that, so that every
    process imports it.

    Args:
        env: `conf/env` composed.

    Raises:
        ConfigurationError: Gymnasium does not know the id.
    """
    settings, gym_id = dict(env), env.get("id")
    if isinstance(gym_id, str):
        settings["id"] = own_modules.registering(gym_id)
    if not isinstance(gym_id, str) or not (settings.get("name", "") is None or settings.get("target") == REGISTERED):
        return settings
    try:
        spec = spec_of(gym_id)
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever a module raises
        raise ConfigurationError(f"env.id={gym_id}: its module cannot be imported ({reason_of(error)}).") from None
    if settings.get("name", "") is None:
        settings["name"] = name_of(gym_id)
    if settings.get("target") == REGISTERED:
        settings["target"] = None if spec.reward_threshold is None else float(spec.reward_threshold)
    return settings
