"""Whether a trial had its machines to itself is told by when which trials were there."""

from experiments.tracking.occupancy import Occupancy


def test_trials_on_one_machine_one_after_the_other_were_alone() -> None:
    machines = Occupancy()
    assert machines.place("a", ["x"], at_ms=0) == set()
    assert machines.was_alone("a")
    machines.leave("a", at_ms=10)
    assert machines.place("b", ["x"], at_ms=10) == set()
    assert machines.was_alone("b")


def test_trials_side_by_side_on_different_machines_were_alone() -> None:
    machines = Occupancy()
    assert machines.place("a", ["x"], at_ms=0) == set()
    assert machines.place("b", ["y", "z"], at_ms=5) == set()
    assert machines.was_alone("a") and machines.was_alone("b")


def test_a_machine_in_common_is_shared_and_each_trial_is_named_once() -> None:
    machines = Occupancy()
    machines.place("a", ["x"], at_ms=0)
    assert machines.place("b", ["y", "x"], at_ms=5) == {"a", "b"}
    assert machines.place("c", ["x"], at_ms=6) == {"c"}
    assert not machines.was_alone("a")


def test_a_trial_that_left_before_the_other_was_heard_of_has_shared_all_the_same() -> None:
    machines = Occupancy()
    machines.place("a", ["x"], at_ms=0)
    machines.leave("a", at_ms=10)
    assert machines.place("b", ["x"], at_ms=9) == {"a", "b"}


def test_a_trial_that_moves_is_no_longer_where_it_was() -> None:
    machines = Occupancy()
    machines.place("a", ["x"], at_ms=0)
    assert machines.place("a", ["y"], at_ms=5) == set()
    assert machines.place("b", ["x"], at_ms=6) == set()
    assert machines.was_alone("a") and machines.was_alone("b")


def test_a_trial_of_an_earlier_execution_is_not_beside_those_of_this_one() -> None:
    machines = Occupancy()
    machines.place("a", ["x"], at_ms=0)
    machines.clear(at_ms=100)
    assert machines.place("b", ["x"], at_ms=120) == set()
    assert machines.place("a", ["y"], at_ms=130) == set()
    assert machines.was_alone("a")
