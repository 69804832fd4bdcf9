"""The real Trainable on real RLlib, small."""

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import ray

from experiments.config.trial_config import Start, TrialConfig
from experiments.metrics import METRICS
from experiments.planning.resources import Cluster, Node
from experiments.rllib.checkpoints import learning_rates, weights_digest
from experiments.trial.events import Ended, Reported, Restarted, Started
from experiments.trial.folder import TrialFolder
from experiments.trial.trainable import EVENTS, MEASURE_SYSTEM, RECYCLE_PROCESS, TRIAL, Trial
from tests.support.suite import TINY, PlanOf
from tests.support.trials import COUNT, FAILURE, WEIGHTS, Make, learned, run, step, tiny, with_folder

FINAL = {name for name in METRICS if name.startswith("final/")}

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_instance")]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    started: list[Trial] = []

    def start(config: TrialConfig, system: bool = False, folder: Path | None = None) -> Trial:
        folder = folder or tmp_path / f"trial-{len(started)}"
        started.append(Trial({**with_folder(config, folder), MEASURE_SYSTEM: system}))
        return started[-1]

    yield start
    for trial in started:
        trial.cleanup()


def test_reports_come_on_the_grid_whatever_the_batch(plan_of: PlanOf, make: Make) -> None:
    reports = {b: run(make(tiny(plan_of, f"algorithm.training.train_batch_size_per_learner={b}"))) for b in (256, 384, 1024)}
    assert {tuple(r["report_env_steps"] for r in of_batch) for of_batch in reports.values()} == {(1024, 2048)}
    for batch, of_batch in reports.items():
        assert all(abs(r["progress/env_steps"] - r["report_env_steps"]) <= batch / 2 + 64 for r in of_batch)


def test_a_report_holds_the_contracts_metrics_and_no_others(plan_of: PlanOf, make: Make) -> None:
    last = run(make(tiny(plan_of), system=True))[-1]
    ours = {k for k in last if "/" in k}
    assert ours <= set(METRICS)
    of_others = {f"system/{role}_{what}" for role in ("driver", "runners", "learners") for what in ("cpu_percent", "memory_mib")}
    remote = {"time/transfer_share", "time/waiting_share"}
    target = {"final/env_steps_to_target", "final/seconds_to_target"}
    assert set(METRICS) - ours <= {"system/gpu_percent", "final/disturbed_share"} | target | of_others | remote
    assert all(math.isfinite(last[k]) for k in ours)
    assert sum(last[f"throughput/{part}_share"] for part in ("sample", "learn", "sync", "other")) == pytest.approx(1)
    # 512 env steps in minibatches of 256, 6 epochs: 12 gradient steps, and one more for the rows that RLlib appends.
    assert 12 <= last["progress/updates"] / last["progress/iterations"] <= 15


def test_what_is_watched_leaves_the_fast_parts_fast_and_is_there_without_them(plan_of: PlanOf, make: Make) -> None:
    last = {}
    for fast in (True, False):
        trial = make(tiny(plan_of, f"fast={str(fast).lower()}"))
        reports = [step(trial)]
        if fast:
            assert trial._training.algorithm.learner_group._learner._said == set()  # nothing made it fall back to RLlib's updates
            assert trial._training.algorithm.env_runner._said == set()
        reports.append(step(trial))
        last[fast] = reports[-1]
    assert last[True]["learner/kl"] > 0
    assert last[True]["learner/kl"] == pytest.approx(last[False]["learner/kl"], rel=1e-4)
    for part in ("env_step", "inference", "connectors", "learn", "evaluation"):
        assert all(of[f"time/{part}_share"] > 0 for of in last.values())


def test_the_same_trial_is_the_same_to_the_bit_on_a_reused_actor_and_a_fresh_one(plan_of: PlanOf, make: Make, tmp_path: Path) -> None:
    config = tiny(plan_of)
    first = make(config)
    once = [learned(r) for r in run(first)]
    first.reset_config(with_folder(config, tmp_path / "reused"))
    assert [learned(r) for r in run(first)] == once
    actor = ray.remote(num_cpus=1)(Trial).remote(with_folder(config, tmp_path / "fresh"))
    fresh = [event for _ in once for event in ray.get(actor.train.remote())[EVENTS] if isinstance(event, Reported)]
    ray.kill(actor)
    assert [learned(dict(event.metrics)) for event in fresh] == [{k: v for k, v in of.items() if k not in FINAL} for of in once]


@pytest.mark.parametrize(("algorithm", "env"), [("dqn", "cartpole"), ("sac", "pendulum")])
def test_replay_algorithms_are_the_same_to_the_bit_too(plan_of: PlanOf, make: Make, algorithm: str, env: str) -> None:
    # Replay buffers draw from the operating system's entropy unless they are seeded.
    small = ("study=smoke", "budget_env_steps=400", "report_every_env_steps=200", "study.space={}", "seeds=[3]")
    learn_soon = "algorithm.training.num_steps_sampled_before_learning_starts=100"
    config = plan_of(*small, f"algorithm={algorithm}", f"env={env}", learn_soon).trials[0]
    once, again = ([learned(r) for r in run(make(config))] for _ in range(2))
    assert once == again
    assert once[-1]["progress/updates"] > 0


REPLAY = (
    "study=smoke",
    "budget_env_steps=600",
    "report_every_env_steps=200",
    "checkpoint.every_env_steps=400",
    "algorithm.training.num_steps_sampled_before_learning_starts=100",
)


@pytest.mark.parametrize(
    "settings",
    [
        (*TINY, "checkpoint.every_env_steps=1024", "hardware.num_env_runners=0", "hardware.num_envs_per_env_runner=4"),
        (*TINY, "checkpoint.every_env_steps=1024", "hardware.num_env_runners=1", "hardware.num_envs_per_env_runner=4"),
        (*REPLAY, "algorithm=dqn", "hardware.num_env_runners=0"),
        (*REPLAY, "algorithm=sac", "env=pendulum", "hardware.num_env_runners=0"),
    ],
    ids=["ppo", "ppo, remote runner", "dqn", "sac"],
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


def test_real_runners_environments_have_streams_of_their_own_in_every_segment(plan_of: PlanOf, make: Make) -> None:
    draws: list[float] = []
    for seed in (0, 1):
        two_by_four = (
            "hardware.num_env_runners=2",
            "hardware.num_envs_per_env_runner=4",
            f"seeds=[{seed}]",
            "checkpoint.every_env_steps=1024",
        )
        trial = make(plan_of(*TINY, "study.space={}", *COUNT, *two_by_four, cluster=Cluster((Node(4, 0),))).trials[0])
        for _ in range(2):  # as many episodes in each segment: equal streams would show equal draws
            trial.step()
            per_runner = trial._training.algorithm.env_runner_group.foreach_env_runner(
                lambda runner: [env.unwrapped._draw for env in runner.env.unwrapped.envs], local_env_runner=False
            )
            draws += [value for runner in per_runner for value in runner]
        trial.cleanup()
    assert len(draws) == 32
    assert len(set(draws)) == 32


def test_train_returns_and_lengths_are_those_of_whole_episodes(plan_of: PlanOf, make: Make) -> None:
    # 50 steps: longer than a fragment of 512 / 16 = 32, so every episode spans several.
    last = run(make(tiny(plan_of, *COUNT, "+env.env_config.length=50")))[-1]
    assert last["train/return_mean"] == last["train/return_min"] == last["train/return_max"] == 50
    assert last["train/episode_len_mean"] == 50
    assert last["final/score"] == 50


def test_reports_without_a_finished_episode_are_no_fault(plan_of: PlanOf, make: Make) -> None:
    reports = run(make(tiny(plan_of, *COUNT, "+env.env_config.length=500")))
    assert all(r["train/episodes"] == 0 and "train/return_mean" not in r for r in reports)


def test_a_nan_reward_fails_the_trial_with_its_place(plan_of: PlanOf, make: Make) -> None:
    trial = make(tiny(plan_of, *COUNT, "+env.env_config.nan_after=40"))
    last = run(trial)[-1]
    assert re.fullmatch(r"NonFiniteError: non-finite .* after \d+ env steps", last[FAILURE])
    assert last[RECYCLE_PROCESS]


@pytest.mark.parametrize(
    ("setting", "reason"),
    [("nan_after=20", r"NonFiniteError: non-finite .* after \d+ env steps"), ("crash_after=20", "RuntimeError: the simulator crashed")],
)
def test_a_fault_in_the_midst_of_lean_steps_fails_the_trial_with_its_reason(plan_of: PlanOf, make: Make, setting: str, reason: str) -> None:
    config = plan_of(*REPLAY, "algorithm=dqn", *COUNT, f"+env.env_config.{setting}", "study.space={}", "seeds=[0]").trials[0]
    assert re.fullmatch(reason, run(make(config))[-1][FAILURE])


def test_a_process_that_grew_too_much_is_recycled(plan_of: PlanOf, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = make(tiny(plan_of))
    assert not run(trial)[-1][RECYCLE_PROCESS]
    trial.reset_config({TRIAL: trial.config[TRIAL], MEASURE_SYSTEM: False})  # in the same process
    assert not trial.step()[RECYCLE_PROCESS]
    monkeypatch.setattr("experiments.trial.trainable._MOST_GROWTH", -(2**40))
    assert trial.step()[RECYCLE_PROCESS]


def test_a_trial_stops_early_at_the_target_only_if_asked(plan_of: PlanOf, make: Make) -> None:
    easy = (*COUNT, "env.target=5", "budget_env_steps=4096")
    assert len(run(make(tiny(plan_of, *easy)))) == 4
    early = run(make(tiny(plan_of, *easy, "stop_at_target=true")))
    assert len(early) == 2
    assert early[-1]["final/env_steps_to_target"] == 1024


def test_evaluations_can_be_rarer_than_reports(plan_of: PlanOf, make: Make) -> None:
    reports = run(make(tiny(plan_of, "budget_env_steps=4096", "evaluation.every_env_steps=2048")))
    assert ["eval/return_mean" in r for r in reports] == [False, True, False, True]
    assert reports[-1]["final/train_s"] < reports[-1]["final/wall_s"]  # evaluation is not training time


def test_a_checkpoint_holds_the_policy_and_the_counters(plan_of: PlanOf, make: Make, tmp_path: Path) -> None:
    config = tiny(plan_of, "budget_env_steps=3072")
    trial = make(config)
    trial.train()
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


@pytest.mark.parametrize("algorithm", ["impala", "appo"])
def test_asynchronous_algorithms_train_and_report_on_the_grid(plan_of: PlanOf, make: Make, algorithm: str) -> None:
    reports = run(make(tiny(plan_of, f"algorithm={algorithm}", "budget_env_steps=3072")))
    assert [r["report_env_steps"] for r in reports] == [1024, 2048, 3072]
    assert reports[-1]["progress/updates"] > 0
    assert reports[-1]["learner/staleness_updates"] >= 0
    assert math.isfinite(reports[-1]["final/score"])


def test_a_trial_that_was_set_up_and_never_stepped_leaves_no_trace(plan_of: PlanOf, make: Make, tmp_path: Path) -> None:
    config, folder = tiny(plan_of), tmp_path / "folder"
    unused = make(config, folder=folder)
    reports = run(make(config, folder=folder))
    assert {r["restarts"] for r in reports} == {0}
    unused.cleanup()
    assert not [event for event in TrialFolder(folder).log.all() if isinstance(event, Restarted)]


@pytest.mark.parametrize("overrides", [("algorithm=ppo",), ("algorithm=sac", "env=pendulum", "hardware.num_env_runners=0")], ids=" ".join)
def test_a_trial_that_takes_over_another_ones_weights_keeps_its_own_settings(
    overrides: tuple[str, ...], plan_of: PlanOf, make: Make, tmp_path: Path
) -> None:
    name = "actor_lr" if "algorithm=sac" in overrides else "lr"
    parent, settings = (tiny(plan_of, *overrides, f"algorithm.training.{name}={lr}") for lr in (1e-3, 1e-6))
    ended = run(make(parent, folder=tmp_path / parent.folder_name))[-1]
    child = replace(settings, seed=5, budget_env_steps=4096, start=Start(parent.folder_name, 2048, copied=True))
    assert child.config_id != replace(child, start=None).config_id
    trial = make(child, folder=tmp_path / child.folder_name)
    trial._start()
    assert weights_digest(trial._training.algorithm) == ended[WEIGHTS]
    reports = run(trial)
    assert [r["report_env_steps"] for r in reports] == [3072, 4096]
    assert reports[0]["progress/env_steps"] > ended["progress/env_steps"]
    assert name != "lr" or [r["learner/lr"] for r in reports] == pytest.approx([1e-6, 1e-6])
    rates = next(r.get() for r in trial._training.algorithm.learner_group.foreach_learner(learning_rates))
    assert any(rate == pytest.approx(1e-6) for of_one in rates.values() for rate in of_one)


def test_a_trial_whose_log_holds_its_end_is_over_whoever_asks_it_to_go_on(plan_of: PlanOf, make: Make, tmp_path: Path) -> None:
    config, folder = tiny(plan_of), tmp_path / "folder"
    first = make(config, folder=folder)
    ended = run(first)[-1]
    first.cleanup()  # its last message is lost
    log = TrialFolder(folder).log.all()
    again = make(config, folder=folder).train()
    assert (again["done"], again[EVENTS]) == (True, [])
    assert TrialFolder(folder).log.all() == log
    end = log[-1]
    assert isinstance(end, Ended)
    assert (end.env_steps, end.metrics["final/score"], end.weights) == (config.budget_env_steps, ended["final/score"], ended[WEIGHTS])


def test_a_trial_that_was_killed_between_its_last_report_and_its_end_ends_with_the_same(
    plan_of: PlanOf, make: Make, tmp_path: Path
) -> None:
    config, folder = tiny(plan_of), tmp_path / "folder"
    first = make(config, folder=folder)
    ended = run(first)[-1]
    first.cleanup()
    path = folder / "events.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    last = run(make(config, folder=folder))[-1]
    assert (last["report_env_steps"], last["final/score"], last[WEIGHTS]) == (config.budget_env_steps, ended["final/score"], ended[WEIGHTS])


def test_a_process_whose_trial_another_one_has_taken_up_gives_it_up(plan_of: PlanOf, make: Make, tmp_path: Path) -> None:
    config, folder = tiny(plan_of), tmp_path / "folder"
    trial = make(config, folder=folder)
    step(trial)
    log = TrialFolder(folder).log
    log.new()
    log.add(Started())
    assert step(trial)["done"]
    assert [event.attempt for event in TrialFolder(folder).log.all()] == [1, 1, 2]
