"""A trial's processes go to the nodes that the hardware profile names, and those that wait for each other to one."""

import pytest

from experiments.config.errors import ConfigurationError
from experiments.planning.machines import Cluster, Node
from experiments.planning.node_selection import check_accelerator_type
from experiments.planning.resources import DoesNotFitError, needs, trials_at_once
from tests.support.suite import PlanOf

SINGLE = "study=single"
TWO_RUNNERS = "hardware.num_env_runners=2"
MIXED = Cluster((Node(8, 0), Node(8, 2, ("T4",)), Node(8, 2, ("A100",))))


def test_a_synchronous_trial_goes_to_one_node_and_an_asynchronous_one_may_spread(plan_of: PlanOf) -> None:
    nodes = Cluster((Node(4, 0), Node(4, 0)))
    synchronous = plan_of(SINGLE, TWO_RUNNERS, cluster=nodes).configurations[0].request
    assert synchronous.strategy == "STRICT_PACK"
    assert trials_at_once(synchronous, nodes, limit=9) == 2  # three CPUs each: the last of each node stays idle
    assert plan_of(SINGLE, "algorithm=impala", cluster=nodes).configurations[0].request.strategy == "PACK"


def test_a_synchronous_trial_that_fits_no_node_spreads_as_before(plan_of: PlanOf) -> None:
    request = plan_of(SINGLE, TWO_RUNNERS, cluster=Cluster((Node(2, 0), Node(2, 0)))).configurations[0].request
    assert request.strategy == "PACK"


def test_one_node_that_was_asked_for_is_kept_and_the_refusal_names_the_way_out(plan_of: PlanOf) -> None:
    small = Cluster((Node(2, 0), Node(2, 0)))
    with pytest.raises(ConfigurationError, match=r"hardware\.placement=PACK"):
        plan_of(SINGLE, TWO_RUNNERS, "hardware.placement=STRICT_PACK", cluster=small)
    assert (
        plan_of(SINGLE, TWO_RUNNERS, "hardware.placement=SPREAD", cluster=small).configurations[0].request.strategy
        == "SPREAD"
    )
    with pytest.raises(ConfigurationError, match=r"hardware\.placement"):
        plan_of(SINGLE, "hardware.placement=ANYWHERE", cluster=small)


def test_trials_run_beside_the_accelerator_that_was_asked_for(plan_of: PlanOf) -> None:
    plan = plan_of(
        SINGLE, "seeds=[0,1,2,3,4]", "hardware.num_gpus_per_learner=1", "hardware.accelerator_type=A100", cluster=MIXED
    )
    request = plan.configurations[0].request
    assert request.bundles[0]["accelerator_type:A100"] == pytest.approx(0.001)
    assert plan.concurrency == 2  # the two of that node; any GPU would have allowed four
    assert plan_of(SINGLE, "seeds=[0,1,2,3,4]", "hardware.num_gpus_per_learner=1", cluster=MIXED).concurrency == 4


def test_an_accelerator_without_a_gpu_in_the_trial_is_refused(plan_of: PlanOf) -> None:
    with pytest.raises(ConfigurationError, match=r"num_gpus_per_learner=1"):
        plan_of(SINGLE, "hardware.accelerator_type=A100", cluster=MIXED)


def test_a_mistyped_accelerator_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match=r"a10: Ray knows no such accelerator; near: .*A10G.*has A100, T4"):
        check_accelerator_type("a10", MIXED.accelerator_types)
    with pytest.raises(ConfigurationError, match=r"near: .*H100.*this cluster has none"):
        check_accelerator_type("h100", ())
    for kind in ("H100", "T4"):
        check_accelerator_type(kind, MIXED.accelerator_types)


def test_one_that_is_not_there_is_refused_with_those_that_are(plan_of: PlanOf) -> None:
    with pytest.raises(
        DoesNotFitError, match=r"H100: no node has one; this cluster has A100, T4\. Choose one of those"
    ) as refused:
        plan_of(SINGLE, "hardware.num_gpus_per_learner=1", "hardware.accelerator_type=H100", cluster=MIXED)
    assert needs(refused.value.request) == "1 CPU and 1 GPU (H100)"


def test_what_nodes_a_trial_goes_to_changes_no_configuration(plan_of: PlanOf) -> None:
    ids = {
        plan_of(SINGLE, f"hardware.placement={placement}").configurations[0].config_id
        for placement in ("null", "PACK", "SPREAD")
    }
    assert len(ids) == 1
