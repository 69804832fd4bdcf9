"""What is said of a trial that ran out of memory."""

from dataclasses import replace

from experiments.study.tune.heartbeats import Heartbeats
from experiments.study.tune.memory import MemoryOfAttempts, what_to_write
from tests.support.suite import PlanOf

GIB = 2**30
A, B, C = ("a", 1), ("b", 1), ("c", 1)


def test_the_sizes_are_of_the_attempt_and_of_those_on_its_host() -> None:
    memory = MemoryOfAttempts()
    memory.update({A: ("first", 11 * GIB), B: ("first", 10 * GIB), C: ("second", 3 * GIB)})
    assert memory.lost(A, [B, C], now=0.0) == "it had 11.0 GiB, 10.0 GiB beside it"
    assert memory.lost(C, [B], now=0.0) == "it had 3.0 GiB, no other trial beside it"


def test_those_that_are_killed_together_were_beside_each_other_and_not_those_that_came_later() -> None:
    memory = MemoryOfAttempts()
    memory.update({A: ("first", 11 * GIB), B: ("first", 10 * GIB), C: ("first", 2 * GIB)})
    memory.lost(A, [B], now=100.0)
    assert memory.lost(B, [], now=101.0) == "it had 10.0 GiB, 11.0 GiB beside it"
    memory.update({(A[0], 2): ("first", 12 * GIB)})
    # what it had before is not beside it
    assert memory.lost((A[0], 2), [], now=101.0) == "it had 12.0 GiB, 10.0 GiB beside it"
    assert memory.lost(C, [], now=200.0) == "it had 2.0 GiB, no other trial beside it"


def test_what_nobody_knows_is_not_said() -> None:
    assert MemoryOfAttempts().lost(A, [B], now=0.0) == "how much it had is not known"


def test_the_receiver_that_was_killed_as_well_and_came_back_does_not_take_what_is_known_along() -> None:
    memory = MemoryOfAttempts()
    received = Heartbeats()
    received.add_memory(*A, "first", 11 * GIB)
    received.add_memory(*B, "first", GIB)
    assert received.memory([A]) == {A: ("first", 11 * GIB)}  # the other has ended
    memory.update(received.memory([A]))
    memory.update(Heartbeats().memory([A]))
    assert memory.lost(A, [], now=0.0).startswith("it had 11.0 GiB")


def test_a_trial_that_replays_is_told_of_its_buffer_and_another_one_of_its_environments(plan_of: PlanOf) -> None:
    dqn, ppo = (plan_of("study=smoke", f"algorithm={name}").trials[0] for name in ("dqn", "ppo"))
    # of 4,096: conf/study/smoke.yaml
    assert what_to_write(dqn).endswith("algorithm.training.replay_buffer_config.capacity=2048")
    unsaid = {name: value for name, value in dqn.algorithm["training"].items() if name != "replay_buffer_config"}
    by_default = replace(dqn, algorithm={**dqn.algorithm, "training": unsaid})
    # of RLlib's 50,000
    assert what_to_write(by_default).endswith("algorithm.training.replay_buffer_config.capacity=25000")
    assert what_to_write(ppo).endswith("hardware.num_envs_per_env_runner=8")
