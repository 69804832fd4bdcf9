"""The study, and what it is refused for."""

import pytest

from experiments.config.errors import ConfigurationError
from tests.support.suite import PlanOf

STUDY = "study=compute_optimal"
ON = "extension.compute_optimal.measure=true"


@pytest.mark.parametrize(
    ("words", "batches"),
    [(("algorithm=dqn", "env=acrobot"), {64, 256}), (("algorithm=sac", "env=pendulum"), {32, 128})],
)
def test_it_crosses_updates_widths_and_batches_until_the_target(
    plan_of: PlanOf, words: tuple[str, ...], batches: set[int]
) -> None:
    plan = plan_of(STUDY, *words)
    assert (len(plan.configurations), plan.num_trials) == (24, 72)
    trials = [configuration.trial(0) for configuration in plan.configurations]
    found = {
        (
            trial.algorithm["training"]["training_intensity"] / trial.total_train_batch_size,
            tuple(trial.algorithm["rl_module"]["fcnet_hiddens"]),
            trial.total_train_batch_size,
        )
        for trial in trials
    }
    assert {update for update, _, _ in found} == {0.25, 0.5, 1.0, 2.0}
    assert {width for _, width, _ in found} == {(32, 32), (64, 64), (128, 128)}
    assert {batch for _, _, batch in found} == batches
    assert all(trial.stop_at_target and trial.extension["compute_optimal"].measure for trial in trials)


def test_counting_tells_no_configuration_apart(plan_of: PlanOf) -> None:
    words = ("study.space={}", "algorithm=dqn", "env=acrobot", "seeds=[0]")
    off, on = (plan_of(*words, *more).trials[0] for more in ((), (ON,)))
    assert on.config_id == off.config_id


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("algorithm=ppo", "study.space={}", ON), "counts the operations of DQN"),
        (("algorithm=tqc", "env=pendulum", "study.space={}", ON), "counts the operations of DQN"),
        (
            (
                "algorithm=sac",
                "env=pendulum",
                "study.space={}",
                ON,
                "algorithm.config_class=ray.rllib.algorithms.sac.SACConfig",
                "~algorithm.training.td_error_loss_fn",
            ),
            "the suite's critics",
        ),
    ],
)
def test_what_cannot_be_counted_is_refused_before_anything_starts(
    plan_of: PlanOf, words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_of(*words)
