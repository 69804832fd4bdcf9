"""Files that an environment's settings name: by whole paths, since trials have working directories of their own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

ENV_CONFIG = "env.env_config"


def whole_paths(value: Any) -> Any:
    """A setting of an environment with what names a file or a folder there is, relative to the working directory
    or to `~`, made absolute.

    A text names one if it has an ending or a slash: `prices.csv`, `data/`, `~/prices`.
    A plain word may mean anything, and stays.

    Args:
        value: A text, or lists and mappings of such; anything else stays.
    """
    if isinstance(value, Mapping):
        return {name: whole_paths(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [whole_paths(inner) for inner in value]
    if not isinstance(value, str) or not ("/" in value or Path(value).suffix):
        return value
    try:
        path = Path(value).expanduser()
        return value if Path(value).is_absolute() or not path.exists() else str(path.absolute())
    except (OSError, RuntimeError, ValueError):  # too long, of an unknown user, or with a zero byte: no path
        return value


def with_whole_paths(composed: Mapping[str, Any]) -> dict[str, Any]:
    """A composed configuration whose environment, and whose space of its settings, name files by whole paths.

    Args:
        composed: Plain; it need not be valid.
    """
    found = dict(composed)
    if isinstance(env := found.get("env"), Mapping) and "env_config" in env:
        found["env"] = {**env, "env_config": whole_paths(env["env_config"])}
    if isinstance(study := found.get("study"), Mapping) and isinstance(space := study.get("space"), Mapping):
        ours = {
            key: whole_paths(values) if str(key).startswith(f"{ENV_CONFIG}.") else values
            for key, values in space.items()
        }
        found["study"] = {**study, "space": ours}
    return found
