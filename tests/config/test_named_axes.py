from typing import Any

import pytest

from experiments.config.errors import ConfigurationError
from experiments.config.named_axes import settings_of
from experiments.config.space import corners, parse_space, size
from experiments.planning.plan import Plan
from experiments.planning.record import plan_record, trial_params
from experiments.planning.trials import StudyTrials
from tests.support.suite import RULES, PlanOf

LR, BATCH = "algorithm.training.lr", "algorithm.training.train_batch_size_per_learner"
AXES = {"learning_rate": ["training.lr"], "batch_size": ["training.train_batch_size_per_learner"]}
THREE = {"learning_rate": ["training.actor_lr", "training.critic_lr"]}


def composed(axes: dict[str, Any], **training: Any) -> dict[str, Any]:
    return {"algorithm": {"name": "any", "training": training, "axes": axes}}


def training_of(plan: Plan) -> dict[str, dict[str, Any]]:
    return {c.label: c.suite.algorithm["training"] for c in plan.configurations}


def test_a_name_that_moves_one_setting_stands_for_it() -> None:
    found = settings_of(
        {"learning_rate": 0.1, "batch_size": 0.3}, composed(AXES, lr=3e-3, train_batch_size_per_learner=2048)
    )
    # no 0.00030000000000000003, and a whole number stays one
    assert found.by_path == found.shown == {LR: 3e-4, BATCH: 614}
    assert not found.multiples


def test_a_name_that_moves_several_settings_moves_them_by_the_same_factor() -> None:
    found = settings_of({"learning_rate": 10}, composed(THREE, actor_lr=2e-4, critic_lr=8e-4))
    assert found.by_path == {"algorithm.training.actor_lr": 2e-3, "algorithm.training.critic_lr": 8e-3}
    assert found.shown == found.multiples == {"learning_rate": 10}


def test_of_a_schedule_all_values_are_multiplied() -> None:
    found = settings_of({"learning_rate": 2}, composed(AXES, lr=[[0, 1e-3], [1000, 0.0]]))
    assert found.by_path == {LR: [[0, 2e-3], [1000, 0.0]]}
    assert found.shown == {"learning_rate": 2}


def test_of_several_settings_one_of_0_stays_what_it_is() -> None:
    found = settings_of({"learning_rate": 10}, composed(THREE, actor_lr=2e-4, critic_lr=0.0))
    assert found.by_path == found.shown == {"algorithm.training.actor_lr": 2e-3}
    with pytest.raises(ConfigurationError, match=r"multiplies algorithm\.training\.actor_lr, which is 0\.0"):
        settings_of({"learning_rate": 10}, composed(THREE, actor_lr=0.0, critic_lr=0.0))


@pytest.mark.parametrize(
    ("point", "training", "message"),
    [
        (
            {"update_to_data": 2},
            {"lr": 1e-3},
            "algorithm=any has no such axis. Those of its file are: learning_rate, batch_size",
        ),
        (
            {"learning_rate": 2},
            {"lr": None},
            r"multiplies algorithm\.training\.lr, which is None\. Give it a base value above 0",
        ),
        ({"learning_rate": 2}, {}, r"which is None"),
        ({"learning_rate": 2}, {"lr": {"rule": "sqrt"}}, r"which is \{'rule'"),
    ],
)
def test_what_has_no_base_is_not_multiplied(point: dict[str, Any], training: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        settings_of(point, composed(AXES, **training))


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ([1e-3], "relative to the algorithm's own settings. Try learning_rate: {distribution: multiples"),
        ({"distribution": "loguniform", "low": 1e-4, "high": 1e-2}, "learning_rate: distribution"),
        ({"distribution": "multiples", "factors": [1, 2], "low": 1.0}, "needs factors"),
        ({"distribution": "multiples", "low": 1.0}, "needs factors"),
        ({"distribution": "multiples", "low": 10.0, "high": 1.0}, "must be below"),
        ({"distribution": "multiples", "factors": [0, 1]}, "factors"),
    ],
)
def test_a_named_axis_is_given_as_multiples(axis: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_space({"learning_rate": axis})


def test_multiples_from_a_range_are_log_uniform_factors() -> None:
    space = {"learning_rate": {"distribution": "multiples", "low": 0.1, "high": 10.0}}
    assert [point["learning_rate"] for point in corners(space)] == [0.1, 10.0]
    assert size(parse_space(space)) == float("inf")


def test_the_main_study_asks_about_all_learning_rates_of_sac_together(plan_of: PlanOf) -> None:
    plan = plan_of("study=lr_batch", "algorithm=sac", "env=pendulum", "seeds=[0]")
    low = training_of(plan)["lr=x0.1 b=64"]
    assert {low[name] for name in ("actor_lr", "critic_lr", "alpha_lr")} == {1e-4}
    assert [axis.name for axis in plan.axes] == ["lr_multiple", "train_batch_size_total"]
    params = trial_params(plan, plan.configurations[0].trial(0))
    assert (params["lr_multiple"], params["actor_lr"], params["critic_lr"], params["alpha_lr"]) == (
        0.1,
        1e-4,
        1e-4,
        1e-4,
    )


def test_by_a_rule_all_learning_rates_of_sac_follow_the_batch(plan_of: PlanOf) -> None:
    plan = plan_of(RULES, "algorithm=sac", "env=pendulum", "seeds=[0]")
    grown = training_of(plan)["lr=linear b=128"]
    assert (grown["actor_lr"], grown["alpha_lr"]) == (2e-3, 2e-3)
    record = plan_record(StudyTrials(plan))
    assert list(record["axes"]) == ["lr_rule", "train_batch_size_total"]
    assert (
        next(c["params"]["lr_rule"] for c in record["configurations"] if c["config"] == "lr=linear b=128") == "linear"
    )


def test_a_larger_batch_of_replayed_rows_is_not_updated_with_less_often(plan_of: PlanOf) -> None:
    plan = plan_of("study=lr_batch", "algorithm=dqn", "seeds=[0]")
    intensities = {t["train_batch_size_per_learner"]: t["training_intensity"] for t in training_of(plan).values()}
    assert intensities == {32: 16.0, 128: 64.0, 256: 128.0}  # trained rows per env step: an update per 2 env steps
    assert {trial_params(plan, c.trial(0))["update_to_data"] for c in plan.configurations} == {0.5}


def test_half_of_one_update_is_half_an_update() -> None:
    """A whole number in a file is no count of updates; a batch is one of rows."""
    axes = {"update_to_data": ["update_to_data"], "batch_size": ["training.train_batch_size_per_learner"]}
    at_1 = {"algorithm": {"axes": axes, "update_to_data": 1, "training": {"train_batch_size_per_learner": 5}}}
    found = [settings_of({"update_to_data": by, "batch_size": by}, at_1).by_path for by in (0.5, 1, 2)]
    assert [tuple(one.values()) for one in found] == [(0.5, 2), (1, 5), (2, 10)]
    assert isinstance(found[1]["algorithm.update_to_data"], int)


def test_updates_per_env_step_are_an_axis_of_their_own(plan_of: PlanOf) -> None:
    plan = plan_of("algorithm=dqn", "study.space={update_to_data:{distribution:multiples,factors:[1,4]}}", "seeds=[0]")
    assert {label: t["training_intensity"] for label, t in training_of(plan).items()} == {
        "utd=0.5": 64.0,
        "utd=2": 256.0,
    }


def test_a_multiple_is_of_each_algorithm_s_own_settings(plan_of: PlanOf) -> None:
    plan = plan_of(
        "study.space={algorithm:[ppo,dqn],learning_rate:{distribution:multiples,factors:[0.5]}}", "seeds=[0]"
    )
    assert {c.suite.algorithm["name"]: c.suite.algorithm["training"]["lr"] for c in plan.configurations} == {
        "ppo": 1.5e-3,
        "dqn": [[0, 5e-4], [50000, 0.0]],
    }


def test_a_named_configuration_is_the_one_that_its_settings_make(plan_of: PlanOf) -> None:
    grid = "report_every_env_steps=5000"  # else that of the largest batch
    named = plan_of("study=lr_batch", grid, "seeds=[0]").configurations[0]
    plain = plan_of("study.space={}", grid, f"{LR}=3.0e-4", f"{BATCH}=512", "seeds=[0]").configurations[0]
    assert named.trial(0).config_id == plain.trial(0).config_id


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("algorithm.update_to_data=0", "must be a number of updates per env step, above 0"),
        ("algorithm.update_to_data=often", "must be a number of updates per env step, above 0"),
        ("+algorithm.training.training_intensity=8", "both say how often to update"),
    ],
)
def test_how_often_to_update_is_said_once_and_as_a_number(override: str, message: str, plan_of: PlanOf) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_of("algorithm=dqn", "study.space={}", override)


def test_an_algorithm_without_replay_has_no_such_ratio(plan_of: PlanOf) -> None:
    with pytest.raises(ConfigurationError, match=r"algorithm\.update_to_data=1.*ppo replays nothing"):
        plan_of("algorithm=ppo", "study.space={}", "algorithm.update_to_data=1")
