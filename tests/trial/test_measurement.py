import math
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from experiments.config.measurement_settings import MeasurementSettings
from experiments.trial.measurement import Block, Measurement

SETTINGS = MeasurementSettings(
    warmup_s=0, seconds=2, max_seconds=10, precision=0.05, block_s=0.5, max_other_cpu_percent=20
)


def blocks(*speeds: float, other: float = 0.0, seconds: float = 0.5) -> list[Block]:
    return [Block(round(speed * seconds), speed * seconds, seconds, other) for speed in speeds]


def test_a_steady_throughput_is_measured_as_soon_as_its_seconds_are_over() -> None:
    measurement = Measurement(SETTINGS, blocks(1000, 1010, 990))
    assert not measurement.is_enough()
    measurement.blocks += blocks(1000)
    assert measurement.is_enough()
    assert measurement.metrics()["final/env_steps_per_s"] == pytest.approx(1000)
    assert measurement.metrics()["final/disturbed_share"] == 0


def test_an_unsteady_one_goes_on_to_the_most_seconds() -> None:
    measurement = Measurement(SETTINGS, blocks(500, 1500) * 5)
    assert not measurement.is_enough()
    measurement.blocks += blocks(500, 1500) * 5
    assert measurement.is_enough()


def test_blocks_that_others_disturbed_are_measured_again() -> None:
    measurement = Measurement(SETTINGS, blocks(1000, 1000) + blocks(400, 400, other=80))
    assert not measurement.is_enough()
    measurement.blocks += blocks(1000, 1000)
    assert measurement.is_enough()
    assert measurement.metrics()["final/env_steps_per_s"] == pytest.approx(1000)
    assert measurement.metrics()["final/disturbed_share"] == 0


def test_where_there_is_no_peace_all_blocks_count_and_it_is_said() -> None:
    measurement = Measurement(SETTINGS, blocks(*[500] * 19, other=80) + blocks(1000))
    assert measurement.is_enough()
    assert measurement.disturbed
    assert measurement.metrics()["final/disturbed_share"] == pytest.approx(0.95)
    assert measurement.metrics()["final/env_steps_per_s"] == pytest.approx(525)


def test_of_two_long_batches_a_disturbed_one_counts_and_it_is_said() -> None:
    measurement = Measurement(SETTINGS, blocks(100, seconds=5) + blocks(90, other=80, seconds=5))
    assert measurement.is_enough()
    assert measurement.metrics() == {
        "final/env_steps_per_s": pytest.approx(95),
        "final/trained_steps_per_s": pytest.approx(95),
        "final/disturbed_share": 0.5,
    }


def test_a_block_with_a_pause_is_measured_again_and_is_no_fault_of_others() -> None:
    fast = [replace(block, is_paused=True) for block in blocks(9000, seconds=0.1)]  # what runners did meanwhile
    measurement = Measurement(SETTINGS, blocks(1000, 1000, 1000) + fast)
    assert not measurement.is_enough()
    measurement.blocks += blocks(1000)
    assert measurement.is_enough()
    assert measurement.metrics()["final/env_steps_per_s"] == pytest.approx(1000)
    of_pauses = Measurement(SETTINGS, [replace(block, is_paused=True) for block in blocks(100, 100, seconds=5)])
    assert of_pauses.is_enough()  # there is an end to it
    assert of_pauses.metrics()["final/disturbed_share"] == 0


def test_unknown_load_disturbs_nothing() -> None:
    assert Measurement(SETTINGS, blocks(1000, 1000, 1000, 1000, other=math.nan)).is_enough()


def test_batches_that_take_longer_than_all_the_time_are_two() -> None:
    measurement = Measurement(SETTINGS, blocks(100, seconds=12))
    assert not measurement.is_enough()
    measurement.blocks += blocks(100, seconds=12)
    assert measurement.is_enough()
    assert measurement.metrics()["final/env_steps_per_s"] == pytest.approx(100)


def test_its_interval_covers_in_95_of_100() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(1000):
        seconds = rng.uniform(0.3, 0.7, 8)
        steps = 1000 * seconds * rng.normal(1, 0.05, 8)
        measurement = Measurement(SETTINGS, [Block(round(n), n, s) for n, s in zip(steps, seconds, strict=True)])
        speed = sum(b.env_steps for b in measurement.blocks) / sum(b.seconds for b in measurement.blocks)
        covered += abs(speed - 1000) <= measurement.precision() * speed
    assert 930 <= covered <= 970


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"seconds": 0.5},
            (
                r"measurement.seconds=0.5 is less than 4 blocks.*too short to mean anything. "
                r"Try measurement.seconds=2 or more"
            ),
        ),
        (
            {"max_seconds": 1.0},
            r"measurement.max_seconds=1 is less than measurement.seconds=2. Try measurement.max_seconds=4",
        ),
        ({"block_s": 0.01, "seconds": 3.0}, r"measurement.block_s=0.01: shorter blocks than 0.1 s"),
    ],
)
def test_a_measurement_that_means_nothing_is_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        replace(SETTINGS, **change)
