import io
import math
import re
import time
from typing import Any

import pytest
from rich.console import Console

from analysis.document.answer import closing_table
from analysis.document.conclusions import evidence_of
from analysis.document.terminal import outcome_table
from experiments.contract import FAILED, FINISHED
from experiments.contract.words import duration
from experiments.planning.plan import Plan
from experiments.planning.record import plan_record
from experiments.planning.terminal import plan_table
from experiments.planning.trials import StudyTrials
from experiments.search.strategy import Ask
from experiments.study.outcomes import Outcomes, TrialOutcome
from experiments.study.progress import Progress, failures, say
from experiments.trial.events import Ended, Reported, Started
from experiments.trial.usage.pauses import unpaused_s
from tests.support.suite import PlanOf


def final(score: float, reached: float | None = None) -> dict[str, float]:
    values = {"final/score": score, "final/auc": score / 2, "final/env_steps_per_s": 100.0}
    return values if reached is None else {**values, "final/env_steps_to_target": reached}


def finished(label: str, seed: int, score: float, reached: float | None = None) -> TrialOutcome:
    return TrialOutcome(label, seed, "finished", final(score, reached))


def printed(renderable: Any) -> str:
    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(renderable)
    return console.export_text()


def closing(plan: Plan, outcomes: list[TrialOutcome], width: int = 140) -> str:
    evidence = evidence_of(plan_record(StudyTrials(plan)), outcomes)
    return printed(outcome_table(closing_table(evidence), exclusive=True, width=width))


def test_the_score_of_one_seed_has_no_interval(plan_of: PlanOf) -> None:
    line = next(
        x for x in closing(plan_of("study=smoke"), [finished("gamma=0.98", 0, 5.0)]).splitlines() if "gamma=0.98" in x
    )
    assert "5.0" in line
    assert "5.0 [" not in line


def test_configurations_come_best_first_and_the_best_is_marked(plan_of: PlanOf) -> None:
    scores = {"gamma=0.98": (9.0, 10.0), "gamma=0.99": (400.0, 401.0)}
    text = closing(
        plan_of("study=smoke"),
        [finished(label, seed, score) for label, pair in scores.items() for seed, score in enumerate(pair)],
    )
    best, worse = (next(x for x in text.splitlines() if label in x) for label in ("gamma=0.99", "gamma=0.98"))
    assert text.index("gamma=0.99") < text.index("gamma=0.98")
    assert best.startswith("*")
    assert not worse.startswith("*")


@pytest.mark.parametrize(("width", "gone"), [(80, {"ever held", "env steps/s"}), (40, {"env steps to target"})])
def test_a_narrow_terminal_does_without_columns_and_keeps_what_matters(
    plan_of: PlanOf, width: int, gone: set[str]
) -> None:
    outcomes = [
        finished(label, seed, 480.0 + seed, 2048) for label in ("gamma=0.98", "gamma=0.99") for seed in range(3)
    ]
    text = closing(plan_of("study=smoke"), outcomes, width)
    heading = text.splitlines()[0]
    assert all(len(line.rstrip()) <= width for line in text.splitlines() if "gamma" in line or "configuration" in line)
    assert all(name in heading for name in ("configuration", "score"))
    assert not any(name in heading for name in gone)


def test_a_line_is_wrapped_at_words_on_a_terminal_and_commands_and_log_files_stay_whole() -> None:
    words, command = "answer      " + "word " * 30, "            python experiments/run.py " + "a=1 " * 30
    for is_terminal, lines in ((True, 3), (False, 1)):
        shown = io.StringIO()
        console = Console(width=80, force_terminal=is_terminal, file=shown, color_system=None)
        say(console, words)
        said = shown.getvalue().splitlines()
        assert len(said) == lines
        assert all(line.startswith(" " * 12 + "word") for line in said[1:])
        say(console, command)
        assert command in shown.getvalue()


def test_seeds_that_never_reach_the_target_count_with_the_budget(plan_of: PlanOf) -> None:
    plan = plan_of("study=smoke")  # a budget of 4096
    text = closing(
        plan, [finished("gamma=0.98", 0, 500.0, 2048), finished("gamma=0.98", 1, 100.0), finished("gamma=0.99", 0, 1.0)]
    )
    assert ">= 3,072" in text
    assert "1/2" in text
    assert "not in 4,096" in text


def test_failed_seeds_are_named_and_causes_grouped() -> None:
    outcomes = [
        finished("a", 0, 1.0),
        *(TrialOutcome("a", s, "failed", failure="ValueError: no") for s in range(1, 101)),
    ]
    (line,) = failures(outcomes)
    assert line.startswith("100 failed: ValueError: no")
    assert "a s=1" in line
    assert "97 more" in line


def test_trials_that_ran_out_of_memory_are_one_line_whatever_each_had() -> None:
    def failed(seed: int, own: str) -> TrialOutcome:
        return TrialOutcome("lr=1", seed, "failed", failure=f"out of memory: it had {own}, 1.0 GiB beside it")

    (line,) = failures([failed(0, "10.9 GiB"), failed(1, "512.0 MiB")])
    assert line == "2 failed: out of memory: it had 10.9 GiB, 1.0 GiB beside it  (lr=1 s=0, lr=1 s=1)"


def test_a_configuration_without_a_finished_seed_keeps_its_row(plan_of: PlanOf) -> None:
    text = closing(plan_of("study=smoke"), [finished("gamma=0.98", 0, 1.0), TrialOutcome("gamma=0.99", 0, "failed")])
    assert "0/2" in next(x for x in text.splitlines() if "gamma=0.99" in x)


@pytest.mark.parametrize(("seconds", "text"), [(42.4, "42 s"), (190, "3 min 10 s"), (7500, "2 h 5 min")])
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_plan_shows_what_a_trial_needs(plan_of: PlanOf) -> None:
    plan = plan_of()
    text = printed(plan_table(plan))
    assert all(c.label in text for c in plan.configurations)


def test_of_very_many_configurations_the_plan_shows_the_first_and_the_last_and_counts_the_others(
    plan_of: PlanOf,
) -> None:
    plan = plan_of(
        "study=single", f"study.space={{algorithm.training.lr:[{','.join(f'{i}e-5' for i in range(1, 71))}]}}"
    )
    lines = [line.split()[0] for line in printed(plan_table(plan)).splitlines()]
    labels = [c.label for c in plan.configurations]
    assert lines == ["configuration", *labels[:30], "...", *labels[-30:]]
    assert "... and 10 others" in printed(plan_table(plan))


def test_progress_without_a_terminal_is_plain_lines(plan_of: PlanOf) -> None:
    plan = plan_of("study=smoke")
    console = Console(width=140, record=True, force_terminal=False)
    with Progress(plan, console) as progress:
        progress._last_line = -math.inf
        trial = plan.trials[0]
        progress.on_event(trial, Started())
        progress.on_event(
            trial, Reported(env_steps=2048, metrics={"throughput/env_steps_per_s": 10.0, "eval/return_mean": 3.0})
        )
        progress.on_event(trial, Ended(status=FINISHED, env_steps=4096, metrics=final(7.0)))
    assert "0/4 trials finished, 12% of the env steps" in console.export_text()
    assert "return" in printed(progress._render())


@pytest.mark.parametrize("status", [FINISHED, FAILED])
def test_env_steps_that_a_trial_will_not_sample_are_neither_done_nor_to_be_done(plan_of: PlanOf, status: str) -> None:
    plan = plan_of("study=smoke", "stop_at_target=true")  # four trials of 4,096
    with Progress(plan, Console(file=io.StringIO(), force_terminal=False)) as progress:
        for trial in plan.trials[:2]:
            progress.on_event(trial, Reported(env_steps=1024, metrics={"throughput/env_steps_per_s": 10.0}))
        progress.on_event(plan.trials[0], Ended(status=status, env_steps=1024))
        shown = printed(progress._render())
    assert "1,024/4,096" in shown
    assert "4,096/4,096" not in shown
    assert "15% of the env steps" in shown  # 2,048 of 4 x 4,096 - 3,072


def test_the_time_left_counts_on_no_pause(plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, console = plan_of("study=smoke"), Console(file=io.StringIO(), force_terminal=False)  # four trials of 4,096
    with Progress(plan, console) as progress:
        now, unpaused = time.monotonic(), unpaused_s()
        monkeypatch.setattr("experiments.study.progress.time.monotonic", lambda: now + 400)
        monkeypatch.setattr("experiments.study.progress.unpaused_s", lambda: unpaused + 100)
        progress.on_event(
            plan.trials[0], Reported(env_steps=4096, metrics={"throughput/env_steps_per_s": 10.0})
        )  # a quarter
        shown = printed(progress._render())
    assert (
        f"{duration(400)} so far, about 3 to 9 min left" in shown
    )  # 300 s, by one trial of three that have not begun, and the end


def test_trials_to_come_are_taken_to_end_as_early_as_those_that_ended(
    plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of("study=smoke", "stop_at_target=true")  # four trials of 4,096
    console = Console(file=io.StringIO(), force_terminal=False)
    with Progress(plan, console) as progress:
        unpaused = unpaused_s()
        monkeypatch.setattr("experiments.study.progress.unpaused_s", lambda: unpaused + 30)
        assert "time left not known yet" in printed(progress._render())
        for trial in plan.trials[:3]:
            progress.on_event(trial, Reported(env_steps=1024, metrics={"throughput/env_steps_per_s": 10.0}))
            progress.on_event(trial, Ended(status=FINISHED, env_steps=1024))
        assert "about 13 to 27 s left" in printed(progress._render())


def test_a_search_may_be_over_when_its_least_trials_are(plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("search=racing", "study.space={algorithm.training.lr:[1e-3,3e-3,1e-2,3e-2]}", "seeds=[0,1,2]")
    assert plan.search is not None and plan.search.least_learning == (4, 5)
    trials, began, budget = StudyTrials(plan), unpaused_s(), plan.suite.budget_env_steps
    with Progress(plan, Console(file=io.StringIO(), force_terminal=False)) as progress:
        for i, configuration in enumerate(plan.configurations[:4]):
            trial = trials.take(Ask(configuration.point, 0))
            monkeypatch.setattr("experiments.study.progress.unpaused_s", lambda i=i: began + 30 * (i + 1))
            progress.on_event(trial, reported(budget, progress_of_train_s=30.0, progress_of_wall_s=30.0))
            progress.on_event(trial, Ended(status=FINISHED, env_steps=budget))
        assert progress._least_left() == 5 * budget
        assert re.search(r", about \d+ to \d+ min left", progress.overall()), progress.overall()


def reported(env_steps: int, **metrics: float) -> Reported:
    named = {name.replace("_of_", "/"): value for name, value in metrics.items()}
    return Reported(env_steps=env_steps, metrics={"throughput/env_steps_per_s": 10.0, **named})


def test_the_start_and_the_final_evaluations_are_no_training(plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four trials of 4,096 env steps, one at a time: 20 s until training begins, and then 10 s a trial, of which each
    of two evaluations of 5 episodes takes 1 s; the final one of 20 takes 4 s.
    """
    words = ("env=pendulum", "evaluation.episodes=5", "evaluation.final_episodes=20")
    plan = plan_of("study=smoke", "hardware.max_concurrent_trials=1", *words)
    console, began = Console(file=io.StringIO(), force_terminal=False), unpaused_s()
    with Progress(plan, console) as progress:

        def at(seconds: float, event: Reported | Ended, trial: int = 0) -> str:
            monkeypatch.setattr("experiments.study.progress.unpaused_s", lambda: began + seconds)
            progress.on_event(plan.trials[trial], event)
            return progress.overall()

        at(25, reported(2048, progress_of_train_s=4.0, progress_of_wall_s=7.0, time_of_evaluation_share=0.2))
        half = at(30, reported(4096, progress_of_train_s=8.0, progress_of_wall_s=12.0, time_of_evaluation_share=0.2))
        assert progress._before_training_s == pytest.approx(20, abs=0.1)
        # 4 s of this one, three of 10 + 4 s, and the end of the study
        assert progress._scoring_s() == pytest.approx((0, 16))
        assert "about 38 to 80 s left" in half, half
        scored = at(34, Ended(status=FINISHED, env_steps=4096, metrics={**final(7.0), "final/wall_s": 16.0}))
        assert progress._scoring_s() == pytest.approx((4, 12))
        assert "about 35 to 75 s left" in scored, scored


def test_the_time_left_is_unknown_when_a_study_goes_on(plan_of: PlanOf) -> None:
    plan = plan_of("study=smoke", "stop_at_target=true")
    progress = Progress(plan, Console(file=io.StringIO(), force_terminal=False))
    for trial in plan.trials[:3]:  # of an earlier execution
        progress.on_event(trial, Reported(env_steps=1024, metrics={"throughput/env_steps_per_s": 10.0}))
        progress.on_event(trial, Ended(status=FINISHED, env_steps=1024))
    with progress:
        progress.on_event(plan.trials[3], Started())
        assert "time left not known yet" in progress.overall()


def test_how_far_each_trial_came_is_known_without_mlflow(plan_of: PlanOf) -> None:
    plan, outcomes = plan_of("study=smoke", "stop_at_target=true"), Outcomes()
    for trial in plan.trials[:2]:
        outcomes.on_event(trial, Reported(env_steps=1024, metrics={"throughput/env_steps_per_s": 10.0}))
    outcomes.on_event(plan.trials[0], Ended(status=FINISHED, env_steps=2048, metrics=final(500.0, 1024)))
    runs = evidence_of(plan_record(StudyTrials(plan)), [outcomes.of(trial) for trial in plan.trials]).runs
    assert runs["end_env_steps"].tolist() == [2048, 1024, 0, 0]
    assert runs["status"].tolist() == ["finished", *["interrupted"] * 3]


def test_a_search_with_a_limit_gives_others_what_trials_leave_of_their_budgets(plan_of: PlanOf) -> None:
    limit = ("scheduler=asha", "max_env_steps=40960")
    plan = plan_of("study=smoke", *limit, "confirmation.top=1", "confirmation.seeds=[1000]")
    assert plan.num_trials == plan.search.outline.most_trials  # more than 40,960 / 4,096 may begin
    total = plan.env_steps_in_all()
    assert [plan.env_steps_in_all(unused) for unused in (0, total - 4096)] == [total, 4096]
    limited = plan_of("study=smoke", *limit, "seeds=[0,1,2,3,4,5,6,7,8,9]")
    assert (limited.num_trials > 20, limited.env_steps_in_all(), limited.env_steps_in_all(4096)) == (True, 40960, 40960)
