"""Which studies may take trials from others."""

import pytest

from experiments.config.errors import ConfigurationError
from experiments.planning.machines import Cluster, Node
from tests.support.suite import PlanOf


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["study=runner_scaling"], "reuse=true with study=runner_scaling, which measures throughput.*Leave reuse out"),
        (["study=joint"], "reuse=true with search=joint, which measures throughput.*Leave reuse out"),
        (
            ["objective=minutes_to_target", "hardware.max_concurrent_trials=1"],
            "the objective minutes_to_target, which goes by the clock.*try objective=env_steps_to_target",
        ),
        (
            ["objective={score_in_minutes:10}", "hardware.max_concurrent_trials=1"],
            "the objective score_in_minutes, which goes by the clock",
        ),
        (
            ["search=optuna", "search.objective=[score,train_s]", "hardware.max_concurrent_trials=1"],
            "the objective train_s, which goes by the clock",
        ),
        (["hardware.max_concurrent_trials=1"], "hardware.max_concurrent_trials=1, by which the speeds.*Leave one"),
        (["scheduler=pbt", "scheduler.population=4"], "reuse=true with scheduler=pbt.*Leave reuse out"),
    ],
)
def test_where_time_is_measured_or_decides_nothing_is_taken(plan_of: PlanOf, words: list[str], fix: str) -> None:
    machine = Cluster((Node(16, 0),))
    plan_of(*words, cluster=machine)
    with pytest.raises(ConfigurationError, match=fix):
        plan_of(*words, "reuse=true", cluster=machine)


@pytest.mark.parametrize("words", [(), ("search=racing",), ("scheduler=asha",), ("objective=env_steps_to_target",)])
def test_it_is_no_part_of_a_configuration(plan_of: PlanOf, words: tuple[str, ...]) -> None:
    plain, reusing = plan_of(*words), plan_of(*words, "reuse=true")
    assert (plain.suite.reuse, reusing.suite.reuse) == (False, True)
    assert [c.config_id for c in reusing.configurations] == [c.config_id for c in plain.configurations]
