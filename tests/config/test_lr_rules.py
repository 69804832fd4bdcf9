import math
from typing import Any

import pytest

from experiments.config.errors import ConfigurationError
from experiments.config.lr_rules import Rule, names_of, rules_of, with_rules
from experiments.planning.record import plan_record
from experiments.planning.trials import StudyTrials
from tests.support.suite import RULES, PlanOf

LR = "algorithm.training.lr"
BATCH = "algorithm.training.train_batch_size_per_learner"
SQRT = {"rule": "sqrt", "base_lr": 1e-3, "base_batch": 1000}


def algorithm(num_learners: int = 0, **training: Any) -> dict[str, Any]:
    return {"training": {"train_batch_size_per_learner": 4000, **training}, "learners": {"num_learners": num_learners}}


@pytest.mark.parametrize(("rule", "value"), [("constant", 1e-3), ("sqrt", 2e-3), ("linear", 4e-3)])
def test_a_rule_follows_the_batch(rule: str, value: float) -> None:
    assert Rule(rule, 1e-3, 1000).at(4000) == pytest.approx(value)
    assert Rule(rule, 1e-3, 1000).at(1000) == 1e-3
    assert Rule(rule, 1e-3, 1000).at(250) == pytest.approx(1e-6 / value)


def test_whole_numbers_stay_whole_and_above_zero() -> None:
    assert Rule("sqrt", 128, 1000).at(2000) == 181
    assert Rule("linear", 1, 1000).at(100) == 1


def test_the_batch_is_that_of_all_learners_but_for_minibatches() -> None:
    given = algorithm(2, lr=SQRT, minibatch_size={"rule": "linear", "base_minibatch_size": 100, "base_batch": 1000})
    rules = rules_of(given)
    training = with_rules(given, rules)["training"]
    assert training["lr"] == pytest.approx(1e-3 * math.sqrt(8))
    assert training["minibatch_size"] == 400
    assert names_of(given, rules) == {"lr": "sqrt", "minibatch_size": "linear"}
    assert names_of(
        algorithm(lr={**SQRT, "base_batch": 4000}), rules_of(algorithm(lr={**SQRT, "base_batch": 4000}))
    ) == {"lr": "base"}


def test_the_number_of_environments_may_follow_the_batch() -> None:
    envs = {"rule": "linear", "base_num_envs_per_env_runner": 16, "base_batch": 1000}
    given = {**algorithm(lr=1e-3), "env_runners": {"num_env_runners": 0, "num_envs_per_env_runner": envs}}
    ruled = with_rules(given, rules_of(given))
    assert ruled["env_runners"] == {"num_env_runners": 0, "num_envs_per_env_runner": 64}
    assert ruled["training"]["lr"] == 1e-3
    with pytest.raises(
        ConfigurationError,
        match=r"algorithm.env_runners.num_env_runners: has no rule, only num_envs_per_env_runner may",
    ):
        rules_of({**given, "env_runners": {"num_env_runners": {"rule": "linear"}}})


def test_other_mappings_are_left_alone() -> None:
    assert rules_of(algorithm(replay_buffer_config={"capacity": 1})) == {}
    assert rules_of({}) == rules_of({"training": 3}) == {}


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"lr": {"rule": "sqrt", "base_batch": 1000}}, r"training\.lr=.*needs base_lr. Try \{rule: sqrt, base_lr: 3"),
        ({"lr": {"base_lr": 1e-3, "base_batch": 1000}}, r"training\.lr=.*needs rule \(constant, sqrt, linear\). Try"),
        (
            {"minibatch_size": {"rule": "sqrt", "base_minibatch_size": 1.5, "base_batch": 1000}},
            "base_minibatch_size=1.5: must be a whole number",
        ),
        ({"lr": {"rule": "sqrt"}}, "needs base_lr and base_batch"),
        (
            {"lr": {**SQRT, "rule": "cubic"}},
            r"training\.lr\.rule='cubic': input should be 'constant', 'sqrt' or 'linear'",
        ),
        ({"lr": {**SQRT, "base_lr": -1}}, r"training\.lr\.base_lr=-1: "),
        ({"lr": {**SQRT, "base_lr": "1e-3"}}, r"base_lr='1e-3'"),
        ({"lr": {**SQRT, "base_batch": 0.5}}, r"base_batch=0\.5"),
        ({"lr": {**SQRT, "exponent": 0.5}}, "a rule has no exponent"),
        ({"train_batch_size_per_learner": {"rule": "sqrt"}}, "has none itself"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_key_and_the_fix(training: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        rules_of(algorithm(**training))


def test_a_study_of_rules_starts_from_one_point_and_names_its_rules(plan_of: PlanOf) -> None:
    plan = plan_of(RULES, f"{LR}=0.001", f"{BATCH}=1024", "seeds=[0]")
    points = {c.label: (c.suite.algorithm["training"]["lr"], c.batch_env_steps) for c in plan.configurations}
    assert points["lr=base b=1024"] == (1e-3, 1024)
    assert points["lr=sqrt b=256"] == (pytest.approx(5e-4), 256)
    assert points["lr=linear b=2048"] == (pytest.approx(2e-3), 2048)
    assert len(points) == 1 + 3 * 3
    assert set(plan_record(StudyTrials(plan))["axes"]) == {"lr_rule", "train_batch_size_total"}
    rules = {c["config"]: c["params"]["lr_rule"] for c in plan_record(StudyTrials(plan))["configurations"]}
    assert rules["lr=sqrt b=256"] == "sqrt"
    assert rules["lr=base b=1024"] == "base"


def test_a_rule_works_in_any_study_and_changes_nothing_but_the_number(plan_of: PlanOf) -> None:
    space = f"study.space={{{BATCH}:[1000,4000]}}"
    small, large = plan_of(space, f"{LR}={{rule:sqrt,base_lr:1e-3,base_batch:1000}}").configurations
    assert large.suite.algorithm["training"]["lr"] == pytest.approx(2e-3)
    assert (small.rules, large.rules) == ({"lr": "base"}, {"lr": "sqrt"})
    plain = plan_of(f"study.space={{{BATCH}:[1000,4000]}}", f"{LR}=0.002").configurations[1]
    assert large.trial(0).config_id == plain.trial(0).config_id


def test_overrides_of_what_a_study_starts_from_are_welcome_and_others_refused(plan_of: PlanOf) -> None:
    rules = f"study.space={{{LR}:[{{rule:sqrt,base_lr:1e-3,base_batch:1000}}]}}"
    plan_of(rules, f"{LR}=0.001")
    with pytest.raises(ConfigurationError, match="has no effect"):
        plan_of(rules, f"{LR}=0.002")


def test_of_a_schedule_all_values_follow_the_batch(plan_of: PlanOf) -> None:
    # its rate on CartPole goes to zero
    planned = plan_of(RULES, "confirmation.always=true", "algorithm=impala").configurations
    rates = {c.label: c.trial(0).algorithm["training"]["lr"] for c in planned}
    assert rates["lr=base b=400"] == [[0, 1e-3], [300_000, 0.0]]
    assert rates["lr=linear b=800"] == [[0, 2e-3], [300_000, 0.0]]
    assert rates["lr=constant b=200"] == rates["lr=base b=400"]
