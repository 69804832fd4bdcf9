"""The answer in words, and the command that tries it."""

import shlex

import numpy as np
import pytest

from analysis.document.answer import answers, best_metrics, caveats, closing_table, recommended_command
from analysis.questions.decision import decide
from experiments.planning.record import plan_record
from experiments.planning.resources import Cluster, Node
from experiments.planning.trials import StudyTrials
from tests.support.study_frames import make_runs, together, with_status
from tests.support.suite import PlanOf

LRS = {"lr": {"a": 1e-4, "b": 1e-3, "c": 1e-2}}
COMMAND = "python experiments/run.py hardware=laptop study.space={} seeds=[0,1,2] algorithm.training.lr=1 dry_run=true"


def test_a_clear_winner_is_told_apart_from_all_others() -> None:
    runs = make_runs({"a": [480.0, 482.0, 481.0, 479.0, 483.0], "b": [100.0, 101.0, 99.0, 98.0, 102.0]})
    (answer,) = answers(runs)
    assert answer.headline == "Use `a`."
    assert "5 of 5 seeds reach the target of 475" in answer.because
    assert "significantly different from all others" in answer.certainty
    assert "The runner-up is `b`, 381 below it on average." in answer.certainty  # 481 - 100


def test_saturated_scores_say_that_env_steps_decided() -> None:
    steps = {"a": [20_000.0, 21_000.0, 22_000.0], "b": [60_000.0, 61_000.0, 59_500.0]}
    (answer,) = answers(make_runs({"a": [500.0] * 3, "b": [500.0] * 3}, env_steps_to_target=steps))
    assert answer.headline == "Use `a`."
    assert (
        "2 configurations reach the target, and their scores are not significantly different: env steps to target decide" in answer.because
    )
    assert "It takes 21,000 [" in answer.because


def test_ties_are_named_with_the_seeds_that_would_settle_them() -> None:
    runs = make_runs({"a": [300.0, 360.0, 310.0], "b": [310.0, 330.0, 300.0], "c": [320.0, 310.0, 305.0]})
    (answer,) = answers(runs)
    assert answer.certainty.startswith("It is not significantly different from `")
    assert "more seeds each" in answer.certainty


@pytest.mark.parametrize("status", ["failed", "running", "interrupted", "missing"])
def test_without_a_finished_trial_there_is_no_answer_and_no_crash(status: str) -> None:
    runs = with_status(make_runs({"a": [1.0, 2.0]}), "a", [0, 1], status)
    (answer,) = answers(runs)
    assert answer.headline == "No answer: no trial finished."
    assert closing_table(runs, [])["num_seeds"].tolist() == [0]
    assert caveats(runs, decide(runs), []) == []


def test_one_configuration_is_not_called_a_choice() -> None:
    (answer,) = answers(make_runs({"a": [480.0, 470.0]}))
    assert answer.headline == "`a` is the only configuration."
    assert "1 of 2 seeds reach the target" in answer.because


def test_several_environments_have_an_answer_each() -> None:
    runs = together(make_runs({"a": [1.0, 2.0], "b": [3.0, 4.0]}), make_runs({"c": [1.0, 2.0], "d": [0.0, 1.0]}, env="acrobot"))
    assert [a.headline.split(":")[0] for a in answers(runs)] == ["On cartpole", "On acrobot"]
    assert closing_table(runs, [])["config"].tolist() == ["b", "a", "c", "d"]


def test_the_closing_table_marks_leaders_and_the_chosen_and_comes_best_first() -> None:
    table = closing_table(make_runs({"a": [10.0] * 5, "b": [481.0, 480.0, 479.0, 482.0, 478.0]}), [])
    assert table["config"].tolist() == ["b", "a"]
    assert table["chosen"].tolist() == [True, False]
    assert table["leader"].tolist() == [True, False]


def test_the_best_metrics_are_finite_and_of_the_chosen_one() -> None:
    metrics = best_metrics(closing_table(make_runs({"a": [10.0], "b": [480.0]}), []))
    assert metrics["best/score"] == 480.0
    assert metrics["best/num_seeds"] == 1
    assert "best/score_low" not in metrics  # one seed has no interval
    assert all(np.isfinite(v) for v in metrics.values())


def said(*words: str, sentences: list[str]) -> bool:
    return any(all(word in sentence for word in words) for sentence in sentences)


def test_caveats_name_few_seeds_censored_runs_shared_machines_and_edges() -> None:
    runs = make_runs({"a": [480.0, 481.0], "b": [480.0, 400.0], "c": [1.0, 2.0]}, exclusive=False, params=LRS)
    found = caveats(runs, decide(runs), ["lr"])
    assert said("2 seeds are few", sentences=found)
    assert said("3 of 6 finished trials never hold the target", "lower bounds", sentences=found)
    assert said("shared the machine", sentences=found)
    assert said("lr = 0.0001 is the smallest", sentences=found)


def test_caveats_are_silent_where_there_is_nothing_to_say() -> None:
    runs = make_runs({"a": [480.0, 481.0, 482.0, 479.0, 478.0]})
    assert caveats(runs, decide(runs), []) == []


def test_seeds_that_all_end_alike_are_no_certainty() -> None:
    runs = make_runs({"a": [500.0] * 5})
    assert said("cannot be estimated", "at least 57%", sentences=caveats(runs, decide(runs), []))  # Wilson: 5 / (5 + 1.96^2)


def test_non_finite_scores_are_left_out_and_said() -> None:
    runs = make_runs({"a": [480.0, np.nan], "b": [10.0, np.inf]})
    assert said("2 configurations", "without a finite score", sentences=caveats(runs, decide(runs), []))


def test_the_recommended_command_keeps_the_studys_settings_and_replaces_what_it_chooses() -> None:
    words = shlex.split(recommended_command(COMMAND, {"algorithm.training.lr": 1e-3, "algorithm": "ppo"}, "lr_batch", [0, 1, 2]))
    assert words[:2] == ["python", "experiments/run.py"]
    assert words[2:] == [
        "hardware=laptop",
        "algorithm.training.lr=0.001",
        "algorithm=ppo",
        "study.space={}",
        "study.name=lr_batch-confirm",
        "seeds=[3,4,5,6,7]",
    ]


STUDIES = ((), ("study=smoke", "algorithm=impala"), ("env=acrobot", "study=lr_rules"), ("study=algorithms",))


@pytest.mark.parametrize("study", STUDIES, ids=" ".join)
@pytest.mark.parametrize("num_cpus", [2, 16, 64])
def test_the_recommended_command_runs_the_same_configuration_on_any_machine(plan_of: PlanOf, study: tuple[str, ...], num_cpus: int) -> None:
    """The id is a hash of everything that can change a result: the command gives the very configuration that was studied."""
    plan = plan_of(*study, cluster=Cluster((Node(num_cpus, 0),)))
    for recorded in plan_record(StudyTrials(plan))["configurations"][::4]:
        command = recommended_command(
            shlex.join(["python", "experiments/run.py", *study]), {**recorded["point"], **recorded["planned"]}, plan.study, plan.seeds
        )
        (alone,) = plan_of(*shlex.split(command)[2:], cluster=Cluster((Node(64, 0),))).configurations
        assert alone.config_id == recorded["config_id"]


def test_equal_numbers_are_one_configuration(plan_of: PlanOf) -> None:
    ids = {plan_of("study.space={}", f"hardware.num_gpus_per_learner={zero}").configurations[0].config_id for zero in ("0", "0.0")}
    ids |= {plan_of("study.space={}", *said).configurations[0].config_id for said in ((), ("hardware.num_gpus=0",))}
    assert len(ids) == 1


@pytest.mark.parametrize("value", [None, True, 0.001, [1, 2], {"fcnet_hiddens": [64, 64]}, "relu"])
def test_values_of_any_kind_survive_the_command_line(value: object) -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    words = shlex.split(recommended_command("python experiments/run.py", {"a.b": value}, "s", [0]))
    (override,) = [w for w in words if w.startswith("a.b=")]
    assert OverridesParser.create().parse_override(override).value() == value
