"""What a plan says of batches that lie on one side of a noise scale that is known, and what it refuses to measure."""

import pytest

from experiments.config.errors import ConfigurationError
from experiments.rllib.algorithms import rows_of_step
from science.noise_scale.plan import batch_lines
from tests.support.commands import run_here
from tests.support.suite import PlanOf

BATCHES = "study.space={algorithm.training.train_batch_size_per_learner:[32,64,128]}"
MINIBATCHES = "study.space={algorithm.training.minibatch_size:[64,256]}"


def of(square: float, noise: float, network: str = "") -> dict[str, float]:
    return {f"final/gradient_square{network}": square, f"final/gradient_noise{network}": noise}


def known(scale: float, trials: int = 6, network: str = "") -> list[dict[str, float]]:
    """Estimates of |G|^2 and S of trials, by a tenth around a noise scale."""
    return [of(1.0, scale * (1 + 0.1 * (i % 3 - 1)), network) for i in range(trials)]


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        (
            1000.0,
            (
                "all of the grid, 32 to 128 rows of a gradient step, is below the gradient noise scale "
                "of 6 earlier trials, 1,000 ["
            ),
        ),
        (10.0, "is above the gradient noise scale of 6 earlier trials, 10 ["),
        (64.0, ""),
    ],
)
def test_a_grid_on_one_side_of_a_known_noise_scale_is_said_to_be(plan_of: PlanOf, scale: float, words: str) -> None:
    lines = batch_lines(plan_of("algorithm=dqn", BATCHES), lambda *names: known(scale))
    assert (words in lines[0]) if words else not lines
    assert not words or lines[0].startswith("batches     dqn on cartpole: ")


def test_nothing_is_said_where_nothing_is_known_or_no_gradient_steps_batch_varies(plan_of: PlanOf) -> None:
    assert batch_lines(plan_of("algorithm=dqn", BATCHES), lambda *names: []) == []
    outer = "study.space={algorithm.training.train_batch_size_per_learner:[512,1024]}"
    assert batch_lines(plan_of(outer), lambda *names: known(1e6)) == [], "its minibatches are all the same"


def test_few_trials_count_by_their_estimate_and_a_hidden_gradient_has_no_end(plan_of: PlanOf) -> None:
    plan = plan_of(MINIBATCHES)
    assert (
        "2 earlier trials, 1,000: a larger batch may still pay"
        in batch_lines(plan, lambda *names: [of(1.0, 1000.0)] * 2)[0]
    )
    hidden = batch_lines(plan, lambda *names: [of(-1.0, 1000.0)] * 3 + [of(1.0, 1000.0)] * 3)
    assert "6 earlier trials, no end [1,000, no end]: a larger" in hidden[0]


def test_a_grid_has_to_be_on_the_same_side_of_each_network(plan_of: PlanOf) -> None:
    plan, values = plan_of(MINIBATCHES), known(5.0, network="_value")

    def lines(policy: float) -> list[str]:
        trials = zip(known(policy, network="_policy"), values, known(1.0), strict=True)
        earlier = [{**a, **b, **c} for a, b, c in trials]
        return batch_lines(plan, lambda *names: earlier)

    assert lines(5000.0) == []
    (line,) = lines(10.0)
    assert (
        "is above" in line and "of the policy and 5 [" in line and "of the value: a smaller one may do as well" in line
    )


def test_rows_of_a_gradient_step_are_a_minibatchs_or_the_whole_batchs(plan_of: PlanOf) -> None:
    single = "study.space={}"
    assert rows_of_step(plan_of(single).configurations[0].suite.algorithm) == 256
    assert rows_of_step(plan_of(single, "algorithm=impala").configurations[0].suite.algorithm) == 400
    assert rows_of_step(plan_of(single, "algorithm=sac", "env=pendulum").configurations[0].suite.algorithm) == 64


def test_measuring_takes_no_part_in_what_a_configuration_is(plan_of: PlanOf) -> None:
    off, on = (
        plan_of("study.space={}", f"noise_scale.measure={measure}").configurations[0] for measure in ("false", "true")
    )
    assert off.config_id == on.config_id and on.trial(0).extension["noise_scale"].measure


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (
            ("++algorithm.rl_module.use_lstm=true",),
            "noise_scale.measure=true: rows of a recurrent policy are not independent",
        ),
        (
            ("study=runner_scaling",),
            "noise_scale.measure=true takes some of the time in which a throughput is measured",
        ),
        (("noise_scale.every_updates=0",), "noise_scale.every_updates"),
    ],
)
def test_what_cannot_be_measured_is_refused(plan_of: PlanOf, overrides: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        plan_of("study.space={}", "noise_scale.measure=true", *overrides)


def test_an_axis_of_its_former_name_is_found_and_makes_no_other_configuration(plan_of: PlanOf) -> None:
    with pytest.raises(ConfigurationError, match="'every_updates=3' and 'every_updates=2' come out as the same"):
        plan_of("study.space={noise_scale.every_updates: [2, 3]}", "noise_scale.measure=true")


def test_its_study_and_its_settings_are_shown_as_they_come_out() -> None:
    said = run_here("experiments/run.py", "--cfg", "job", "study=noise_scale", "noise_scale.every_updates=7")
    assert said.returncode == 0, said.stderr
    assert "  noise_scale:\n    measure: true\n    every_updates: 7\n" in said.stdout
