"""Trials on staggered environments: what is refused, what changes and what must not."""

from typing import Any

import numpy as np
import pytest

from experiments.config.errors import ConfigurationError
from experiments.config.trial_config import TrialConfig
from experiments.planning.machines import Cluster, Node
from experiments.rllib.building import build_algorithm_config, environment_of
from experiments.rllib.hooks import STAGGERED
from tests.support.suite import TINY, PlanOf
from tests.support.trials import WEIGHTS, Make, learned, run, step

PENDULUM = (
    "env=pendulum",
    "env.max_episode_steps=16",
    "study.space={}",
    "seeds=[0]",
    "hardware.num_envs_per_env_runner=4",
)
SMALL = (
    *TINY,
    *PENDULUM,
    "budget_env_steps=256",
    "report_every_env_steps=64",
    "algorithm.training.train_batch_size_per_learner=64",
)
SMALLER = (*SMALL, "algorithm.training.minibatch_size=32", "algorithm.training.num_epochs=1")
STAGGER = "env.stagger=true"
FOUR_CPUS = Cluster((Node(4, 0),))


def trial_of(plan_of: PlanOf, *settings: str) -> TrialConfig:
    return plan_of(*SMALLER, *settings, cluster=FOUR_CPUS).trials[0]


@pytest.mark.parametrize(
    ("settings", "fix"),
    [
        (("env=cartpole",), r"the vector implementation that CartPole-v1 brings .* Try env.vectorize_mode=sync."),
        (
            ("env=pendulum", "env.backend=envpool"),
            "EnvPool cannot end the episode of one environment alone. Try env.backend=gymnasium.",
        ),
    ],
)
def test_what_cannot_be_staggered_is_refused_with_the_fix(plan_of: PlanOf, settings: tuple[str, ...], fix: str) -> None:
    with pytest.raises(ConfigurationError, match=f"env.stagger=true: {fix}"):
        plan_of("study=smoke", STAGGER, *settings)


def test_it_is_part_of_the_configuration_and_leaves_the_others_ids_as_they_were(plan_of: PlanOf) -> None:
    together, apart = trial_of(plan_of), trial_of(plan_of, STAGGER)
    assert together.config_id != apart.config_id
    before = together.to_mapping()
    del before["env"]["stagger"]  # as trials were recorded before there was a choice
    assert TrialConfig.from_mapping(before).config_id == together.config_id
    assert TrialConfig.from_mapping(apart.to_mapping()) == apart


def test_only_training_is_staggered(plan_of: PlanOf) -> None:
    trial = trial_of(plan_of, STAGGER)
    assert build_algorithm_config(trial).env == STAGGERED
    assert environment_of(trial).id == "Pendulum-v1"
    assert build_algorithm_config(trial_of(plan_of)).env == "Pendulum-v1"


@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
class TestTrained:
    """In training."""

    def test_environments_are_at_spread_phases_and_cut_episodes_count_as_none(
        self, plan_of: PlanOf, make: Make
    ) -> None:
        trial = make(trial_of(plan_of, STAGGER))
        first, second, *_ = run(trial)
        # In the first 64 env steps of four environments three episodes are cut, after 4, 8 and 12 env steps, and the
        # last one's is whole; in the next four whole ones end.
        assert (first["train/episodes"], second["train/episodes"]) == (1, 4)
        assert first["train/episode_len_mean"] == second["train/episode_len_mean"] == 16
        assert second["progress/env_steps"] == 128  # no step is taken beside them

    def test_phase_diversity_tells_lockstep_from_staggered(self, plan_of: PlanOf, make: Make) -> None:
        short = ("algorithm.training.train_batch_size_per_learner=16", "algorithm.training.minibatch_size=16")
        together, apart = (run(make(trial_of(plan_of, *short, *more)))[-1] for more in ((), (STAGGER,)))
        # Four batches a report, of four env steps of each environment: in lockstep they are a quarter of the episode.
        quarter = abs(np.exp(2j * np.pi * np.arange(4) / 16).mean())
        assert together["train/phase_diversity"] == pytest.approx(1 - quarter)
        assert apart["train/phase_diversity"] > 0.9

    def test_it_changes_what_is_learned_and_a_repeat_is_the_same_to_the_bit(self, plan_of: PlanOf, make: Make) -> None:
        together, apart, again = (run(make(trial_of(plan_of, *more)))[-1] for more in ((), (STAGGER,), (STAGGER,)))
        assert together[WEIGHTS] != apart[WEIGHTS]
        assert (again[WEIGHTS], learned(again)) == (apart[WEIGHTS], learned(apart))

    @pytest.mark.parametrize(
        "settings",
        [
            (),
            pytest.param(("env.vectorize_mode=async",), marks=pytest.mark.slow),
            pytest.param(("preprocessing.frame_stack=2",), marks=pytest.mark.slow),
            pytest.param(
                ("hardware.num_env_runners=2", "hardware.num_envs_per_env_runner=2"), marks=pytest.mark.nightly
            ),
        ],
        ids=str,
    )
    def test_rllibs_own_env_runner_gives_the_same(self, plan_of: PlanOf, make: Make, settings: tuple[str, ...]) -> None:
        fast, stock = (run(make(trial_of(plan_of, STAGGER, *settings, f"fast={fast}"))) for fast in ("true", "false"))
        assert fast[-1][WEIGHTS] == stock[-1][WEIGHTS]
        for ours, theirs in zip(fast, stock, strict=True):
            assert learned(ours) == pytest.approx(learned(theirs), rel=1e-5, abs=1e-6)

    @pytest.mark.slow
    def test_processes_of_their_own_give_what_one_process_gives(self, plan_of: PlanOf, make: Make) -> None:
        whole = "checkpoint.every_env_steps=256"  # at a checkpoint on the way, processes of their own are reset
        sync, apart = (
            run(make(trial_of(plan_of, STAGGER, whole, f"env.vectorize_mode={mode}")))[-1] for mode in ("sync", "async")
        )
        assert (apart[WEIGHTS], learned(apart)) == (sync[WEIGHTS], learned(sync))

    def test_of_an_algorithm_that_replays_there_is_no_phase_diversity(self, plan_of: PlanOf, make: Make) -> None:
        soon = (
            "algorithm=sac",
            "algorithm.training.num_steps_sampled_before_learning_starts=32",
            "budget_env_steps=64",
        )
        said = step(make(plan_of("study=smoke", *PENDULUM, *soon, STAGGER, "report_every_env_steps=64").trials[0]))
        assert "train/phase_diversity" not in said
        assert said["progress/updates"] > 0


@pytest.mark.ray
@pytest.mark.nightly
@pytest.mark.usefixtures("ray_instance")
@pytest.mark.parametrize("algorithm", ["impala", "appo"])
def test_asynchronous_algorithms_have_it_too(plan_of: PlanOf, make: Make, algorithm: str) -> None:
    common = ("study=smoke", *PENDULUM[1:], "env=cartpole", "env.vectorize_mode=sync", STAGGER)
    said: dict[str, Any] = run(make(plan_of(*common, f"algorithm={algorithm}", cluster=FOUR_CPUS).trials[0]))[-1]
    assert 0 <= said["train/phase_diversity"] <= 1
