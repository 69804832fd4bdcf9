"""The answer in words, and the command that tries it."""

import numpy as np
import pandas as pd
import pytest

from analysis.document.answer import answers, best_metrics, closing_table
from analysis.document.caveats import caveats
from analysis.evidence import Evidence
from experiments.contract import RETURN
from tests.support.study_frames import make_runs, together, with_status

LRS = {"lr": {"a": 1e-4, "b": 1e-3, "c": 1e-2}}


def test_a_clear_winner_is_told_apart_from_all_others() -> None:
    runs = make_runs({"a": [480.0, 482.0, 481.0, 479.0, 483.0], "b": [100.0, 101.0, 99.0, 98.0, 102.0], "c": [1.0] * 5})
    (answer,) = answers(Evidence(runs))
    assert (
        answer.headline
        == "Use `a`: 5 of 5 seeds end at 475 or above, after 50,000 env steps. The 2 others are significantly worse."
    )
    assert answer.because.endswith("; it takes 50.0 s of training (mean).")
    # Beta(0.5, 5.5) has 97.5% below 0.379.
    assert (
        " (5 seeds, the worst 479.0); 0 of 5 seeds end below 475 or crash: 0% [0%, 38%] (Jeffreys);"
    ) in answer.because
    assert answer.certainty.startswith("Next best: `b`, score 100.0 [")


def test_a_multiple_of_several_learning_rates_is_spelt_out() -> None:
    rates = {"lr_multiple": {"a": 0.1, "b": 1}, "actor_lr": {"a": 1e-4, "b": 1e-3}, "critic_lr": {"a": 2e-4, "b": 2e-3}}
    (answer,) = answers(Evidence(make_runs({"a": [480.0, 482.0, 481.0], "b": [1.0, 2.0, 3.0]}, params=rates)))
    assert answer.headline.startswith("Use `a` (actor_lr=1e-4, critic_lr=2e-4)")


def test_saturated_scores_say_that_env_steps_decided() -> None:
    steps = {"a": [20_000.0, 21_000.0, 22_000.0], "b": [60_000.0, 61_000.0, 59_500.0]}
    (answer,) = answers(Evidence(make_runs({"a": [500.0] * 3, "b": [500.0] * 3}, env_steps_to_target=steps)))
    assert answer.headline.startswith("Use `a`: 3 of 3 seeds end at 475 or above, after 21,000 [")
    assert answer.headline.endswith(" env steps. The other one that solves it takes significantly longer.")
    assert answer.because.endswith(
        "2 configurations end at the target with scores that tie: env steps to target decide."
    )


def test_where_all_seeds_score_the_same_they_are_counted() -> None:
    (answer,) = answers(Evidence(make_runs({"a": [500.0] * 5, "b": [100.0, 110.0, 90.0, 95.0, 105.0]})))
    assert answer.because.startswith("All 5 seeds score 500.0; 0 of 5 seeds end below 475 or crash: 0% [")


def test_ties_are_named_in_one_line_and_why_this_one_in_the_next() -> None:
    runs = make_runs({"a": [300.0, 360.0, 310.0], "b": [310.0, 330.0, 300.0], "c": [320.0, 310.0, 305.0]})
    (answer,) = answers(Evidence(runs))
    assert answer.headline.endswith(" are not significantly different.")
    assert answer.certainty.startswith("This one, because ")
    assert "with 95% confidence" not in answer.certainty  # all of them are among the leaders


def test_of_several_about_as_good_the_one_that_was_picked_is_told_by_what_is_to_be_expected_of_it() -> None:
    """Means 339, 329, 334 and 331, of ten seeds from one distribution: it was lucky."""
    scores = {c: list(np.random.default_rng(i).normal(330, 40, 10)) for i, c in enumerate("abcd")}
    (answer,) = answers(Evidence(make_runs(scores, target=np.nan)))
    best = max(np.mean(of_seeds) for of_seeds in scores.values())
    assert answer.decision.expected is not None
    assert np.mean(list(scores.values())) - 1e-9 <= answer.decision.expected.estimate < best
    assert f": expected score {answer.decision.expected.estimate:.1f} [" in answer.headline
    assert "fresh seeds are expected to score " in answer.because
    (alone,) = answers(Evidence(make_runs({"a": [400.0, 401.0, 402.0], "b": [10.0, 11.0, 12.0]}, target=np.nan)))
    assert alone.decision.expected is None and ": mean score 401.0 [" in alone.headline


def test_a_target_that_was_held_and_lost_again_is_told_from_one_that_is_held_to_the_end() -> None:
    (answer,) = answers(
        Evidence(make_runs({"a": [500.0, 231.0, 240.0]}, env_steps_to_target={"a": [20_000.0, 21_000.0, np.nan]}))
    )
    assert "held in training by 2 of 3 seeds, at the end by 1" in answer.because
    assert "that takes at least " in answer.because


@pytest.mark.parametrize("status", ["failed", "running", "interrupted", "missing"])
def test_without_a_finished_trial_there_is_no_answer_and_no_crash(status: str) -> None:
    runs = with_status(make_runs({"a": [1.0, 2.0]}), "a", [0, 1], status)
    (answer,) = answers(Evidence(runs))
    assert answer.headline == "No answer: no trial finished."
    assert closing_table(Evidence(runs))["num_seeds"].tolist() == [0]
    assert caveats(Evidence(runs)) == []


def test_scores_that_are_no_numbers_are_no_answer_and_are_said() -> None:
    (answer,) = answers(Evidence(make_runs({"a": [np.nan, np.nan], "b": [np.nan, np.nan]})))
    assert answer.headline == "No answer: no trial ended with a finite score."


def test_crashes_are_counted_and_said() -> None:
    runs = with_status(make_runs({"a": [400.0, 410.0, 405.0], "b": [90.0, 80.0, 85.0]}), "a", [1], "failed")
    (answer,) = answers(Evidence(runs))
    assert "(3 seeds, 1 of which crashed, the worst 0.0)" in answer.because
    assert any(said.startswith("1 trial crashed: ") and "lowest score" in said for said in caveats(Evidence(runs)))


def test_what_has_a_single_seed_is_named_and_not_counted_among_those_that_were_compared() -> None:
    """A study that was ended early."""
    scores = {"a": [454.0, 452.0, 456.0], "b": [200.0, 210.0, 190.0], "c": [474.6], "d": [480.0]}
    runs = together(*(make_runs({config: values}, target=np.nan) for config, values in scores.items()))
    (answer,) = answers(Evidence(runs))
    assert answer.headline.startswith("Use `a`: mean score 454.0 [")
    assert answer.headline.endswith(" over 3 seeds. The other one that was compared is significantly worse.")
    assert answer.certainty.startswith("Next best: `b`")
    assert answer.certainty.endswith("Not compared, with a single seed: `d` and `c`.")


def test_with_one_seed_each_nothing_is_claimed() -> None:
    (answer,) = answers(Evidence(make_runs({"a": [400.0], "b": [300.0]}, target=np.nan)))
    assert (
        answer.headline
        == "The best so far is `a`: score 400.0 over 1 seed. With a single seed each, no difference is shown."
    )
    assert "standard error" not in answer.certainty and "confidence" not in answer.certainty


def test_one_configuration_is_not_called_a_choice() -> None:
    (answer,) = answers(Evidence(make_runs({"a": [480.0, 470.0]})))
    assert answer.headline == "`a` is the only configuration: 1 of 2 seeds end at 475 or above."
    assert answer.because.startswith("Median score 475.0 [470.0, 480.0] (2 seeds, the worst 470.0); ")
    assert "held in training by 1 of 2 seeds" in answer.because
    tried = make_runs({"b": [400.0]}).assign(exploratory=True)
    confirmed = make_runs({"a": [480.0, 470.0]}).assign(exploratory=False)
    (answer,) = answers(Evidence(together(tried, confirmed)))
    assert answer.headline.startswith("`a` is the only one confirmed: ")


def test_several_environments_have_an_answer_each() -> None:
    runs = together(
        make_runs({"a": [1.0, 2.0], "b": [3.0, 4.0]}), make_runs({"c": [1.0, 2.0], "d": [0.0, 1.0]}, env="acrobot")
    )
    assert [a.headline.split(":")[0] for a in answers(Evidence(runs))] == ["On cartpole", "On acrobot"]
    assert closing_table(Evidence(runs))["config"].tolist() == ["b", "a", "c", "d"]


def test_the_closing_table_marks_leaders_and_the_chosen_and_comes_best_first() -> None:
    table = closing_table(Evidence(make_runs({"a": [10.0] * 5, "b": [481.0, 480.0, 479.0, 482.0, 478.0]})))
    assert table["config"].tolist() == ["b", "a"]
    assert table["chosen"].tolist() == [True, False]
    assert table["leader"].tolist() == [True, False]


def test_the_best_metrics_are_finite_and_of_the_chosen_one() -> None:
    metrics = best_metrics(closing_table(Evidence(make_runs({"a": [10.0], "b": [480.0]}))))
    assert metrics["best/score"] == 480.0
    assert metrics["best/num_seeds"] == 1
    assert "best/score_low" not in metrics  # one seed has no interval
    assert (metrics["best/failure_probability"], metrics["best/score_min"]) == (0, 480)
    assert all(np.isfinite(v) for v in metrics.values())


@pytest.mark.parametrize("status", ["missing", "running", "interrupted"])
def test_a_study_that_is_not_whole_says_so_first_and_claims_nothing(status: str) -> None:
    runs = make_runs({"a": [480.0, 482.0, 481.0], "b": [100.0, 101.0, 99.0], "c": [1.0, 2.0, 3.0]})
    runs = with_status(with_status(runs, "c", [0, 1, 2], status), "b", [2], status)
    (answer,) = answers(Evidence(runs))
    assert answer.headline == (
        "Provisional, as 2 of 3 configurations and 5 of 9 trials have data. "
        "The best so far is `a`: 3 of 3 seeds end at 475 or above, after 50,000 env steps."
    )
    assert "significant" not in answer.markdown() and "confidence" not in answer.markdown()


def said(*words: str, sentences: list[str]) -> bool:
    return any(all(word in sentence for word in words) for sentence in sentences)


def test_a_caveat_says_how_many_trials_ended_before_their_budget() -> None:
    runs = make_runs({"a": [500.0, 490.0, 480.0]})
    assert not said("before their budget", sentences=caveats(Evidence(runs)))
    runs.loc[:1, "end_env_steps"] = 30_000
    assert said("2 of 3 finished trials ended at the target, before their budget", sentences=caveats(Evidence(runs)))


def test_caveats_name_few_seeds_censored_runs_shared_machines_and_edges() -> None:
    runs = make_runs({"a": [480.0, 481.0], "b": [480.0, 400.0], "c": [1.0, 2.0]}, exclusive=False, params=LRS)
    found = caveats(Evidence(runs, axes=("lr",)))
    assert said("2 seeds are few", sentences=found)
    assert said("3 of 6 finished trials never hold the target", "lower bounds", sentences=found)
    assert said("shared the machine", sentences=found)
    assert said("lr = 0.0001 is the smallest", sentences=found)


def test_evaluations_that_are_few_or_decide_by_one_or_two_are_said() -> None:
    steps = {"a": [20_000.0, 20_000.0, 21_000.0], "b": [21_000.0, 22_000.0, 22_000.0], "c": [60_000.0] * 3}
    scores = {name: [500.0] * 3 for name in steps}
    runs = make_runs(scores, env_steps_to_target=steps)

    def told(runs: pd.DataFrame, every: int) -> list[str]:
        points = [(run, RETURN, at, 1.0) for run in runs["run_id"] for at in range(every, 100_001, every)]
        curves = pd.DataFrame(points, columns=["run_id", "metric", "env_steps", "value"])
        return [s for s in caveats(Evidence(runs, curves)) if "evaluated" in s]

    (seldom,) = told(runs, 1000)
    assert seldom.startswith("Trials were evaluated seldom: env steps to target are known to 1,000 env steps, and the ")
    assert not told(runs[runs["config"] != "b"], 1000)
    (few,) = told(make_runs({"a": [480.0, 481.0], "b": [1.0, 2.0]}), 25_000)
    assert few.startswith("A trial was evaluated 4 times: env steps to target are known to 25,000 env steps. ")


def test_caveats_name_trials_that_stood_still_with_what_was_left_out() -> None:
    runs = make_runs({"a": [1, 2, 3, 4], "b": [3, 4, 5, 6]}, target=np.nan)
    assert not said("stood still", sentences=caveats(Evidence(runs)))
    runs.loc[[0, 5], "paused_s"] = [199.8, 9.2]
    expected = "2 trials stood still, with the machine or alone, for 9 to 200 s: a s=0, b s=1."
    assert said(expected, "left out of all seconds", sentences=caveats(Evidence(runs)))


def test_caveats_are_silent_where_there_is_nothing_to_say() -> None:
    runs = make_runs({"a": [480.0, 481.0, 482.0, 479.0, 478.0]})
    assert caveats(Evidence(runs)) == []


def test_seeds_that_all_end_alike_are_no_certainty() -> None:
    runs = make_runs({"a": [500.0] * 5})
    # Wilson: 5 / (5 + 1.96^2)
    assert said("cannot be estimated", "at least 57%", sentences=caveats(Evidence(runs)))


def test_non_finite_scores_are_left_out_and_said() -> None:
    runs = make_runs({"a": [480.0, np.nan], "b": [10.0, np.inf]})
    assert said("2 configurations", "without a finite score", sentences=caveats(Evidence(runs)))


def test_where_no_smaller_one_exists_none_may_lie_beyond() -> None:
    scores = {"a": [480.0, 482.0, 481.0], "b": [1.0, 2.0, 3.0], "c": [1.0, 2.0, 0.0]}
    for axis, values, is_edge in (
        ("num_env_runners", (0, 1, 2), False),
        ("num_env_runners", (1, 2, 4), True),
        ("num_envs_per_env_runner", (1, 2, 4), False),
        ("lr", (1e-4, 1e-3, 1e-2), True),
        ("entropy_coeff", (0.0, 0.01, 0.1), False),
    ):
        runs = make_runs(scores, params={axis: dict(zip("abc", values, strict=True))})
        assert any("may lie beyond" in said for said in caveats(Evidence(runs, axes=(axis,)))) == is_edge, axis


def test_others_on_the_machine_of_trials_that_run_alone_are_said() -> None:
    runs = make_runs({"a": [480.0, 482.0], "b": [1.0, 2.0]}, exclusive=True)
    busy, quiet = runs["run_id"].iloc[0], runs["run_id"].iloc[1:]
    curves = pd.DataFrame(
        [(busy, "system/other_cpu_percent", 1000 * i, 117.0) for i in (1, 2)]
        + [(run, "system/other_cpu_percent", 1000, 3.0) for run in quiet],
        columns=["run_id", "metric", "env_steps", "value"],
    )
    (said,) = [s for s in caveats(Evidence(runs, curves)) if s.startswith("Others used the machine")]
    assert "beside 1 trial that ran alone, up to 117% of a core" in said
    assert not [s for s in caveats(Evidence(runs, curves[curves["value"] < 100])) if s.startswith("Others used")]


def test_on_several_kinds_of_machine_seconds_choose_nothing() -> None:
    scores = {"dear": [410.0, 300.0, 350.0, 390.0], "cheap": [395.0, 315.0, 330.0, 398.0]}
    seconds = {"dear": [90.0, 91.0, 92.0, 90.0], "cheap": [50.0, 51.0, 49.0, 50.0]}
    runs = make_runs(scores, train_s=seconds, target=np.nan)
    (alike,) = answers(Evidence(runs.assign(cpu="EPYC")))
    assert "cheapest in training seconds" in alike.certainty
    kinds = runs.assign(cpu=np.where(runs["seed"] % 2, "EPYC", "Xeon"))
    (apart,) = answers(Evidence(kinds))
    assert "seconds of several kinds of machine are not compared" in apart.certainty
    assert "cheapest" not in apart.certainty


def test_where_nobody_reaches_the_target_that_is_said_first_and_every_seed_fails() -> None:
    runs = make_runs({"a": [9.3, 9.4, 9.2], "b": [9.3, 9.2, 9.4]})
    (answer,) = answers(Evidence(runs))
    said = "No seed of any configuration reaches the target of 475, and none of them learns: "
    assert answer.headline.startswith(f"{said}all score about as low as possible. The best is ")
    assert "3 of 3 seeds end below 475 or crash: 100%" in answer.because
