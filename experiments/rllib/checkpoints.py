"""The state of an RLlib algorithm between two segments of a trial: saved, restored, and left behind.

A trial is cut into segments at its checkpoints. Each segment starts from what a checkpoint holds and from nothing else:
environments go on from what was saved of them, or are reset where they cannot be saved
(`experiments.rllib.environments`), and all other random streams are derived anew from the trial's seed and the
segment's number (`begin_segment`). A trial that goes on after its checkpoint does the same as one that is resumed from
it, so both train alike to the bit.

RLlib's own checkpoint (`Algorithm.save_to_path`) leaves out the replay buffer and what learners keep beside
modules and optimizers.
"""

import copy
import hashlib
import pickle
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import ray
import torch
import tree
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME
from ray.rllib.utils.schedules.scheduler import Scheduler

from experiments.limits.arithmetic import Arithmetic
from experiments.rllib.action_noise import restart_noise
from experiments.rllib.environments import load_environments, save_environments
from experiments.rllib.hooks import seed_process, seed_replay, seed_streams
from experiments.rllib.seeding import Role, process_seed

RLLIB = "algorithm"
"""Folder of a checkpoint that RLlib's own `from_checkpoint` takes."""
BESIDE = "beside_rllib.pkl"
SAMPLES = "samples.pkl"
"""File of a checkpoint with what is still to be learned from: the replay buffer above all, which is most of it."""

Environments = Mapping[int, bytes]
"""Index of a runner to the state of its environments; runners are missing whose environments are reset."""
Weights = Mapping[str, Mapping[str, Any]]
"""Id of a module to the names and values of its weights, and of what else it keeps."""

_LEARNER_STATE = (
    "curr_kl_coeffs_per_module",  # PPO, APPO: the adaptive KL coefficient
    "curr_log_alpha",  # SAC: the temperature
    "entropy_coeff_schedulers_per_module",  # PPO, IMPALA, APPO
    "last_update_ts_by_mid",  # DQN, SAC: when the target network was last updated
    "proximal_weights_per_module",  # PPO-EWMA: the proximal policy, as this and the next one
    "proximal_total_per_module",
    "advantage_sums_per_module",  # PPO-EWMA: the moments of the advantages
)

_REPLAY = "local_replay_buffer"
"""Attribute of RLlib's algorithms that replay."""
_WAITING = "waiting"
"""Attribute of an algorithm that learns from old samples (PPO-EWMA): those that it has not learned from yet."""


def environments(algorithm: Any) -> Environments:
    """The state that the next segment's environments go on from.

    Args:
        algorithm: RLlib's algorithm, between two training iterations.
    """
    if statistics := getattr(algorithm, "statistics", None):
        statistics.update()  # what the runners have gathered would be lost with them
    states = algorithm.env_runner_group.foreach_env_runner(
        lambda runner: (runner.worker_index, save_environments(runner))
    )
    return {index: saved for index, saved in states if saved is not None}


def weights(algorithm: Any) -> Weights:
    """A copy of the weights that the learners have now; an asynchronous one goes on."""
    found = algorithm.learner_group.get_state(components="learner/rl_module")["learner"]["rl_module"]
    copied: Weights = tree.map_structure(copy.copy, found)
    return copied


def save(
    algorithm: Any,
    folder: Path,
    of_environments: Environments,
    of_modules: Weights | None = None,
    goes_on: bool = True,
    with_replay: bool = True,
) -> None:
    """Save everything that the next segment starts from.

    Args:
        algorithm: RLlib's algorithm, between two training iterations.
        folder: Folder of the checkpoint, absolute, existing.
        of_environments: As `environments` found them; empty if no segment follows.
        of_modules: Weights that are saved in place of those that the learners have by now.
        goes_on: Whether somebody may train on from it. Else it has no `SAMPLES`.
        with_replay: Whether a replay buffer is among them.

    Raises:
        OSError: The disk takes no more.
    """
    state = None
    if of_modules is not None:
        state = algorithm.get_state()
        state["learner_group"]["learner"]["rl_module"] = {**of_modules}
    algorithm.save_to_path(folder / RLLIB, state=state)
    beside = {
        "learner": next(result.get() for result in algorithm.learner_group.foreach_learner(_learner_state)),
        "environments": of_environments,
    }
    _dump(beside, folder / BESIDE)
    kept = [_WAITING, *([_REPLAY] if with_replay else [])] if goes_on else []
    if samples := {name: found for name in kept if (found := getattr(algorithm, name, None)) is not None}:
        _dump(samples, folder / SAMPLES)


def restore(algorithm: Any, folder: Path) -> tuple[Environments, bool]:
    """The inverse of `save`, on a newly built algorithm of the same trial. Pickles: load only your own.

    Where a replay buffer was not saved, the algorithm learns again once it has as many samples as before it began to.

    Returns:
        The state of environments that `begin_segment` takes, and whether a replay buffer was not saved.
    """
    algorithm.restore_from_path(str(folder / RLLIB))
    beside = _load(folder / BESIDE)
    algorithm.learner_group.foreach_learner(partial(set_learner_state, state=beside["learner"]))
    if (folder / SAMPLES).exists():
        samples = _load(folder / SAMPLES)
    else:  # there are none, or they are where they were kept before that file was
        before = {_REPLAY: beside.get("replay"), _WAITING: beside.get(_WAITING)}
        samples = {name: found for name, found in before.items() if found is not None}
    for name, found in samples.items():
        setattr(algorithm, name, found)
    of_environments: Environments = beside["environments"]
    is_empty = _REPLAY not in samples and getattr(algorithm, _REPLAY, None) is not None
    if is_empty:
        config = algorithm.config.copy(copy_frozen=False)
        config.num_steps_sampled_before_learning_starts += _env_steps(algorithm)
        config.freeze()
        algorithm.config = config
    return of_environments, is_empty


def take_over(algorithm: Any, folder: Path) -> None:
    """As `restore`, from a trial with other settings: these stay the algorithm's own, and so do its environments.

    An optimizer's state has its learning rate in it, and would bring the other trial's along.
    """
    own = next(result.get() for result in algorithm.learner_group.foreach_learner(learning_rates))
    restore(algorithm, folder)
    algorithm.learner_group.foreach_learner(partial(_set_learning_rates, rates=own))


def begin_segment(
    algorithm: Any, seed: int, arithmetic: Arithmetic, segment: int, of_environments: Environments
) -> None:
    """Leave behind what no checkpoint holds: put all environments into the state that was saved, or reset them,
    and derive all other random streams anew.

    Args:
        algorithm: RLlib's algorithm, between two training iterations.
        seed: The trial's seed.
        arithmetic: How each runner computes.
        segment: The number of the segment that begins, from 1.
        of_environments: The state that environments go on from.
    """
    env_steps = _env_steps(algorithm)
    if statistics := getattr(algorithm, "statistics", None):
        statistics.updated_at = env_steps
    algorithm.env_runner_group.sync_env_runner_states(
        config=algorithm.config,
        from_worker=algorithm.env_runner,
        env_steps_sampled=env_steps,
        env_to_module=algorithm.env_to_module_connector,
        module_to_env=algorithm.module_to_env_connector,
    )
    # In this order, as when the algorithm was built: a runner in the learner's process has the last word.
    learner_seed = process_seed(seed, Role.ALGORITHM, segment=segment)
    algorithm.learner_group.foreach_learner(partial(_seed_learner, seed=learner_seed))
    seed_process(learner_seed)
    seed_replay(seed=seed, algorithm=algorithm, segment=segment)
    common = [_newest_weights(algorithm), ray.put(of_environments)]
    restart = partial(_restart_runner, seed=seed, arithmetic=arithmetic, segment=segment, common=common)
    algorithm.env_runner_group.foreach_env_runner(restart)


def send_weights(algorithm: Any) -> None:
    """Send the learners' weights to all env runners, and wait until they have them.

    `sync_weights` drops what it should send while an earlier sync is under way, as right after the start.
    """
    algorithm.env_runner_group.foreach_env_runner(partial(_set_weights, weights=[_newest_weights(algorithm)]))


def _dump(value: Any, file: Path) -> None:
    with file.open("wb") as opened:
        pickle.dump(value, opened, protocol=pickle.HIGHEST_PROTOCOL)


def _load(file: Path) -> Any:
    with file.open("rb") as opened:
        return pickle.load(opened)


def _newest_weights(algorithm: Any) -> ray.ObjectRef:
    return ray.put(algorithm.learner_group.get_state(components="learner/rl_module", inference_only=True)["learner"])


def _set_weights(runner: Any, weights: list[ray.ObjectRef]) -> None:
    runner.set_state(ray.get(weights[0]))


def weights_digest(state: Weights) -> str:
    """16 hexadecimal digits that are equal for two algorithms exactly if all weights are, to the bit."""
    digest = hashlib.sha256()
    for module in sorted(state):
        for name, values in sorted(state[module].items()):
            array = values.detach().cpu().contiguous().numpy() if isinstance(values, torch.Tensor) else values
            digest.update(f"{module}/{name}".encode())
            digest.update(array.tobytes() if hasattr(array, "tobytes") else repr(array).encode())
    return digest.hexdigest()[:16]


def _learner_state(learner: Any) -> dict[str, dict[str, Any]]:
    return {
        name: {m: _value(v) for m, v in getattr(learner, name).items()}
        for name in _LEARNER_STATE
        if hasattr(learner, name)
    }


def _value(variable: Any) -> Any:
    if isinstance(variable, Scheduler):
        return _value(variable.get_current_value())
    return variable.detach().cpu().clone() if isinstance(variable, torch.Tensor) else variable


def set_learner_state(learner: Any, state: dict[str, dict[str, Any]]) -> None:
    """Set what a learner keeps beside modules and optimizers: name to id of a module to value;
    where they are variables, in place.
    """
    for name, by_module in state.items():
        variables = getattr(learner, name)
        for module, value in by_module.items():
            current = variables[module]
            if isinstance(current, Scheduler):
                if current.use_schedule:
                    current._curr_value.data.copy_(value)
            elif isinstance(current, torch.Tensor):
                current.data.copy_(value)  # in place: the optimizer holds it
            else:
                variables[module] = value


def learning_rates(learner: Any) -> dict[str, list[float]]:
    """Optimizer to the learning rate of each of its groups of parameters, as they are now."""
    return {
        name: [group["lr"] for group in optimizer.param_groups] for name, optimizer in learner._named_optimizers.items()
    }


def _set_learning_rates(learner: Any, rates: dict[str, list[float]]) -> None:
    for name, optimizer in learner._named_optimizers.items():
        for group, rate in zip(optimizer.param_groups, rates[name], strict=True):
            group["lr"] = rate


def _seed_learner(learner: Any, seed: int) -> None:
    seed_process(seed)


def _restart_runner(runner: Any, seed: int, arithmetic: Arithmetic, segment: int, common: list[ray.ObjectRef]) -> None:
    weights, of_environments = ray.get(common)
    runner.set_state(weights)
    seed_streams(seed=seed, arithmetic=arithmetic, env_runner=runner, segment=segment)
    restart_noise(runner.module)
    runner._needs_initial_reset = True
    if saved := of_environments.get(runner.worker_index):
        load_environments(runner, saved)


def _env_steps(algorithm: Any) -> Any:
    """Sampled so far."""
    return algorithm.metrics.peek((ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME), default=0)
