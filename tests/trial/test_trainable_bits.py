"""The bits of a trial: the same again, on other processes, with RLlib's own parts and after a checkpoint;
other ones with another seed.
"""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import ray

from experiments.config.trial_config import Start
from experiments.contract import PRUNED
from experiments.planning.machines import Cluster, Node
from experiments.rllib.checkpoints import BESIDE, SAMPLES, learning_rates, weights, weights_digest
from experiments.trial.events import Ended, Reported, Restarted
from experiments.trial.folder import TrialFolder, damage_of
from experiments.trial.trainable import Trial
from experiments.trial.tune_keys import EVENTS
from tests.support.suite import TINY, PlanOf
from tests.support.trials import COUNT, REPLAY, STEP, WEIGHTS, Make, learned, run, step, tiny, with_folder

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_instance")]


@pytest.mark.slow
def test_the_same_trial_is_the_same_to_the_bit_on_a_reused_actor_and_a_fresh_one(
    plan_of: PlanOf, make: Make, tmp_path: Path
) -> None:
    config = tiny(plan_of)
    first = make(config)
    once = [learned(r) for r in run(first)]
    first.reset_config(with_folder(config, tmp_path / "reused"))
    assert [learned(r) for r in run(first)] == once
    actor = ray.remote(num_cpus=1)(Trial).remote(with_folder(config, tmp_path / "fresh"))
    fresh = [event for _ in once for event in ray.get(actor.train.remote())[EVENTS] if isinstance(event, Reported)]
    ray.kill(actor)
    assert [learned(dict(event.metrics)) for event in fresh] == [
        {k: v for k, v in of.items() if not k.startswith("final/")} for of in once
    ]


@pytest.mark.parametrize(
    ("algorithm", "env"),
    [
        ("dqn", "cartpole"),
        pytest.param("sac", "pendulum", marks=pytest.mark.slow),
        pytest.param("tqc", "pendulum", marks=pytest.mark.slow),
    ],
)
def test_replay_algorithms_are_the_same_to_the_bit_too(plan_of: PlanOf, make: Make, algorithm: str, env: str) -> None:
    # Replay buffers draw from the operating system's entropy unless they are seeded.
    small = ("study=smoke", "budget_env_steps=400", "report_every_env_steps=200", "study.space={}", "seeds=[3]")
    learn_soon = "algorithm.training.num_steps_sampled_before_learning_starts=100"
    config = plan_of(*small, f"algorithm={algorithm}", f"env={env}", learn_soon).trials[0]
    once, again = ([learned(r) for r in run(make(config))] for _ in range(2))
    assert once == again
    assert once[-1]["progress/updates"] > 0


@pytest.mark.parametrize(
    "settings",
    [
        (*TINY, "checkpoint.every_env_steps=1024", "hardware.num_env_runners=0", "hardware.num_envs_per_env_runner=4"),
        pytest.param(
            (
                *TINY,
                "checkpoint.every_env_steps=1024",
                "hardware.num_env_runners=1",
                "hardware.num_envs_per_env_runner=4",
            ),
            marks=pytest.mark.nightly,
        ),
        (*REPLAY, "algorithm=dqn", "hardware.num_env_runners=0"),
        pytest.param((*REPLAY, "algorithm=sac", "env=pendulum", "hardware.num_env_runners=0"), marks=pytest.mark.slow),
        pytest.param((*REPLAY, "algorithm=tqc", "env=pendulum", "hardware.num_env_runners=0"), marks=pytest.mark.slow),
    ],
    ids=["ppo", "ppo, remote runner", "dqn", "sac", "tqc"],
)
def test_fast_parts_give_the_results_of_rllibs_own(plan_of: PlanOf, make: Make, settings: tuple[str, ...]) -> None:
    fast, stock = (
        plan_of(*settings, "seeds=[0]", "study.space={}", f"fast={fast}", cluster=Cluster((Node(4, 0),))).trials[0]
        for fast in ("true", "false")
    )
    assert fast.config_id != stock.config_id
    found, expected = run(make(fast)), run(make(stock))
    assert found[-1][WEIGHTS] == expected[-1][WEIGHTS]
    for ours, theirs in zip(found, expected, strict=True):
        # Means over minibatches are added up in another order.
        assert learned(ours) == pytest.approx(learned(theirs), rel=1e-5, abs=1e-6)


def test_seeds_differ(plan_of: PlanOf, make: Make) -> None:
    plan = plan_of(*TINY, "seeds=[0,1]", "study.space={}")
    first, second = (learned(step(make(t))) for t in plan.trials)
    assert first != second


@pytest.mark.slow
def test_real_runners_environments_have_streams_of_their_own_in_every_segment(plan_of: PlanOf, make: Make) -> None:
    draws: list[float] = []
    two_by_four = (
        "hardware.num_env_runners=2",
        "hardware.num_envs_per_env_runner=4",
        "checkpoint.every_env_steps=1024",
    )
    trial = make(
        plan_of(*TINY, "seeds=[0]", "study.space={}", *COUNT, *two_by_four, cluster=Cluster((Node(4, 0),))).trials[0]
    )
    for _ in range(2):  # as many episodes in each segment: equal streams would show equal draws
        step(trial)
        per_runner = trial._training.algorithm.env_runner_group.foreach_env_runner(
            lambda runner: [env.unwrapped._draw for env in runner.env.unwrapped.envs], local_env_runner=False
        )
        draws += [value for runner in per_runner for value in runner]
    assert len(draws) == 16
    assert len(set(draws)) == 16


def test_a_checkpoint_holds_the_policy_and_the_counters(plan_of: PlanOf, make: Make, tmp_path: Path) -> None:
    config = tiny(plan_of, "budget_env_steps=3072")
    trial = make(config)
    step(trial)
    before = step(trial)
    saved = tmp_path / "checkpoint"
    saved.mkdir()
    trial.save_checkpoint(str(saved))
    restored = make(config)
    restored.load_checkpoint(str(saved))
    after = step(restored)
    assert after["done"]
    assert after["progress/env_steps"] > before["progress/env_steps"]
    assert after["progress/train_s"] > before["progress/train_s"]
    assert len(restored._training.counters.curve) == 3


def test_a_trial_that_is_over_keeps_its_policies_and_not_what_it_would_learn_from(
    plan_of: PlanOf, make: Make, tmp_path: Path
) -> None:
    settings = (*REPLAY, "algorithm=dqn", "hardware.num_env_runners=0", "seeds=[0]", "study.space={}")
    config = plan_of(*settings, "checkpoint.keep=9").trials[0]
    alone, followed, pruned = (tmp_path / name for name in ("alone", "followed", "pruned"))
    trial = make(config, folder=alone)
    assert run(trial)[-1][WEIGHTS]
    *before, last = TrialFolder(alone).checkpoints()
    assert all((saved / SAMPLES).exists() for saved in before)
    assert not (last / SAMPLES).exists()
    trial.cleanup()
    assert not list(alone.rglob(SAMPLES))
    assert not [damage for saved in (*before, last) if (damage := damage_of(saved))]

    trial = make(config, folder=followed)
    trial._followed = True
    run(trial)
    trial.cleanup()
    assert len(list(followed.rglob(SAMPLES))) == len(before) + 1

    trial = make(config, folder=pruned)
    step(trial)
    step(trial)
    assert list(pruned.rglob(SAMPLES))
    TrialFolder(pruned).log.add(Ended(status=PRUNED, env_steps=step(trial)[STEP]))  # as the driver does
    trial.reset_config(with_folder(config, alone))
    assert not list(pruned.rglob(SAMPLES))


def test_a_replay_buffer_is_found_where_checkpoints_held_it_before(plan_of: PlanOf, make: Make, tmp_path: Path) -> None:
    config = plan_of(*REPLAY, "algorithm=dqn", "hardware.num_env_runners=0", "seeds=[0]", "study.space={}").trials[0]
    trial = make(config)
    step(trial)
    trial.save_checkpoint(str(tmp_path))
    replay = pickle.loads((tmp_path / SAMPLES).read_bytes())["local_replay_buffer"]
    beside = pickle.loads((tmp_path / BESIDE).read_bytes())
    (tmp_path / BESIDE).write_bytes(pickle.dumps({**beside, "replay": replay, "waiting": None}))
    (tmp_path / SAMPLES).unlink()
    restored = make(config)
    restored.load_checkpoint(str(tmp_path))
    assert not restored._training.lacks_replay
    assert restored._training.algorithm.local_replay_buffer.get_num_timesteps() == replay.get_num_timesteps() > 0


def test_a_trial_that_was_set_up_and_never_stepped_leaves_no_trace(plan_of: PlanOf, make: Make, tmp_path: Path) -> None:
    config, folder = tiny(plan_of), tmp_path / "folder"
    unused = make(config, folder=folder)
    reports = run(make(config, folder=folder))
    assert {r["restarts"] for r in reports} == {0}
    unused.cleanup()
    assert not [event for event in TrialFolder(folder).log.all() if isinstance(event, Restarted)]


@pytest.mark.parametrize(
    "overrides",
    [
        ("algorithm=ppo",),
        pytest.param(
            (
                "algorithm=sac",
                "env=pendulum",
                "hardware.num_env_runners=0",
                "budget_env_steps=400",
                "report_every_env_steps=200",
                "algorithm.training.train_batch_size_per_learner=32",
                "algorithm.training.num_steps_sampled_before_learning_starts=100",
            ),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["ppo", "sac"],
)
def test_a_trial_that_takes_over_another_ones_weights_keeps_its_own_settings(
    overrides: tuple[str, ...], plan_of: PlanOf, make: Make, tmp_path: Path
) -> None:
    name = "actor_lr" if "actor_lr" in tiny(plan_of, *overrides).algorithm["training"] else "lr"
    parent, settings = (tiny(plan_of, *overrides, f"algorithm.training.{name}={lr}") for lr in (1e-3, 1e-6))
    first = make(parent, folder=tmp_path / parent.folder_name)
    first._followed = True
    ended = run(first)[-1]
    budget, every = parent.budget_env_steps, parent.report_every_env_steps
    child = replace(settings, seed=5, budget_env_steps=2 * budget, start=Start(parent.folder_name, budget, copied=True))
    assert child.config_id != replace(child, start=None).config_id
    trial = make(child, folder=tmp_path / child.folder_name)
    trial._start()
    assert weights_digest(weights(trial._training.algorithm)) == ended[WEIGHTS]
    reports = run(trial)
    assert [r["report_env_steps"] for r in reports] == [budget + every, 2 * budget]
    assert reports[0]["progress/env_steps"] > ended["progress/env_steps"]
    assert name != "lr" or [r["learner/lr"] for r in reports] == pytest.approx([1e-6, 1e-6])
    rates = next(r.get() for r in trial._training.algorithm.learner_group.foreach_learner(learning_rates))
    assert any(rate == pytest.approx(1e-6) for of_one in rates.values() for rate in of_one)
