"""The memory that trials are predicted to take, and the plans that follow from it."""

import pytest

from experiments.config.errors import ConfigurationError
from experiments.planning.machines import Cluster, Node, memory_of_trials
from experiments.planning.plan import plan_study
from experiments.planning.resources import DoesNotFitError, memory_of
from experiments.planning.terminal import plan_lines
from experiments.rllib.building import build_algorithm_config
from experiments.rllib.checkpoint_sizes import networks_sizes
from experiments.rllib.memory_sizes import process_memory
from tests.support.planning import composed_for, plan_for

GIB = 2**30
SINGLE = "study=single"
PAIRS = [
    *(("ppo", env) for env in ("cartpole", "acrobot", "lunarlander", "pendulum", "halfcheetah", "pong")),
    *(("dqn", env) for env in ("cartpole", "mountaincar", "lunarlander")),
    *(("sac", env) for env in ("pendulum", "halfcheetah", "hopper")),
    ("tqc", "pendulum"),
    *((name, "cartpole") for name in ("appo", "impala", "ppo_ewma")),
]


def machine(num_cpus: float, gib: float) -> Cluster:
    return Cluster((Node(num_cpus, 0, memory=gib * GIB),))


@pytest.mark.parametrize(("algorithm", "env"), PAIRS)
def test_trials_side_by_side_fit_into_the_memory_of_a_machine_with_many_cpus(algorithm: str, env: str) -> None:
    seeds = f"seeds={list(range(64))}"
    plan = plan_for(SINGLE, f"algorithm={algorithm}", f"env={env}", seeds, cluster=machine(64, 24))
    (configuration,) = plan.configurations
    each = sum(configuration.predicted_bytes)
    assert 0 < plan.concurrency * each <= 24 * GIB
    assert memory_of(configuration.request) == list(configuration.predicted_bytes)
    more = plan.concurrency + 1
    cpus = configuration.request.required_resources["CPU"]
    assert more * each > 24 * GIB or more * cpus > 64
    said = next(line for line in plan_lines(plan) if line.startswith("memory"))
    assert (f"no more than {plan.concurrency} side by side by it" in said) == (64 // cpus > plan.concurrency)
    assert "of 24.0 GiB" in said


def test_a_replay_buffer_counts_as_the_one_that_the_algorithm_makes() -> None:
    def replay(*words: str) -> int:
        trial = plan_for(SINGLE, *words, "env=pendulum", "seeds=[0]").trials[0]
        config = build_algorithm_config(trial)
        return process_memory(trial, config, networks_sizes(trial, config)).replay

    assert replay("algorithm=tqc") == replay("algorithm=tqc", "fast=false")  # RLlib's own
    assert replay("algorithm=sac") < replay("algorithm=sac", "fast=false")


def test_environments_count_as_they_are_when_made() -> None:
    held = [
        "env.id=odd_envs:odd/Odd-v0",
        "++env.env_config.holds=64",
        "hardware.total_envs=4",
        "env.max_episode_steps=50",
    ]
    few = ["evaluation.episodes=2", "evaluation.final_episodes=3"]
    plan = plan_for(SINGLE, "env=gym", *held, *few, "seeds=[0]", cluster=machine(4, 24))
    without = plan_for(SINGLE, "env=gym", *held, *few, "++env.env_config.holds=0", "seeds=[0]", cluster=machine(4, 24))
    took = sum(plan.configurations[0].predicted_bytes) - sum(without.configurations[0].predicted_bytes)
    assert took / 2**20 == pytest.approx((4 + max(3, 4 + 2)) * 64, rel=0.25)


@pytest.mark.parametrize(
    ("words", "gib", "fix"),
    [
        (["algorithm=dqn", "env=pong"], 1.5, r"Try \+\+algorithm.training.replay_buffer_config.capacity=(\d+)"),
        (["hardware.num_env_runners=2", "hardware.vectorize_mode=async"], 3, "hardware.num_envs_per_env_runner=2"),
        (["algorithm=ppo"], 0.25, "Take a larger machine"),
    ],
)
def test_a_trial_that_fits_nowhere_is_refused_with_the_setting_that_makes_it_fit(
    words: list[str], gib: float, fix: str
) -> None:
    with pytest.raises(DoesNotFitError, match=fix) as error:
        plan_for(SINGLE, *words, "seeds=[0]", cluster=machine(4, gib))
    said = str(error.value)
    assert "hardware.memory_gib=" in said
    if "=" in fix:
        setting = said.partition("Try ")[2].partition(", or")[0]
        assert plan_for(SINGLE, *words, setting, "seeds=[0]", cluster=machine(4, gib)).configurations


def test_processes_of_one_kind_are_given_as_much_so_that_one_trial_follows_another_in_them() -> None:
    space = "study.space={algorithm.training.train_batch_size_per_learner:[512,16384]}"
    small, large = plan_for(space, "env=pong", "seeds=[0]", cluster=machine(4, 24)).configurations
    assert sum(small.predicted_bytes) < sum(large.predicted_bytes)
    assert small.request == large.request and memory_of(small.request) == list(large.predicted_bytes)


def test_unequal_nodes_get_what_they_hold() -> None:
    nodes = Cluster((Node(16, 0, memory=1 * GIB), Node(16, 0, memory=4 * GIB)), is_joined=True)
    plan = plan_for(SINGLE, "seeds=[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]", cluster=nodes)
    each = sum(plan.configurations[0].predicted_bytes)
    assert plan.concurrency == 1 * GIB // each + 4 * GIB // each


def test_a_trial_that_no_node_holds_by_itself_is_spread() -> None:
    nodes = Cluster(tuple(Node(16, 0, memory=1 * GIB) for _ in range(3)), is_joined=True)
    plan = plan_for(
        SINGLE, "seeds=[0]", "hardware.num_env_runners=3", "hardware.num_envs_per_env_runner=1", cluster=nodes
    )
    assert plan.configurations[0].request.strategy == "PACK" and plan.concurrency == 1


@pytest.mark.parametrize(("words", "goes_by_it"), [([], True), (["search=racing"], False)])
def test_earlier_trials_say_it_better_but_not_to_a_search(words: list[str], goes_by_it: bool) -> None:
    plan, compose = composed_for(*words, "seeds=[0]", cluster=machine(8, 12))
    peaks = {c.config_id: 2000.0 for c in plan.configurations}
    again = plan_study(plan.suite, compose, machine(8, 12), lambda algorithm, env: peaks)
    assert all((sum(c.predicted_bytes) >= 2000 * 2**20) == goes_by_it for c in again.configurations)
    assert again.concurrency == (5 if goes_by_it else plan.concurrency)


def test_declared_memory_is_what_trials_may_take() -> None:
    assert memory_of_trials(3.5) == 3.5 * GIB
    assert 0 <= memory_of_trials(None) < Node(1, 0).memory
    with pytest.raises(ConfigurationError, match="memory_gib"):
        plan_for(SINGLE, "hardware.memory_gib=0")
