"""When a trial gave its last sign of life, by one clock."""

import os
import signal
import time

import pytest
import ray

from experiments.study.tune.heartbeats import Heartbeats
from experiments.study.tune.watchdog import SignsOfLife, receiver

TRIAL = ("trial", 1)


def test_an_attempt_is_silent_since_its_last_sign_by_the_receivers_clock() -> None:
    signs = SignsOfLife()
    assert signs.silent_s(TRIAL, {TRIAL: 0.5}, now=100.0) == 0.5
    assert signs.silent_s(TRIAL, {TRIAL: 10.5}, now=110.0) == 10.5
    assert signs.silent_s(TRIAL, {TRIAL: 0.0}, now=120.0) == 0.0


def test_an_attempt_that_gave_no_sign_yet_is_silent_since_it_was_first_looked_at() -> None:
    signs = SignsOfLife()
    assert signs.silent_s(TRIAL, {}, now=100.0) == 0.0
    assert signs.silent_s(TRIAL, {}, now=130.0) == 30.0
    assert signs.silent_s(("trial", 2), {TRIAL: 60.0}, now=140.0) == 0.0  # an earlier attempt's signs are not its own


def test_a_receiver_that_was_restarted_makes_nobody_silent_who_is_not() -> None:
    signs = SignsOfLife()
    signs.silent_s(TRIAL, {TRIAL: 0.0}, now=100.0)
    assert signs.silent_s(TRIAL, {}, now=103.0) == 3.0
    assert signs.silent_s(TRIAL, {TRIAL: 0.5}, now=104.0) == 0.5


def test_the_receiver_keeps_the_newest_sign_of_each_attempt_that_is_under_way() -> None:
    received, both = Heartbeats(), [("trial", 1), ("trial", 2)]
    received.add("trial", 1)
    time.sleep(0.01)
    first = received.ages(both)["trial", 1]
    received.add("trial", 1)
    received.add("trial", 2)
    ages = received.ages(both)
    assert 0 <= ages["trial", 1] < first
    assert set(ages) == set(both)
    assert set(received.ages(both[:1])) == set(received.ages(both)) == {("trial", 1)}  # the other has ended


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_instance")
def test_the_receiver_that_is_killed_beside_a_trial_comes_back_and_takes_signs_again() -> None:
    actor = receiver()
    pid = ray.get(actor.__ray_call__.remote(lambda self: os.getpid()))
    os.kill(pid, signal.SIGKILL)
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:  # as trials and the watchdog go on, whom its errors do not concern
        actor.add.remote(*TRIAL)
        actor.add_memory.remote(*TRIAL, "host", 2**30)
        try:
            if ray.get(actor.memory.remote([TRIAL])) == {TRIAL: ("host", 2**30)}:
                break
        except ray.exceptions.RayError:
            time.sleep(0.1)
    assert set(ray.get(actor.ages.remote([TRIAL]))) == {TRIAL}
    assert ray.get(actor.__ray_call__.remote(lambda self: os.getpid())) != pid
    ray.kill(actor)
