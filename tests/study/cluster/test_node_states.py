"""Which nodes of a cluster a study uses, from what is seen of them."""

from experiments.planning.machines import Node
from experiments.study.cluster.node_states import CUT_OFF_S, Changes, ClusterNode, NodeStates


def machine(name: str, num_cpus: float = 1) -> ClusterNode:
    return ClusterNode(name, f"{name} (192.0.2.1)", "192.0.2.1", 1, Node(num_cpus, 0))


ONE, TWO, THREE = map(machine, ("one", "two", "three"))


def test_nodes_that_join_are_used_once_they_are_admitted_and_nodes_that_leave_are_not() -> None:
    states = NodeStates([ONE, TWO])
    assert states.update([ONE, TWO], set(), now=0.0) == Changes()
    assert states.update([ONE, THREE], set(), now=1.0) == Changes(joined=(THREE,), left=(TWO,))
    assert set(states.usable) == {"one"} and states.unused == {"three"}
    assert not states.update([ONE, THREE], set(), now=2.0).any and states.unused == {"three"}
    assert states.admit("three") == THREE and states.admit("two") is None
    assert set(states.usable) == {"one", "three"} and not states.unused
    assert states.is_lost("two")
    assert not states.answers(["one", "two"])


def test_a_node_that_answers_nothing_for_a_while_is_cut_off_until_it_answers_again() -> None:
    states = NodeStates([ONE, TWO])
    assert not states.update([ONE, TWO], {"two"}, now=100.0).any
    assert not states.answers(["two"])  # that a trial there says nothing is no fault of the trial
    assert not states.is_lost("two")
    assert not states.update([ONE, TWO], {"two"}, now=100.0 + CUT_OFF_S - 1).any
    assert states.update([ONE, TWO], {"two"}, now=100.0 + CUT_OFF_S) == Changes(cut_off=(TWO,))
    assert states.is_lost("two") and states.unused == {"two"} and set(states.usable) == {"one"}
    assert not states.update([ONE, TWO], {"two"}, now=200.0).any
    assert states.update([ONE, TWO], set(), now=201.0) == Changes(back=(TWO,))
    assert set(states.usable) == {"one", "two"} and not states.unused


def test_silences_with_an_answer_between_them_do_not_add_up() -> None:
    states = NodeStates([TWO])
    for start in (0.0, CUT_OFF_S, 2 * CUT_OFF_S):
        states.update([TWO], {"two"}, now=start)
        states.update([TWO], {"two"}, now=start + CUT_OFF_S - 2)
        states.update([TWO], set(), now=start + CUT_OFF_S - 1)
    assert not states.unused


def test_a_node_that_was_cut_off_and_is_then_gone_is_told_of_once() -> None:
    states = NodeStates([ONE, TWO])
    states.update([ONE, TWO], {"two"}, now=0.0)
    states.update([ONE, TWO], {"two"}, now=CUT_OFF_S)
    assert states.update([ONE], {"two"}, now=CUT_OFF_S + 1) == Changes()
    assert states.is_lost("two") and not states.unused
    assert states.name("two") == TWO.name


def test_a_node_that_cannot_run_trials_is_refused_once_and_stays_so() -> None:
    states = NodeStates([ONE, TWO])
    assert states.refuse("two")
    assert not states.refuse("two")
    states.update([ONE, TWO], set(), now=1.0)
    assert states.unused == {"two"} and set(states.usable) == {"one"}
    assert not states.is_lost("two")  # what runs there is not ended
