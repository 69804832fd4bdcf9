"""An environment of a person's own on processors that this machine does not have, as QEMU emulates them.

Whose arithmetic it uses is not known: compiled code may look which processor it is on, as libraries of linear algebra
do. So it is played with the same actions here and there, and what it gives is compared to the bit.
"""

import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.config.errors import ConfigurationError
from experiments.limits.arithmetic import PORTABLE, Arithmetic

if TYPE_CHECKING:  # an emulated process imports this module, slowly
    from experiments.config.schema import EnvSettings

EMULATOR = "qemu-x86_64"
"""Of single processes, which has had AVX2 since 7.2."""
PROCESSORS = {"Haswell": "an Intel Haswell", "EPYC": "an AMD EPYC (Zen 1)"}
"""QEMU's name to what it is."""
HERE, AGAIN = "here", "again"
"""This machine's processor, twice: what differs there already is no matter of processors."""
ENV_STEPS = 200
TIMEOUT_S = 120.0
_MOST = 4
"""Environments of a study that are played."""
_TRIED = (
    *(f"gymnasium.envs.{kind}." for kind in ("classic_control", "box2d", "mujoco", "toy_text")),
    *("gymnasium.wrappers.", "ale_py.", "experiments.envs."),
)
"""Where environments are from whose kind the tests play on emulated processors."""
_ROOT = Path(__file__).resolve().parents[2]


def try_each(envs: Iterable["EnvSettings"]) -> list[str]:
    """Play environments other than those that the tests play, each for two minutes at most.

    Args:
        envs: Those of a study with `bits=portable`.

    Returns:
        Remarks on them for a person.

    Raises:
        ConfigurationError: One gives other numbers on another processor.
    """
    own = {(env.id, json.dumps(env.make_arguments, sort_keys=True)): env.name for env in envs if not _was_tried(env)}
    if not own:
        return []
    if not is_there():
        names = ", ".join(dict.fromkeys(own.values()))
        return [
            f"{names}: whether its arithmetic is portable is not known: {EMULATOR} (Debian's qemu-user), which would "
            "try it on other processors, is not installed"
        ]
    remarks = [
        _remark(name, gym_id, played(gym_id, arguments)) for (gym_id, arguments), name in list(own.items())[:_MOST]
    ]
    if len(own) > _MOST:
        remarks.append(f"{_MOST} of {len(own)} environments were tried on other processors")
    return remarks


def is_there() -> bool:
    """Whether the emulator is installed."""
    return shutil.which(EMULATOR) is not None


def _was_tried(env: "EnvSettings") -> bool:
    from experiments.rllib.process_state import modules_of

    return all(module.startswith(_TRIED) for module in modules_of(env.id))


def _remark(name: str, gym_id: str, found: Mapping[str, str]) -> str:
    """What to say of an environment by what was `played`."""
    unknown = f"{name}: whether its arithmetic is portable is not known"
    if not found[HERE]:
        return f"{unknown}: it could not be played in a process of its own"
    if found[HERE] != found[AGAIN]:
        return f"{unknown}: reset(seed=) does not determine what it gives"
    tried = {what: found[processor] for processor, what in PROCESSORS.items() if found[processor]}
    if other := [what for what, digest in tried.items() if digest != found[HERE]]:
        raise ConfigurationError(
            f"bits=portable: env.id={gym_id} gives other numbers on {' and on '.join(other)}, as QEMU has it "
            f"({ENV_STEPS} env steps with the same actions): it may have arithmetic of its own. Leave bits=portable "
            "out."
        )
    if not tried:
        return f"{unknown}: {EMULATOR} did not play it within {TIMEOUT_S:.0f} s, or is older than 7.2"
    return f"{name}: {ENV_STEPS} env steps are the same to the bit here and on {' and '.join(tried)}, as QEMU has them"


def played(gym_id: str, arguments: str) -> Mapping[str, str]:
    """What an environment gives on each processor.

    Args:
        gym_id: As Gymnasium takes it in this process.
        arguments: Of `gymnasium.make`, as JSON.

    Returns:
        `HERE`, `AGAIN` and QEMU's names of processors, each to a digest; "" where it could not be played.
    """
    from experiments.config import own_modules

    given = [Path(entry).absolute() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    places = [own_modules.folder(), _ROOT, *given, Path.cwd()]
    path = os.pathsep.join(dict.fromkeys(str(place) for place in places if place is not None))
    return _played(own_modules.registering(gym_id), arguments, path)


@cache
def _played(gym_id: str, arguments: str, path: str) -> Mapping[str, str]:
    by: dict[str, Sequence[str]] = {HERE: (), AGAIN: (), **{name: (EMULATOR, "-cpu", name) for name in PROCESSORS}}
    environment = {**os.environ, **Arithmetic(1, PORTABLE).variables, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}
    until, found = time.monotonic() + TIMEOUT_S, dict[str, str]()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        started = {}
        for processor, emulated in by.items():
            started[processor] = subprocess.Popen(
                [*emulated, sys.executable, "-P", "-W", "ignore", "-m", __name__, gym_id, arguments],
                cwd=folder, env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            stack.callback(_end, started[processor])
        for processor, process in started.items():
            said = ""
            with suppress(subprocess.TimeoutExpired):
                said, _ = process.communicate(timeout=max(0.0, until - time.monotonic()))
            found[processor] = said.strip() if process.returncode == 0 else ""
    return found


def _end(process: "subprocess.Popen[str]") -> None:
    """With all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _digest(gym_id: str, arguments: str) -> str:
    """Of all that an environment gives in `ENV_STEPS` steps, in this process."""
    import gymnasium as gym
    import numpy as np
    import tree

    from experiments.envs.masked import sampled_action

    known = importlib.import_module("numpy._core._multiarray_umath").__cpu_features__
    if not (known["AVX2"] and known["FMA3"]):
        raise SystemExit("an emulator that is too old")
    env: Any = gym.make(gym_id, disable_env_checker=True, **json.loads(arguments))
    random.seed(0)  # as in a trial's process
    np.random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
    given = hashlib.sha256()
    env.action_space.seed(0)
    observation, _ = env.reset(seed=0)
    for _ in range(ENV_STEPS):
        action = sampled_action(env.action_space, env.observation_space, observation)
        after, reward, terminated, truncated, _ = env.step(action)
        for leaf in tree.flatten((observation, float(reward), terminated, truncated)):
            given.update(np.asarray(leaf).tobytes())
        observation = env.reset()[0] if terminated or truncated else after
    env.close()
    return given.hexdigest()[:16]


if __name__ == "__main__":
    _answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # environments talk
    print(_digest(*sys.argv[1:]), file=_answer, flush=True)
