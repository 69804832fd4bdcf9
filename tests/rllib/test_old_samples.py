"""Training batches of IMPALA and APPO that wait before they are learned from."""

from collections import deque
from typing import Any

import pytest

from experiments.config.errors import ConfigurationError
from experiments.rllib.algorithms import updates_of_batch
from experiments.rllib.old_samples import WaitingAPPO, WaitingIMPALA
from experiments.rllib.vtrace import APPOConfig, IMPALAConfig
from tests.support.suite import PlanOf

RLLIBS = {"name": "impala", "config_class": "ray.rllib.algorithms.impala.IMPALAConfig", "training": {}}
OURS = RLLIBS | {"config_class": "experiments.rllib.vtrace.IMPALAConfig"}
APPO = RLLIBS | {"config_class": "experiments.rllib.vtrace.APPOConfig"}


def handed_on(algorithm_class: Any, config: Any, samples: str) -> str:
    """What an algorithm hands to its learner, of samples that each are a training batch; a blank for none."""
    algorithm = algorithm_class.__new__(algorithm_class)
    algorithm.config = config.env_runners(rollout_fragment_length=50, num_envs_per_env_runner=2)
    algorithm._episode_packs_being_built, algorithm._late = [], deque()
    found = [algorithm._pre_queue_episode_refs([sample], package_size=100) for sample in samples]
    return "".join(batches[0][0] if batches else " " for batches in found)


@pytest.mark.parametrize(
    ("algorithm_class", "config_class"), [(WaitingIMPALA, IMPALAConfig), (WaitingAPPO, APPOConfig)]
)
@pytest.mark.parametrize(("staleness", "handed"), [(0, "abcde"), (1, " abcd"), (3, "   ab")])
def test_batches_wait_for_as_many_others_and_none_is_lost_or_overtaken(
    algorithm_class: Any, config_class: Any, staleness: int, handed: str
) -> None:
    assert config_class().algo_class is algorithm_class
    assert handed_on(algorithm_class, config_class().training(staleness=staleness), "abcde") == handed


def test_updates_from_a_batch_are_as_many_as_its_uses() -> None:
    assert updates_of_batch(RLLIBS) is None
    assert updates_of_batch(OURS) == 1
    assert updates_of_batch(APPO) == APPOConfig().circular_buffer_iterations_per_batch > 1
    assert updates_of_batch(APPO | {"training": {"circular_buffer_iterations_per_batch": 8}}) == 8
    assert updates_of_batch(APPO | {"training": {"use_circular_buffer": False}}) == 1


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("+algorithm.training.staleness=-1",), "staleness=-1: must be 0 or more"),
        (("+algorithm.training.staleness=0.5",), r"staleness=0.5: must be a whole number"),
        (
            ("+algorithm.training.staleness=1", f"algorithm.config_class={RLLIBS['config_class']}"),
            "algorithm=impala has no such setting",
        ),
    ],
)
def test_a_wait_that_makes_no_sense_is_refused(plan_of: PlanOf, overrides: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_of("algorithm=impala", "study.space={}", *overrides)
