"""The studies that the benchmarks keep: nothing in conf/ can change what their trials do."""

import math

import pytest

from benchmarks.support.frozen import DEFAULT, SHORT, axes, frozen, overrides
from experiments.config.space import leaves
from tests.support.planning import plan_for

SECTIONS = ("algorithm", "env", "evaluation", "checkpoint")
NOT_NEEDED = {"env.budget_env_steps", "env.report_every_env_steps", "env.extra", "checkpoint.replay"}
"""Settings of the environment's file that the study's own replace, and what is to be installed for it."""


@pytest.mark.parametrize(("name", "trials"), [(DEFAULT, 45), (SHORT, 27)])
def test_a_frozen_study_says_all_that_its_trials_do(name: str, trials: int) -> None:
    plan, content = plan_for(*overrides(name)), frozen(name)
    assert len(plan.trials) == math.prod(len(axis) for axis in axes(name)) * len(content["seeds"]) == trials
    for trial in plan.trials:
        mapping = trial.to_mapping()
        settings = {path for path, _ in leaves({section: mapping[section] for section in SECTIONS})}
        assert settings - NOT_NEEDED <= {path for path, _ in leaves(content)} | set(content["study"]["space"])
        assert trial.budget_env_steps == content["budget_env_steps"]
        assert trial.report_every_env_steps == content["report_every_env_steps"]
        assert trial.checkpoint.every_env_steps == content["checkpoint"]["every_env_steps"]
        assert trial.algorithm["env_runners"] == content["algorithm"]["env_runners"]
