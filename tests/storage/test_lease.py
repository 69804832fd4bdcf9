"""Leases of processes that live, die and come back, in a store in memory."""

import threading

import pytest
from obstore.store import MemoryStore

from experiments.storage.lease import Lease
from experiments.storage.objects import Objects


@pytest.fixture
def objects() -> Objects:
    return Objects("s3://bucket", store=MemoryStore())


def lease(objects: Objects, renew_s: float, silent_s: float) -> tuple[Lease, threading.Event]:
    lost = threading.Event()
    return Lease(objects, "lock", lost.set, renew_s, silent_s), lost


def test_a_second_process_is_told_who_has_a_lease_that_is_renewed(objects: Objects) -> None:
    first, lost = lease(objects, renew_s=0.01, silent_s=600)
    second, _ = lease(objects, renew_s=0.01, silent_s=600)  # waits until it sees a renewal, or for ever
    assert first.take("process 1 on a") == ""
    assert second.take("process 2 on b") == second.owner() == "process 1 on a"
    first.release()
    assert second.take("process 2 on b") == ""
    assert not lost.is_set()
    second.release()
    assert objects.names() == []


def test_a_lease_that_nobody_renews_is_taken_over_and_its_owner_told_when_it_comes_back(objects: Objects) -> None:
    silent, lost = lease(objects, renew_s=0.3, silent_s=0)
    impatient, _ = lease(objects, renew_s=600, silent_s=0)
    assert silent.take("process 1 on a") == ""
    assert impatient.owner() == ""
    assert impatient.take("process 2 on b") == ""
    assert lost.wait(60)
    silent.release()
    assert objects.read("lock").startswith(b"process 2 on b\n")
    impatient.release()


def test_a_lease_outlives_a_store_that_does_not_answer_for_a_while(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, failed = threading.Semaphore(0), iter([OSError("no answer")])
    replace = Objects.replace

    def renewed(*args: object) -> str:
        for error in failed:
            raise error
        answered.release()
        return replace(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(Objects, "replace", renewed)
    first, lost = lease(objects, renew_s=0.01, silent_s=600)
    assert first.take("process 1 on a") == ""
    assert answered.acquire(timeout=60)
    first.release()
    assert not lost.is_set()
    assert objects.names() == []
