"""The real Trainable on real RLlib, small: what it reports, when it stops, how it fails."""

import functools
import math
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.contract import METRICS
from experiments.planning.machines import Cluster, Node
from experiments.rllib.signs_of_life import call_while_working
from experiments.trial.attempt import Attempt, UnfitNodeError
from experiments.trial.events import Ended, Restarted, Started
from experiments.trial.folder import TrialFolder
from experiments.trial.tune_keys import EVENTS, MEASURE_SYSTEM, RECYCLE_PROCESS, TRIAL
from tests.support.suite import PlanOf
from tests.support.trials import COUNT, FAILURE, REPLAY, TINY, WEIGHTS, Make, run, step, tiny

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_instance")]


def test_reports_come_on_the_grid_whatever_the_batch(plan_of: PlanOf, make: Make) -> None:
    reports = {b: run(make(tiny(plan_of, f"algorithm.training.train_batch_size_per_learner={b}"))) for b in (384, 1024)}
    assert {tuple(r["report_env_steps"] for r in of_batch) for of_batch in reports.values()} == {(1024, 2048)}
    for batch, of_batch in reports.items():
        assert all(abs(r["progress/env_steps"] - r["report_env_steps"]) <= batch / 2 + 64 for r in of_batch)


def test_a_report_holds_the_contracts_metrics_and_no_others(plan_of: PlanOf, make: Make) -> None:
    last = run(make(tiny(plan_of), system=True))[-1]
    ours = {k for k in last if "/" in k}
    assert ours <= set(METRICS)
    of_others = {
        f"system/{role}_{what}" for role in ("driver", "runners", "learners") for what in ("cpu_percent", "memory_mib")
    }
    remote = {"time/transfer_share", "time/waiting_share"}
    target = {"final/env_steps_to_target", "final/seconds_to_target"}
    if_any = {"system/gpu_percent", "system/stolen_cpu_percent", "system/cpu_pressure_percent"}
    if_any |= {"throughput/pauses", "final/paused_s", "final/disturbed_share", "final/score_in_minutes"}
    if_any |= {"final/staleness_updates"}  # of algorithms that sample while they learn
    # absent where the gradient does not stand out from its noise
    assert set(METRICS) - ours <= if_any | target | of_others | remote
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
            # nothing made it fall back to RLlib's updates
            assert trial._training.algorithm.learner_group._learner._logged_reasons == set()
            assert trial._training.algorithm.env_runner._logged_reasons == set()
        reports.append(step(trial))
        last[fast] = reports[-1]
    assert last[True]["learner/kl"] > 0
    assert last[True]["learner/kl"] == pytest.approx(last[False]["learner/kl"], rel=1e-4)
    for part in ("env_step", "inference", "connectors", "learn", "evaluation"):
        assert all(of[f"time/{part}_share"] > 0 for of in last.values())


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
    [
        ("nan_after=40", r"NonFiniteError: non-finite .* after \d+ env steps"),
        ("crash_after=40", "RuntimeError: the simulator crashed"),
    ],
)
def test_a_fault_in_the_midst_of_lean_steps_fails_the_trial_with_its_reason(
    plan_of: PlanOf, make: Make, setting: str, reason: str
) -> None:
    config = plan_of(
        *REPLAY,
        "algorithm=dqn",
        "hardware.total_envs=4",
        *COUNT,
        f"+env.env_config.{setting}",
        "study.space={}",
        "seeds=[0]",
    ).trials[0]
    said = run(make(config))[-1]
    assert re.fullmatch(reason, said[FAILURE])
    assert said["diverged"] == setting.startswith("nan")


@pytest.mark.parametrize("fast", ["true", "false"])
def test_signs_of_life_come_between_the_iterations_of_an_algorithm_that_replays(
    plan_of: PlanOf, make: Make, monkeypatch: pytest.MonkeyPatch, fast: str
) -> None:
    monkeypatch.setattr("experiments.trial.heartbeat.EVERY_S", 0.0)
    one_report = ("report_every_env_steps=400", "checkpoint.every_env_steps=400", f"fast={fast}")
    config = plan_of(*REPLAY, *COUNT, "algorithm=dqn", "hardware.total_envs=4", "study.space={}", *one_report).trials[0]
    trial, signs = make(config), list[Any]()
    trial.begin(Attempt(heartbeats=actor_that_adds_to(signs)))
    report = step(trial)
    played = config.evaluation.episodes + config.evaluation.final_episodes
    assert len(signs) - played > 5 * report["progress/iterations"]


@pytest.mark.parametrize("fast", ["true", "false"])
def test_signs_of_life_come_within_a_training_step_however_long_it_takes(
    plan_of: PlanOf, make: Make, monkeypatch: pytest.MonkeyPatch, fast: str
) -> None:
    monkeypatch.setattr("experiments.trial.heartbeat.EVERY_S", 0.0)
    trial, signs = make(tiny(plan_of, f"fast={fast}", "hardware.total_envs=1")), list[Any]()
    trial.begin(Attempt(heartbeats=actor_that_adds_to(signs)))
    trial._take_folder()
    trial._start()
    training, seen = trial._training.algorithm.config, len(signs)
    trial._training.algorithm.training_step()
    batch, minibatch = training.train_batch_size_per_learner, training.minibatch_size
    assert len(signs) - seen >= batch + training.num_epochs * batch / minibatch


@pytest.mark.slow
def test_runners_and_learners_in_processes_of_their_own_give_signs_of_life(
    plan_of: PlanOf, make: Make, tmp_path: Path
) -> None:
    processes = ("hardware.num_env_runners=1", "++hardware.num_learners=1")
    trial = make(plan_of(*TINY, *processes, cluster=Cluster((Node(4, 0),))).trials[0])
    trial._start()
    algorithm = trial._training.algorithm
    call_while_working(algorithm, functools.partial(note_process, tmp_path))
    algorithm.training_step()
    others = [
        *algorithm.env_runner_group.foreach_env_runner(lambda runner: os.getpid(), local_env_runner=False),
        *(each.get() for each in algorithm.learner_group.foreach_learner(lambda learner: os.getpid())),
    ]
    assert len(others) == 2
    assert {path.name for path in tmp_path.iterdir()} >= {str(pid) for pid in (os.getpid(), *others)}


def note_process(folder: Path) -> None:
    (folder / str(os.getpid())).touch()


def actor_that_adds_to(signs: list[Any]) -> SimpleNamespace:
    return SimpleNamespace(add=SimpleNamespace(remote=lambda *sign: signs.append(sign)))


def test_a_process_that_grew_too_much_is_recycled(plan_of: PlanOf, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = make(tiny(plan_of))
    assert not run(trial)[-1][RECYCLE_PROCESS]
    trial.reset_config({TRIAL: trial.config[TRIAL], MEASURE_SYSTEM: False})  # in the same process
    assert not step(trial)[RECYCLE_PROCESS]
    monkeypatch.setattr("experiments.trial.usage.process_memory.MOST_GROWTH", -(2**40))
    assert step(trial)[RECYCLE_PROCESS]


def test_a_trial_stops_early_at_the_target_only_if_asked(plan_of: PlanOf, make: Make) -> None:
    easy = (*COUNT, "env.target=5", "budget_env_steps=4096")
    assert len(run(make(tiny(plan_of, *easy)))) == 4
    early = run(make(tiny(plan_of, *easy, "stop_at_target=true")))
    assert len(early) == 2
    assert early[-1]["final/env_steps_to_target"] == 1024
    first, last = (report["eval/return_mean"] for report in early)  # at 1,024 and 2,048 of 4,096
    assert early[-1]["final/auc"] == pytest.approx((first + (first + last) / 2 + 2 * last) / 4)


def test_evaluations_can_be_rarer_than_reports(plan_of: PlanOf, make: Make) -> None:
    reports = run(make(tiny(plan_of, "budget_env_steps=4096", "evaluation.every_env_steps=2048")))
    assert ["eval/return_mean" in r for r in reports] == [False, True, False, True]
    assert reports[-1]["final/train_s"] < reports[-1]["final/wall_s"]  # evaluation is not training time


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["impala", pytest.param("appo", marks=pytest.mark.nightly)])
def test_asynchronous_algorithms_train_and_report_on_the_grid(plan_of: PlanOf, make: Make, algorithm: str) -> None:
    reports = run(make(tiny(plan_of, f"algorithm={algorithm}", "budget_env_steps=3072")))
    assert [r["report_env_steps"] for r in reports] == [1024, 2048, 3072]
    assert reports[-1]["progress/updates"] > 0
    assert reports[-1]["learner/staleness_updates"] >= 0
    assert reports[-1]["final/staleness_updates"] >= 0
    assert math.isfinite(reports[-1]["final/score"])


@pytest.mark.slow
def test_appo_uses_each_batch_as_often_as_it_says_and_tells_of_now(plan_of: PlanOf, make: Make) -> None:
    steps, batch, uses = 8192, 256, 3
    schedule = f"algorithm.training.lr=[[0,1e-3],[{steps},0.0]]"
    config = tiny(
        plan_of,
        "algorithm=appo",
        f"budget_env_steps={steps}",
        f"algorithm.training.train_batch_size_per_learner={batch}",
        f"algorithm.training.num_epochs={uses}",
        schedule,
    )
    last = run(make(config))[-1]
    assert 0.8 * uses * steps / batch < last["progress/updates"] <= uses * last["progress/env_steps"] / batch
    assert last["learner/lr"] < 2e-4  # with RLlib's circular buffer that of long ago


def test_a_trial_whose_log_holds_its_end_is_over_whoever_asks_it_to_go_on(
    plan_of: PlanOf, make: Make, tmp_path: Path
) -> None:
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
    assert (end.env_steps, end.metrics["final/score"], end.weights) == (
        config.budget_env_steps,
        ended["final/score"],
        ended[WEIGHTS],
    )


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
    assert (last["report_env_steps"], last["final/score"], last[WEIGHTS]) == (
        config.budget_env_steps,
        ended["final/score"],
        ended[WEIGHTS],
    )


def test_a_process_whose_trial_another_one_has_taken_up_gives_it_up(
    plan_of: PlanOf, make: Make, tmp_path: Path
) -> None:
    config, folder = tiny(plan_of), tmp_path / "folder"
    trial = make(config, folder=folder)
    step(trial)
    log = TrialFolder(folder).log
    log.new()
    log.add(Started())
    assert step(trial)["done"]
    assert [(event.kind, event.attempt) for event in TrialFolder(folder).log.all()] == [
        ("started", 1),
        ("placed", 1),
        ("reported", 1),
        ("started", 2),
    ]


def test_a_process_that_does_not_find_what_the_driver_wrote_leaves_no_trace_on_its_node(
    plan_of: PlanOf, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.trial.entering._SHARED_WITHIN_S", 0.0)
    trial = make(tiny(plan_of), folder=tmp_path / "folder")
    trial.begin(Attempt(number=1))
    with pytest.raises(UnfitNodeError, match=f"what the driver writes in {tmp_path / 'folder'} is not there"):
        trial.train()
    assert not (tmp_path / "folder").exists()


def test_a_process_has_the_drivers_attempt_and_sends_it_its_signs_of_life(
    plan_of: PlanOf, make: Make, tmp_path: Path
) -> None:
    config, folder, signs = tiny(plan_of), TrialFolder(tmp_path / "folder"), list[tuple[str, int]]()
    folder.log.add(Started())
    folder.log.add(Started())
    trial = make(config, folder=folder.path)
    trial.begin(Attempt(2, "second was lost", "node", actor_that_adds_to(signs)))
    step(trial)
    restart = folder.log.all()[2]
    assert isinstance(restart, Restarted)
    assert (restart.attempt, restart.reason, restart.cause) == (2, "second was lost", "node")
    assert set(signs) == {(config.folder_name, 2)}
