"""The memory that trials are given: where they are placed, and how many run side by side, goes by it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ray.tune import PlacementGroupFactory

from experiments.contract import MAX_ENVS
from experiments.contract.words import mib
from experiments.planning.configuration import Configuration
from experiments.planning.machines import MEMORY, Cluster
from experiments.planning.resources import DoesNotFitError, memory_of, trials_at_once, with_bytes

PastPeaks = Callable[[str, str], Mapping[str, float]]
"""Algorithm and env to the ids of configurations and the MiB that earlier trials of them took at their peak."""

_ROOM = 1.05
"""Times the peaks of earlier trials that others of the same configuration are given."""
_ASYNC_BYTES = 290 * 2**20
"""Of the process that each environment has with vectorize_mode=async, as measured."""
_STEP = 16 * 2**20
"""Predictions are whole multiples of so many bytes: what an environment takes is measured, and not to the byte."""


def with_memory(
    configurations: Sequence[Configuration],
    environment_bytes: Sequence[int],
    cluster: Cluster,
    peaks: PastPeaks | None = None,
    may_leave_out: bool = False,
) -> tuple[Configuration, ...]:
    """Configurations with the memory that their processes are predicted to take, and ask for.

    Args:
        configurations: The configurations of a study.
        environment_bytes: Bytes that one environment of each takes.
        cluster: The machines that there are.
        peaks: What earlier trials of the same configuration took, which is the better prediction.
        may_leave_out: Whether to leave out those whose memory is nowhere to be had, unless that is all.

    Raises:
        DoesNotFitError: The memory of a trial is nowhere to be had; names the setting that makes it fit.
    """
    found, last = [], None
    for configuration, each in zip(configurations, environment_bytes, strict=True):
        algorithm, env = configuration.suite.algorithm["name"], configuration.suite.env.name
        predicted = _predicted(configuration, each)
        if peaks and (peak := peaks(algorithm, env).get(configuration.config_id)):
            times = _ROOM * peak * 2**20 / sum(predicted)
            predicted = tuple(_rounded(times * size) for size in predicted)
        known = replace(configuration, predicted_bytes=predicted)
        try:
            _check(known, each, cluster)
        except DoesNotFitError as error:
            if not may_leave_out:
                raise
            last = error
            continue
        found.append(known)
    if last is not None and not found:
        raise last
    return placed(found, cluster)


def placed(configurations: Sequence[Configuration], cluster: Cluster) -> tuple[Configuration, ...]:
    """Configurations whose requests have the predicted memory.

    Trials that have as many processes ask for as much, that of the largest: in processes of the same request one trial
    follows another, which saves their start.

    Args:
        configurations: Configurations whose memory is predicted.
        cluster: The machines that there are.
    """
    of_shape: dict[str, tuple[int, ...]] = {}
    for configuration in configurations:
        shape, predicted = _shape(configuration.request), configuration.predicted_bytes
        largest = of_shape.get(shape, predicted)
        of_shape[shape] = tuple(max(pair) for pair in zip(largest, predicted, strict=True))
    return tuple(_asking(c, of_shape[_shape(c.request)], cluster) for c in configurations)


def like(configuration: Configuration, known: Sequence[Configuration], cluster: Cluster) -> Configuration:
    """A configuration that came up later, with the memory of those that have as many processes;
    where there are none, what it is predicted to take beside its environments.

    Args:
        configuration: A configuration whose memory is not predicted yet.
        known: Configurations whose memory is.
        cluster: The machines that there are.
    """
    shape = _shape(configuration.request)
    same = (tuple(memory_of(c.request)) for c in known if _shape(c.request) == shape)
    predicted = next(same, _predicted(configuration, 0))
    return _asking(replace(configuration, predicted_bytes=predicted), predicted, cluster)


def _predicted(configuration: Configuration, each: int) -> tuple[int, ...]:
    """Bytes of each process, as the bundles of its request are: its own, its runners', its learners'.

    Args:
        configuration: A configuration of the study.
        each: Bytes that one environment takes.
    """
    memory, layout = configuration.memory, configuration.layout
    envs = layout.num_envs_per_env_runner * _training_bytes(configuration, each)
    beside, saved = _evaluated(configuration) * each, _saved(configuration) * each
    own = memory.own + (beside if layout.num_env_runners else envs + max(beside, saved))
    runner = memory.runner + envs + saved
    processes = [own, *[runner] * layout.num_env_runners, *[memory.learner] * layout.num_learners]
    return tuple(map(_rounded, processes))


def _saved(configuration: Configuration) -> int:
    """Environments' worth of bytes that a process with environments takes while it saves them: their states, and once
    two others to try it on (`rllib.environments`).
    """
    return configuration.layout.num_envs_per_env_runner + 2 if configuration.suite.measurement is None else 0


def _rounded(size: float) -> int:
    return math.ceil(size / _STEP) * _STEP


def _training_bytes(configuration: Configuration, each: int) -> int:
    """Bytes of an environment that is trained in."""
    return each + (_ASYNC_BYTES if configuration.suite.env.vectorize_mode == "async" else 0)


def _evaluated(configuration: Configuration) -> int:
    """Environments of an evaluation."""
    evaluation = configuration.suite.evaluation
    episodes = max(evaluation.episodes, evaluation.final_episodes)
    return min(MAX_ENVS, episodes) if configuration.suite.measurement is None else 0


def _shape(request: PlacementGroupFactory) -> str:
    """A request without its memory."""
    return str([{name: n for name, n in bundle.items() if name != MEMORY} for bundle in request.bundles])


def _asking(configuration: Configuration, memory: Sequence[int], cluster: Cluster) -> Configuration:
    """A configuration whose request has so many bytes for each process: on several nodes if no single one has them."""
    request = configuration.request
    bundles = with_bytes(request.bundles, memory)
    asked = PlacementGroupFactory(bundles, strategy=request.strategy)
    may_spread = request.strategy == "STRICT_PACK" and configuration.suite.hardware.placement is None
    if may_spread and not trials_at_once(asked, cluster, limit=1):
        asked = PlacementGroupFactory(bundles, strategy="PACK")
    return replace(configuration, request=asked)


def _check(configuration: Configuration, each: int, cluster: Cluster) -> None:
    bundles = configuration.predicted_bytes
    request = _asking(configuration, bundles, cluster).request
    if trials_at_once(request, cluster, limit=1):
        return
    most = max(node.memory for node in cluster.nodes)
    over = (sum(bundles) if len(cluster.nodes) == 1 else max(bundles)) - most
    what = f" ({configuration.label})" if configuration.label else ""
    has = "its largest node has" if len(cluster.nodes) > 1 else "it has"
    more = (
        "start a node with more memory"
        if cluster.is_joined
        else f"declare more: hardware.memory_gib={math.ceil(sum(bundles) / 2**30)}"
    )
    raise DoesNotFitError(
        f"A trial{what} is predicted to take {mib(sum(bundles))} of memory; {cluster}, and {has} {mib(most)} of memory "
        f"for trials. {_smaller(configuration, each, over)}, or {more}.",
        request,
    )


def _smaller(configuration: Configuration, each: int, over: float) -> str:
    """The setting by which a trial takes so many bytes less, as far as there is one: that of its largest part."""
    layout, evaluation = configuration.layout, configuration.suite.evaluation
    envs = layout.num_envs_per_env_runner * max(1, layout.num_env_runners)
    capacity = configuration.facts["replay_capacity"] or 0
    parts = {
        "++algorithm.training.replay_buffer_config.capacity": (configuration.memory.replay, capacity),
        "hardware.num_envs_per_env_runner": (
            envs * _training_bytes(configuration, each),
            layout.num_envs_per_env_runner,
        ),
        "evaluation.final_episodes": (_evaluated(configuration) * each, min(MAX_ENVS, evaluation.final_episodes)),
    }
    setting, (size, number) = max(parts.items(), key=lambda part: part[1][0])
    fits = math.floor(number * (1 - over / size)) if size > over else 0
    return f"Try {setting}={fits}" if fits else "Take a larger machine"
