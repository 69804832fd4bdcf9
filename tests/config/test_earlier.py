"""Which searches may start from what earlier studies found."""

import pytest

from experiments.config.earlier import earlier_of
from experiments.config.errors import ConfigurationError
from experiments.planning.machines import Cluster, Node
from tests.support.suite import PlanOf

MACHINE = Cluster((Node(16, 0),))


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["search=racing", "search.from=[auto,lr_batch]"], r"search.from=\[auto,lr_batch\]: .*Give it alone"),
        (["search=racing", "search.from=auto", "search.proposals=random"], "Try search.proposals=optuna, or grid"),
        (["search=optuna", "search.from=auto", "search.sampler=random"], "heed no result. Try search.sampler=tpe"),
        (
            ["search=racing", "search.proposals=optuna", "search.from=auto", "search.sampler=random"],
            "heed no result. Try search.sampler=tpe",
        ),
        (["search=optuna", "search.from=auto", "scheduler=asha"], "with scheduler=asha: .*Try scheduler=fifo"),
        (
            ["search=optuna", "search.from=auto", "study.space={env:[cartpole,acrobot]}"],
            "study.space: env with .*Try a study for each: env=...",
        ),
        (
            ["search=optuna", "search.from=auto", "search.objective=[score,auc]"],
            "two aims put settings in no one order. Try one aim",
        ),
        (
            [
                "search=racing",
                "search.from=auto",
                "objective=minutes_to_target",
                "hardware.max_concurrent_trials=1",
            ],
            "the objective minutes_to_target, which goes by the clock.*try objective=env_steps_to_target",
        ),
        (["search=racing", "search.from=[]"], "search.from=.*at least 1 item"),
        (["search=racing", "search.from=[1]"], "search.from.0=1"),
    ],
)
def test_where_an_order_says_nothing_or_nothing_heeds_it_is_refused(
    plan_of: PlanOf, words: list[str], fix: str
) -> None:
    with pytest.raises(ConfigurationError, match=fix):
        plan_of(*words, cluster=MACHINE)


@pytest.mark.parametrize("search", ["racing", "optuna"])
def test_it_is_no_part_of_a_configuration_and_one_name_need_not_be_a_list(plan_of: PlanOf, search: str) -> None:
    plain, warm = plan_of(f"search={search}"), plan_of(f"search={search}", "search.from=lr_batch")
    assert (earlier_of(plain.suite), earlier_of(warm.suite)) == ((), ("lr_batch",))
    assert [c.config_id for c in warm.configurations] == [c.config_id for c in plain.configurations]
    assert earlier_of(plan_of().suite) == ()
