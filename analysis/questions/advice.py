"""Changes to make, by the bottleneck of a trial. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from analysis.questions.facts import Facts
from analysis.questions.time_use import ENV, INFERENCE, LEARNER, MUCH_WAITING_SHARE, TRANSFER, TimeUse

SLOW_STEP_MS = 0.5
"""Of one environment, from which on a process per environment pays: talking to it takes some 0.1 ms."""
MANY_ENVS = 32
"""Per runner: a policy network of usual size gains little from more observations at once."""
BUSY_GPU_PERCENT = 80.0
"""Above it a GPU is well used, as practical guides have it."""
LEAST_FRAGMENT = 32
"""Env steps of a batch that each environment of an on-policy algorithm keeps: what autotune's 64 environments leave
of 2,048. Returns that are bootstrapped after fewer say little of what an action was worth."""

_RUNNERS, _ENVS, _LEARNERS = "num_env_runners", "num_envs_per_env_runner", "num_learners"
_PATHS = {
    _RUNNERS: f"algorithm.env_runners.{_RUNNERS}",
    _ENVS: f"algorithm.env_runners.{_ENVS}",
    _LEARNERS: f"algorithm.learners.{_LEARNERS}",
    "num_gpus_per_learner": "algorithm.learners.num_gpus_per_learner",
    "vectorize_mode": "env.vectorize_mode",
}


@dataclass(frozen=True)
class Change:
    """Something to try.

    Attributes:
        what: A sentence or more.
        settings: Columns of a study's runs to the values that it names; empty where it names none.
        learning: What it does to what is learned; "" if nothing, or if that is unknown.
    """

    what: str
    settings: Mapping[str, int | str] = field(default_factory=dict)
    learning: str = ""

    @property
    def words(self) -> str:
        """All of it."""
        return f"{self.what} {self.learning}".rstrip()


def words_of(changes: Sequence[Change]) -> str:
    """Changes as one text."""
    return " ".join(change.words for change in changes)


def overrides_of(settings: Mapping[str, int | str]) -> str:
    """Settings as a command line has them."""
    return " ".join(f"{_PATHS[name]}={value}" for name, value in settings.items())


def _to(words: str, facts: Facts | None = None, **settings: int | str) -> Change:
    """A change to settings, named after a colon; with a trial's facts, what it does to learning too."""
    learning = ""
    if facts is not None:
        runners, envs = (
            settings.get(_RUNNERS, facts.num_env_runners),
            settings.get(_ENVS, facts.num_envs_per_env_runner),
        )
        learning = _of_each(facts, int(runners), int(envs))
    return Change(f"{words}: {overrides_of(settings)}.", settings, learning)


def _of_each(facts: Facts, runners: int, envs: int) -> str:
    """The effect of another number of environments in all on what is learned; "" where it is the same, or unknown."""
    now, then = max(1, facts.num_env_runners) * facts.num_envs_per_env_runner, max(1, runners) * envs
    if then == now:
        return ""
    if facts.asynchronous:
        return (
            "With more environments samples are older when they are learned from: compare scores." if then > now else ""
        )
    if not facts.on_policy or facts.batch_env_steps is None:
        return ""
    batch = facts.batch_env_steps
    keeps = f" ({_PATHS[_ENVS]}={now // runners} keeps it as it is)" if runners > 1 and now % runners == 0 else ""
    of_each = (
        f"of {batch:,} env steps a batch each environment then has {batch // then:,}, in place of {batch // now:,}"
    )
    return f"That changes what is learned, so compare scores{keeps}: {of_each}."


def _most_envs(facts: Facts, runners: int, envs: int) -> int:
    """At most so many environments a runner that each keeps `LEAST_FRAGMENT` of a batch, at least one."""
    if not facts.on_policy or facts.batch_env_steps is None:
        return envs
    return max(1, min(envs, facts.batch_env_steps // (LEAST_FRAGMENT * max(1, runners))))


def _for_env(time: TimeUse) -> list[Change]:
    load, facts, advice = time.load, time.facts, list[Change]()
    waits, runners, envs = time.waits, facts.num_env_runners, facts.num_envs_per_env_runner
    if load.has_free_core:
        core_each = (
            min(1.0, max(0.1, load.runner_share)) if load.runner_share is not None and not facts.env_processes else 1.0
        )
        spare = runners if load.idle_cores is None else int((load.idle_cores + 0.2) / core_each)
        most = runners + max(1, min(spare, max(1, runners)))  # not more than twice as many at a time
        why = "if the machine has cores to spare" if load.idle_cores is None else "cores are free"
        why = "environments that wait leave cores free" if waits else why
        advice.append(_to(f"More env runners, {why}", facts, num_env_runners=max(2, most)))
    slow = waits or (time.step_ms is not None and time.step_ms >= SLOW_STEP_MS)
    if facts.vectorize_mode == "sync" and slow and (waits or load.has_free_core):
        if envs > 1:
            words = (
                "The step is slow and a runner's environments take turns: "
                "env.vectorize_mode=async steps them side by side."
            )
            advice.append(Change(words, {"vectorize_mode": "async"}))
        elif waits:
            words = "Environments that wait can do so side by side in one runner"
            advice.append(_to(words, facts, num_envs_per_env_runner=4, vectorize_mode="async"))
    if facts.vectorize_mode in ("sync", "async") and facts.has_vector_entry_point:
        advice.append(
            _to("The environment steps all of a runner's at once itself", vectorize_mode="vector_entry_point")
        )
    if time.parts["waiting"] >= MUCH_WAITING_SHARE and facts.on_policy:
        advice.append(Change("algorithm=appo does not wait for the slowest runner.", {"algorithm": "appo"}))
    if not load.has_free_core:
        what_it_takes = "." if advice else ": it takes a faster simulator, or more cores."
        head = f"No core is free for more runners{' while other programs run.' if load.has_company else what_it_takes}"
        advice.insert(0, Change(head))
    return advice


def _for_inference(time: TimeUse) -> list[Change]:
    facts, advice = time.facts, list[Change]()
    envs = facts.num_envs_per_env_runner
    more = _most_envs(facts, facts.num_env_runners, 2 * envs)
    if envs < MANY_ENVS and more > envs:
        advice.append(_to("One pass of the network can serve more environments", facts, num_envs_per_env_runner=more))
    if time.load.has_free_core and facts.num_env_runners and time.load.idle_cores is not None:
        advice.append(_to("Cores are free for more runners", facts, num_env_runners=2 * facts.num_env_runners))
    if envs >= MANY_ENVS or not advice:
        advice.append(
            Change(f"With {envs} environments a runner, a smaller network is what is left (algorithm.rl_module).")
        )
    return advice


def _for_transfer(time: TimeUse) -> list[Change]:
    facts, advice = time.facts, list[Change]()
    runners, envs = facts.num_env_runners, facts.num_envs_per_env_runner
    if runners > 1:
        more = _most_envs(facts, runners // 2, 2 * envs)
        words = (
            f"Fewer runners{' with more environments each' if more > envs else ''} send the same steps in fewer pieces"
        )
        advice.append(_to(words, facts, num_env_runners=runners // 2, num_envs_per_env_runner=more))
    if 1 <= runners <= 2 and not facts.asynchronous:
        advice.append(_to("Without remote runners no sample is sent at all", facts, num_env_runners=0))
    if facts.asynchronous:
        advice.append(Change("Longer fragments cost less a step (algorithm.env_runners.rollout_fragment_length)."))
        if time.parts["sync"] > time.parts["transfer"]:
            advice.append(
                Change(
                    "Weights can go out less often, at the price of staleness: algorithm.training.broadcast_interval."
                )
            )
    elif runners and not facts.replays:
        advice.append(
            Change(
                "A larger batch has fewer rounds: algorithm.training.train_batch_size_per_learner "
                "(with its learning rate)."
            )
        )
    return advice


def _for_learner(time: TimeUse) -> list[Change]:
    load, facts, advice = time.load, time.facts, list[Change]()
    if facts.num_gpus_per_learner > 0:
        if load.gpu_percent is not None and load.gpu_percent < BUSY_GPU_PERCENT:
            words = (
                f"The GPU is busy {load.gpu_percent:.0f}% of the time. Larger minibatches fill it: "
                "algorithm.training.minibatch_size."
            )
            advice.append(Change(words))
        if facts.num_gpus > max(1, facts.num_learners) * facts.num_gpus_per_learner:
            advice.append(_another_learner("A GPU is free for another learner", facts))
    elif facts.num_gpus >= 1:
        advice.append(_to("A GPU is there and not used", num_gpus_per_learner=1))
    if facts.on_policy:
        words = (
            "Larger minibatches take fewer steps (algorithm.training.minibatch_size), "
            "fewer epochs use each batch less often "
        )
        advice.append(Change(f"{words}(algorithm.training.num_epochs): both change learning, so compare scores."))
    if facts.replays:
        words = "Fewer updates per env step: a lower algorithm.update_to_data. It changes learning, so compare scores."
        advice.append(Change(words))
    if facts.num_gpus_per_learner == 0 and facts.num_gpus < 1 and load.idle_cores is not None and load.has_free_core:
        advice.append(_another_learner("Cores are free for another learner", facts))
    if facts.num_env_runners > 1 and not load.has_free_core:
        words = "No core is free, and fewer runners leave it more CPU"
        advice.append(_to(words, facts, num_env_runners=facts.num_env_runners // 2))
    return advice or [Change("A smaller network, or a faster core.")]


def _another_learner(why: str, facts: Facts) -> Change:
    more = max(1, facts.num_learners) + 1
    batch = facts.batch_env_steps
    grown = f" to {batch // (more - 1) * more:,} env steps" if batch is not None else ""
    learning = (
        f"Each brings a batch of its own, so that of all grows{grown}, which changes what is learned. "
        "Small networks often learn faster in the trial's own process: study=learner_scaling measures it."
    )
    return replace(_to(why, num_learners=more), learning=learning)


def for_starved(time: TimeUse) -> list[Change]:
    """For trials with more processes than cores."""
    load, facts, cores, advice = time.load, time.facts, time.facts.num_cpus or 1, list[Change]()
    if load.has_company:
        if not time.fills_it_itself:  # what it would be bound by without them cannot be seen
            return [Change("Stop the other programs, and measure again.")]
        advice.append(Change("Stop the other programs."))
    if not facts.exclusive:
        advice.append(Change("Other trials ran beside it: hardware.max_concurrent_trials=1 runs one at a time."))
    if facts.env_processes:
        words = "A process per environment is too many: env.vectorize_mode=sync, or fewer environments."
        return [*advice, Change(words, {"vectorize_mode": "sync"})]
    runners = facts.num_env_runners
    if runners > 1:
        # A synchronous algorithm learns while its runners rest.
        learning = max(1, facts.num_learners) if facts.asynchronous else 0
        # If nothing else took the cores, a runner less at least.
        fewer = max(1, min(runners - (0 if advice else 1), cores - learning))
        as_many = -(-runners * facts.num_envs_per_env_runner // fewer)
        envs = _most_envs(facts, fewer, as_many)
        if fewer < runners:
            how = "with as many environments in all" if envs == as_many else "and fewer environments in all"
            advice.append(_to(f"Fewer runners {how}", facts, num_env_runners=fewer, num_envs_per_env_runner=envs))
    return advice


ADVICE: Mapping[str, Callable[[TimeUse], list[Change]]] = {
    ENV: _for_env,
    INFERENCE: _for_inference,
    TRANSFER: _for_transfer,
    LEARNER: _for_learner,
}
