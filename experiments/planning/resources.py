"""The resources that a trial needs, and the check that they can ever fit."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from ray.tune import PlacementGroupFactory

from experiments.config.errors import ConfigurationError
from experiments.config.lr_rules import Rule, with_bases, with_rules
from experiments.config.named_axes import without_names
from experiments.config.schema import SuiteConfig
from experiments.config.update_to_data import KEY as UPDATE_TO_DATA
from experiments.config.update_to_data import check_update_to_data, with_intensity
from experiments.contract.words import amount, plural
from experiments.planning.machines import MEMORY, Cluster, accelerator_types, ways_to_fit
from experiments.rllib.algorithms import fragment_length, fragments_of_batch, is_asynchronous, replays, train_batch
from experiments.rllib.building import check_settings, suits_gpu
from experiments.rllib.made_environments import has_vector_entry_point

_CPUS_OF_ASYNCHRONOUS = 4
"""Of a trial of its own process, a learner and two runners."""
_TRIALS_PER_GPU = 4
"""At most, where nobody says it: each keeps its networks and the kernels of torch in the GPU's memory."""


@dataclass(frozen=True)
class Layout:
    """The processes of one trial."""

    num_env_runners: int
    num_envs_per_env_runner: int
    num_learners: int
    num_gpus_per_learner: float

    @property
    def total_envs(self) -> int:
        """Environments that are stepped side by side."""
        return max(1, self.num_env_runners) * self.num_envs_per_env_runner

    def __str__(self) -> str:
        sampling = (
            f"{plural(self.num_env_runners, 'runner')} x {plural(self.num_envs_per_env_runner, 'env')}"
            if self.num_env_runners
            else f"{plural(self.num_envs_per_env_runner, 'env')} in the trial's own process"
        )
        learning = plural(self.num_learners, "learner") if self.num_learners else "learner in the trial's own process"
        gpu = (
            f" with {self.num_gpus_per_learner:g} GPU" + (" each" if self.num_learners > 1 else "")
            if self.num_gpus_per_learner
            else ""
        )
        return f"{sampling}, {learning}{gpu}"


def with_counts(suite: SuiteConfig, rules: Mapping[str, Rule], cluster: Cluster) -> SuiteConfig:
    """The configuration with every runner and learner count a number.

    A count is, in this order: what `algorithm.env_runners` or `algorithm.learners` says, what the hardware profile
    says, what suits the cluster. An asynchronous algorithm has at most as many environments a runner as the latter two
    say, so that whole samples make up its batch; where throughput is measured, it has as many.

    Args:
        suite: The configuration of one point.
        rules: The rules of its algorithm.
        cluster: The machines that there are. How many trials share it makes no difference:
            a trial by itself is the same configuration.

    Returns:
        The same with `algorithm.env_runners` and `algorithm.learners` complete, the environment vectorised as the
        hardware wants it, and numbers in place of rules.

    Raises:
        ConfigurationError: The algorithm's settings are wrong; names the key.
    """
    algorithm, hardware = checked_algorithm(suite.algorithm, rules), suite.hardware
    check_update_to_data(algorithm, replays(algorithm))
    runners, learners = dict(algorithm["env_runners"]), dict(algorithm["learners"])
    own = {**runners, **learners}
    wanted = {f.name: getattr(hardware, f.name) if own.get(f.name) is None else own[f.name] for f in fields(Layout)}
    layout = _fit(wanted, suite, cluster)
    if layout.num_gpus_per_learner > 1 and layout.num_gpus_per_learner % 1:
        raise ConfigurationError(
            f"num_gpus_per_learner={layout.num_gpus_per_learner:g}: must be a whole number, or a fraction below 1."
        )
    if layout.num_gpus_per_learner % 1 and layout.num_learners > 1:
        raise ConfigurationError(
            f"num_gpus_per_learner={layout.num_gpus_per_learner:g} with num_learners={layout.num_learners}: learners "
            "side by side cannot share a GPU, since NCCL refuses it. Try num_gpus_per_learner=1, or 0 to learn on CPUs."
        )
    runners.update(num_env_runners=layout.num_env_runners, num_envs_per_env_runner=layout.num_envs_per_env_runner)
    learners.update(num_learners=layout.num_learners, num_gpus_per_learner=layout.num_gpus_per_learner)
    env, mode = suite.env, hardware.vectorize_mode
    if mode is not None and (mode != "vector_entry_point" or has_vector_entry_point(env)):
        env = replace(env, vectorize_mode=mode)
    counted = {**algorithm, "env_runners": runners, "learners": learners}
    ruled = with_rules(counted, rules)
    if not suite.measurement:
        ruled = {**ruled, "env_runners": {**ruled["env_runners"], **_samples(ruled, own)}}
    return replace(suite, algorithm=with_intensity(ruled, train_batch(ruled)), env=env)


def checked_algorithm(algorithm: Mapping[str, Any], rules: Mapping[str, Rule]) -> dict[str, Any]:
    """An algorithm's settings, with the base value of each rule in its place.

    Raises:
        ConfigurationError: RLlib has no such setting, or it is wrong; names the key.
    """
    found = with_bases(without_names(algorithm), rules)
    check_settings({section: settings for section, settings in found.items() if section != UPDATE_TO_DATA})
    return found


def _samples(algorithm: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, int]:
    """The settings with which an asynchronous algorithm's whole samples, one fragment of each environment of a runner,
    make up the batch.
    """
    batch, length, fragments = train_batch(algorithm), fragment_length(algorithm), fragments_of_batch(algorithm)
    settings = {"rollout_fragment_length": batch} if length and length > batch else {}
    if fragments and own.get("num_envs_per_env_runner") is None:
        settings["num_envs_per_env_runner"] = _largest_divisor(
            fragments, algorithm["env_runners"]["num_envs_per_env_runner"]
        )
    return settings


def layout_of(algorithm: Mapping[str, Any]) -> Layout:
    """The processes of a trial whose counts are numbers."""
    counts = {**algorithm["env_runners"], **algorithm["learners"]}
    return Layout(**{f.name: counts[f.name] for f in fields(Layout)})


def _fit(wanted: Mapping[str, Any], suite: SuiteConfig, cluster: Cluster) -> Layout:
    """Fill in what is None in `wanted`: the smallest trial that is not slowed down by it,
    so that most run side by side.

    A synchronous algorithm samples and learns in one process: a runner would only take turns with the learner. An
    asynchronous one has two runners and a learner beside its own process where a node has room for them, as RLlib
    advises for IMPALA and APPO; else one runner.
    """
    hardware, asynchronous = suite.hardware, is_asynchronous(suite.algorithm)
    has_room = max(node.num_cpus for node in cluster.nodes) >= _CPUS_OF_ASYNCHRONOUS
    runners, envs, learners = (wanted[name] for name in ("num_env_runners", "num_envs_per_env_runner", "num_learners"))
    gpus = wanted["num_gpus_per_learner"]
    if hardware.num_gpus == 0:  # declared: every learner goes to the CPU
        gpus = 0
    elif gpus is None:
        suits = hardware.num_gpus is not None or suits_gpu(suite.algorithm, suite.env)
        cpus = _CPUS_OF_ASYNCHRONOUS if asynchronous and has_room else 2 if asynchronous else 1
        at_once = 1 if suite.measurement else max(1, int(cluster.num_cpus) // cpus)
        gpus = _share_of_a_gpu(cluster.num_gpus, at_once, learners or 0) if suits else 0
    if learners is None:  # with a GPU it stays in the trial's process, which then holds the GPU
        learners = 1 if asynchronous and has_room and not gpus else 0
    if runners is None:
        runners = (
            _largest_divisor(max(1, hardware.total_envs // (envs or 1)), 2 if has_room else 1) if asynchronous else 0
        )
    if envs is None:
        envs = max(1, hardware.total_envs // max(1, runners))
    return Layout(runners, envs, learners, gpus)


def _share_of_a_gpu(num_gpus: float, at_once: int, num_learners: int) -> float:
    """The share of a GPU that each learner gets by default, so that as many trials as the CPUs hold find their share,
    up to four on a GPU.

    Learners side by side get a GPU each, or none: NCCL, by which they talk, refuses two on one GPU.
    """
    if num_learners > 1:
        return 1.0 if num_gpus >= num_learners else 0.0
    trials_per_gpu = min(_TRIALS_PER_GPU, math.ceil(at_once / num_gpus)) if num_gpus >= 1 else 0
    return int(100 / trials_per_gpu) / 100 if trials_per_gpu else 0.0  # hundredths, rounded down


def _largest_divisor(number: int, limit: int) -> int:
    """The largest divisor of `number` that is at most `limit`, at least 1."""
    return next(d for d in range(min(number, max(1, limit)), 0, -1) if number % d == 0)


class DoesNotFitError(ConfigurationError):
    """No node or nodes can hold a trial.

    Attributes:
        request: The trial's request.
    """

    def __init__(self, message: str, request: PlacementGroupFactory) -> None:
        super().__init__(message)
        self.request = request


def needs(request: PlacementGroupFactory) -> str:
    """The resources that a trial needs, in words; of several bundles also the largest."""
    total, widest = request.required_resources, max((b.get("CPU", 0), b.get("GPU", 0)) for b in request.bundles)
    split = f" in parts of up to {amount(*widest)}" if len(request.bundles) > 1 else ""
    kinds = ", ".join(accelerator_types(total))
    return f"{amount(total.get('CPU', 0), total.get('GPU', 0))}{f' ({kinds})' if kinds else ''}{split}"


def check_fits(request: PlacementGroupFactory, cluster: Cluster, hardware_name: str, num_env_runners: int = 0) -> None:
    """Make sure that a trial can ever start: Ray would wait for ever.

    Args:
        request: The trial's request.
        cluster: The machines that there are.
        hardware_name: Name of the hardware profile.
        num_env_runners: How many of the request's bundles are runners'.

    Raises:
        DoesNotFitError: The bundles cannot be placed, even on the empty cluster.
    """
    if trials_at_once(request, cluster, limit=1):
        return
    cpus, gpus = request.required_resources.get("CPU", 0), request.required_resources.get("GPU", 0)
    widest = max((b.get("CPU", 0), b.get("GPU", 0)) for b in request.bundles)
    split = "" if len(cluster.nodes) == 1 else f" in parts of up to {amount(*widest)}"
    main, runners, others = (
        request.bundles[:1],
        request.bundles[1 : 1 + num_env_runners],
        request.bundles[1 + num_env_runners :],
    )
    fewer = (
        PlacementGroupFactory([*main, *runners[:n], *others], strategy=request.strategy)
        for n in range(num_env_runners - 1, 0, -1)
    )
    largest = next((len(r.bundles) - len(main) - len(others) for r in fewer if trials_at_once(r, cluster, limit=1)), 0)
    spread = (
        " They need not be on one node: hardware.placement=PACK."
        if request.strategy == "STRICT_PACK" and len(cluster.nodes) > 1
        else ""
    )
    hint = f" The largest number of env runners that fits is {largest}: num_env_runners={largest}." if largest else ""
    fix = (
        "Start a node that has them (`ray start --address=...`), or try hardware=auto."
        if cluster.is_joined  # where nothing can be declared
        else ways_to_fit(hardware_name, cpus, gpus, cluster)
    )
    raise DoesNotFitError(
        f"hardware={hardware_name} needs {amount(cpus, gpus)} per trial{split}; {cluster}.{spread}{hint} {fix}", request
    )


def trials_at_once(request: PlacementGroupFactory, cluster: Cluster, limit: int) -> int:
    """How many trials of one kind fit side by side, counted up to `limit`: first fit, largest bundle first,
    as Ray's PACK tries.
    """
    free = [node.resources for node in cluster.nodes]
    bundles: list[Mapping[str, float]] = sorted(
        request.bundles, key=lambda b: (b.get("GPU", 0), b.get("CPU", 0)), reverse=True
    )
    if request.strategy == "STRICT_PACK":  # on one node
        bundles = [{name: sum(bundle.get(name, 0.0) for bundle in bundles) for name in request.required_resources}]
    for count in range(limit):
        if not _place(bundles, free):
            return count
    return limit


def _place(bundles: Sequence[Mapping[str, float]], free: list[dict[str, float]]) -> bool:
    for bundle in bundles:
        node = next(
            (n for n in free if all(n.get(name, 0.0) >= amount - 1e-9 for name, amount in bundle.items())), None
        )
        if node is None:
            return False
        for name, wanted in bundle.items():
            node[name] = node.get(name, 0.0) - wanted
    return True


def request_for_all(requests: Sequence[PlacementGroupFactory]) -> PlacementGroupFactory | None:
    """The largest of some requests, if the processes of all the others find their place in it."""
    largest = max(requests, key=lambda r: (r.required_resources.get("CPU", 0), len(r.bundles)))
    if not all(_holds(largest.bundles, r.bundles) for r in requests):
        return None
    memory = [max(sizes) for sizes in itertools.zip_longest(*map(memory_of, requests), fillvalue=0)]
    return PlacementGroupFactory(with_bytes(largest.bundles, memory), strategy=largest.strategy)


def memory_of(request: PlacementGroupFactory) -> list[int]:
    """Bytes that a trial asks for, for each of its processes: its own, its runners', its learners'."""
    return [int(bundle.get(MEMORY, 0)) for bundle in request.bundles]


def with_bytes(bundles: Sequence[Mapping[str, float]], memory: Sequence[int]) -> list[dict[str, float]]:
    """Bundles with memory, as `memory_of` has it."""
    return [{**bundle, MEMORY: size} for bundle, size in zip(bundles, memory, strict=True)]


def _holds(bundles: Sequence[Mapping[str, float]], others: Sequence[Mapping[str, float]]) -> bool:
    """True if processes that ask for `others` find their place in `bundles`."""
    own, asked = ([(b.get("GPU", 0.0), b.get("CPU", 0.0)) for b in group] for group in (bundles, others))
    pairs = zip(sorted(own, reverse=True), sorted(asked, reverse=True), strict=False)
    return len(own) >= len(asked) and all(has[0] >= needs[0] and has[1] >= needs[1] for has, needs in pairs)
