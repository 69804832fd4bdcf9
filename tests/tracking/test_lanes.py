import math

from hypothesis import given
from hypothesis import strategies as st

from experiments.tracking import writes
from experiments.tracking.lanes import Lanes, Operation

NOW = 1e9
RUNS = ("a", "b", "c")


def opened(key: str) -> Operation:
    return Operation(
        key, writes.OpenRun("experiment", key, 0, {"study_run": "study"} if key != "study" else {}, (), True)
    )


WRITES = st.sampled_from([writes.SetTags({"x": "1"}), writes.LogReport({"x": 1.0}, 1, 0), writes.LogTexts({"a": "b"})])


@given(puts=st.lists(st.tuples(st.sampled_from(RUNS), WRITES), max_size=12), fails=st.sets(st.integers(0, 20)))
def test_whatever_fails_runs_open_after_their_study_and_end_after_their_files_and_each_lane_keeps_its_order(
    puts: list[tuple[str, writes.Write]], fails: set[int]
) -> None:
    known: set[str] = set()
    lanes = Lanes(lambda key: key in known, lambda: 0.0)
    operations = [opened(run) for run in RUNS]
    operations += [Operation(run, write) for run, write in puts]
    operations += [Operation(run, writes.Finish("FINISHED", 0)) for run in RUNS]
    for operation in (*operations, opened("study")):
        lanes.put(operation)
    done: list[Operation] = []
    calls = 0
    while (lane := lanes.due(NOW)) is not None:
        batch, calls = lane.next(), calls + 1
        if calls in fails:
            lane.failing = True
            lanes.queue(lane)
            continue
        lane.failing = False
        done += batch
        for operation in batch:
            if isinstance(operation.write, writes.OpenRun):
                known.add(operation.key)
        lanes.remove(lane, batch)
        if lane.pending:
            lanes.queue(lane)
    assert lanes.num_pending == 0 and not lanes.of and lanes.next_at() == math.inf
    assert done[0].key == "study" and len(done) == len(operations) + 1
    for run in RUNS:
        of_run = [operation for operation in done if operation.key == run]
        assert isinstance(of_run[0].write, writes.OpenRun) and isinstance(of_run[-1].write, writes.Finish)
        for is_file in (False, True):
            assert [o for o in of_run if o.lane[1] == is_file] == [
                o for o in operations if o.key == run and o.lane[1] == is_file
            ]


def test_with_thousands_of_runs_behind_a_turn_looks_at_one_of_them() -> None:
    asked: list[str] = []

    def is_known(key: str) -> bool:
        asked.append(key)
        return True

    lanes = Lanes(is_known, lambda: 0.0)
    for number in range(5000):
        lanes.put(Operation(f"{number:05}", writes.SetTags({"x": "1"})))
    for number in range(100):
        lane = lanes.due(NOW)
        assert lane is not None and lane.pending[0].key == f"{number:05}"
        lanes.remove(lane, lane.next())
    assert len(asked) == 100


def test_reports_wait_to_go_out_together_until_the_end_is_put_behind_them_or_all_are_hurried() -> None:
    gather = [5.0]
    lanes = Lanes(lambda key: True, lambda: gather[0])
    reports = [Operation(key, writes.LogReport({"x": 1.0}, 1, 0), put_at=100.0) for key in "ab"]
    for report in reports:
        lanes.put(report)
    assert lanes.due(104.0) is None and lanes.next_at() == 105.0
    lanes.put(Operation("b", writes.Finish("FINISHED", 0), put_at=103.0))
    lane = lanes.due(104.0)
    assert lane is not None and lane.pending[0] is reports[1]
    assert lanes.due(104.0) is None
    gather[0] = 0.0
    lanes.hurry()
    lane = lanes.due(104.0)
    assert lane is not None and lane.pending[0] is reports[0]


def test_lanes_that_work_go_before_those_that_fail() -> None:
    lanes = Lanes(lambda key: True, lambda: 0.0)
    lanes.put(Operation("bad", writes.SetTags({"x": "1"}), put_at=1.0))
    lane = lanes.due(NOW)
    assert lane is not None
    lane.failing, lane.retry_at = True, 2.0
    lanes.queue(lane)
    lanes.put(Operation("good", writes.SetTags({"x": "1"}), put_at=3.0))
    found = [turn.pending[0].key for turn in (lanes.due(NOW), lanes.due(NOW)) if turn is not None]
    assert found == ["good", "bad"]
