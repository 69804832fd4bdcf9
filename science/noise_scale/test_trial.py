"""A trial that measures its gradient noise scale learns what it would have learned."""

from pathlib import Path
from typing import Any

import pytest

from science.noise_scale.manifest import MANIFEST
from tests.support.interrupted import PPO, assert_same_when_interrupted
from tests.support.interrupted import REPLAY as REPLAY_AND_CHECKPOINTS
from tests.support.suite import TINY, PlanOf
from tests.support.trials import REPLAY, WEIGHTS, Make, learned, run

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_instance")]

ON = ("noise_scale.measure=true", "noise_scale.every_updates=2")
HERE = ("seeds=[0]", "study.space={}", "hardware.num_env_runners=0", "hardware.num_envs_per_env_runner=4")


def measured(said: dict[str, Any]) -> set[str]:
    """The metrics that only a trial that measures has."""
    return {name for name in said if name in MANIFEST.metrics}


@pytest.mark.parametrize(
    ("settings", "networks"),
    [
        (TINY, True),
        ((*TINY, "algorithm.rl_module.vf_share_layers=true"), False),
        pytest.param(("fast=false", *TINY), True, marks=pytest.mark.slow),
        ((*REPLAY, "algorithm=dqn"), False),
        pytest.param((*REPLAY, "algorithm=dqn", "fast=false"), False, marks=pytest.mark.slow),
        pytest.param((*REPLAY, "algorithm=sac", "env=pendulum"), True, marks=pytest.mark.slow),
        pytest.param((*REPLAY, "algorithm=tqc", "env=pendulum"), True, marks=pytest.mark.nightly),
        pytest.param(
            (*REPLAY, "algorithm=sac", "env=pendulum", "preprocessing=normalize"), True, marks=pytest.mark.nightly
        ),
    ],
    ids=["ppo", "ppo, one trunk", "ppo of RLlib", "dqn", "dqn of RLlib", "sac", "tqc", "sac, normalised"],
)
def test_measuring_changes_nothing_that_is_learned(
    plan_of: PlanOf, make: Make, settings: tuple[str, ...], networks: bool
) -> None:
    off, on = (plan_of(*settings, *HERE, *more).trials[0] for more in ((), ON))
    assert on.config_id == off.config_id
    expected, found = run(make(off)), run(make(on))
    assert found[-1][WEIGHTS] == expected[-1][WEIGHTS]
    assert not any(map(measured, expected))
    own = measured(found[-1])
    assert [{k: v for k, v in learned(said).items() if k not in measured(said)} for said in found] == [
        learned(said) for said in expected
    ]
    estimates = {f"{group}/gradient_{what}" for group in ("learner", "final") for what in ("square", "noise")}
    assert own >= estimates | (
        {f"{name}{of}" for name in estimates for of in ("_policy", "_value")} if networks else set()
    )
    assert any(name.endswith("_policy") for name in own) == networks
    if networks:
        for name in estimates:
            assert found[-1][f"{name}_policy"] + found[-1][f"{name}_value"] == pytest.approx(found[-1][name], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [pytest.param(name, marks=pytest.mark.nightly) for name in ("impala", "appo")])
def test_asynchronous_algorithms_measure_it_too(plan_of: PlanOf, make: Make, algorithm: str) -> None:
    settings = (
        "study=smoke",
        f"algorithm={algorithm}",
        "budget_env_steps=8000",
        "report_every_env_steps=4000",
        "evaluation.episodes=2",
    )
    runners = ("hardware.num_env_runners=1", "hardware.num_envs_per_env_runner=4", "seeds=[0]", "study.space={}", *ON)
    said = run(make(plan_of(*settings, *runners, "evaluation.final_episodes=2").trials[0]))
    assert {
        f"final/gradient_{what}{of}" for what in ("square", "noise") for of in ("", "_policy", "_value")
    } <= measured(said[-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [("ppo", PPO), pytest.param("dqn", ("budget_env_steps=600", *REPLAY_AND_CHECKPOINTS), marks=pytest.mark.nightly)],
    ids=["ppo", "dqn"],
)
def test_its_sums_go_with_checkpoints(
    plan_of: PlanOf, tmp_path: Path, algorithm: str, settings: tuple[str, ...]
) -> None:
    every = ("noise_scale.measure=true", "noise_scale.every_updates=3")
    assert_same_when_interrupted(plan_of, tmp_path, algorithm, "cartpole", (*settings, *every))
