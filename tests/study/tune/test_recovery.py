"""Whether a trial that lost its process goes on."""

from experiments.config.schema import FaultSettings
from experiments.study.tune.recovery import MEMORY, NODE, PROCESS, Loss, why_not_on

FAULTS = FaultSettings(max_restarts=2, max_node_losses=3)
DIED, GONE = Loss(PROCESS, "a process of the trial died"), Loss(NODE, "second was lost")


def test_lost_nodes_and_dead_processes_have_limits_of_their_own() -> None:
    assert why_not_on([DIED, GONE, DIED, GONE, GONE], FAULTS) == ""
    assert why_not_on([GONE, GONE, GONE, DIED, DIED, DIED], FAULTS) == "a process of the trial died"
    assert (
        why_not_on([DIED, GONE, GONE, GONE, GONE], FAULTS)
        == "lost its node 4 times (faults.max_node_losses=3): second was lost"
    )


def test_no_restart_is_given_where_none_is_allowed() -> None:
    none = FaultSettings(max_restarts=0, max_node_losses=0)
    assert why_not_on([DIED], none) == "a process of the trial died"
    assert why_not_on([GONE], none).startswith("lost its node 1 time (")


def test_a_trial_that_ran_out_of_memory_is_tried_once_more_whatever_it_lost_before() -> None:
    full = Loss(MEMORY, "out of memory: it had 10.9 GiB, 10.5 GiB beside it")
    alone = Loss(MEMORY, "out of memory: it had 21.3 GiB, no other trial beside it")
    none = FaultSettings(max_restarts=0, max_node_losses=0)
    assert why_not_on([full], none) == ""
    assert why_not_on([DIED, DIED, GONE, full], FAULTS) == ""
    both = "out of memory: it had 10.9 GiB, 10.5 GiB beside it; run again: it had 21.3 GiB, no other trial beside it"
    assert why_not_on([full, alone], FAULTS) == why_not_on([full, GONE, alone], FAULTS) == both
    assert why_not_on([full, DIED], none) == "a process of the trial died"  # which it did by itself, this time
