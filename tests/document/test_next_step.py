"""What to do next: which configurations on how many fresh seeds, at what cost, by which command."""

import shlex
from dataclasses import replace

import pytest

from analysis.document.next_step import NextStep, StudyCommand, command_for, next_step
from analysis.questions.decision import decide
from experiments.planning.machines import Cluster, Node
from experiments.planning.record import plan_record
from experiments.planning.trials import StudyTrials
from tests.support.study_frames import Values, make_runs
from tests.support.suite import RULES, PlanOf

COMMAND = (
    "python experiments/run.py hardware=laptop study.space={} seeds=[0,1,2] algorithm.training.lr=1 "
    "dry_run=true study.key=night"
)
LR, BATCH = "algorithm.training.lr", "algorithm.training.train_batch_size_per_learner"
POINTS = {
    "a": {LR: 1e-3, BATCH: 512},
    "b": {LR: 1e-2, BATCH: 512},
    "c": {LR: 1e-3, BATCH: 2000},
    "d": {LR: 1e-2, BATCH: 2000},
}
ASKED = StudyCommand("lr_batch", COMMAND, POINTS, [0, 1, 2], at_once=2)


def step_of(scores: Values, asked: StudyCommand = ASKED) -> NextStep:
    runs = make_runs(scores)  # a trial takes 110 s
    (decision,) = decide(runs)
    step = next_step(decision, runs, asked)
    assert step is not None
    return step


def test_ties_that_a_few_seeds_can_tell_apart_run_again_on_fresh_seeds_and_nothing_else_does() -> None:
    step = step_of(
        {
            "a": [300.0, 315.0, 322.0, 304.0],
            "b": [298.0, 300.0, 303.0, 300.0],
            "c": [100.0, 105.0, 110.0, 95.0],
            "d": [90.0, 95.0, 85.0, 99.0],
        }
    )
    words = shlex.split(step.command)
    (seeds,) = [len(w.split(",")) for w in words if w.startswith("seeds=[3,4,5")]
    assert 5 <= seeds <= 20
    assert step.sentence == (
        f"To tell them apart, if they differ by 10 in score: 2 configurations on {seeds} fresh seeds, "
        f"about {2 * seeds * 110 / 2 / 60:.0f} min."
    )
    assert f"study.space={{{LR}:[0.001,0.01]}}" in [w.replace("0.01,0.001", "0.001,0.01") for w in words]
    assert f"{BATCH}=512" in words


def test_leaders_that_are_no_grid_are_run_as_the_part_of_it_that_holds_them() -> None:
    # one seed has no spread
    step = step_of({"a": [300.0], "b": [301.0], "c": [299.0], "d": [1.0]}, replace(ASKED, seeds=[0]))
    assert step.sentence.startswith(
        "To tell them apart, if they differ by 10 in score: 4 configurations on 5 fresh seeds"
    )
    step = step_of({"b": [300.0], "c": [301.0]}, replace(ASKED, seeds=[0]))
    assert step.sentence.startswith(
        "To tell them apart, if they differ by 10 in score: 4 configurations (the part of the grid that holds them) "
        "on 5 fresh seeds"
    )


def test_a_winner_and_ties_that_no_number_of_seeds_separates_are_tried_by_themselves() -> None:
    step = step_of({"a": [480.0, 481.0, 482.0], "b": [1.0, 2.0, 3.0]})
    assert step.sentence == "To confirm it: 5 fresh seeds, about 5 min."
    assert "study.space={}" in shlex.split(step.command)
    step = step_of({"a": [300.0, 400.0, 200.0], "b": [400.0, 200.0, 300.5]})
    assert step.sentence.startswith(
        "To tell a difference of 10 in score from `a` takes more than 20 seeds each. To confirm"
    )


def test_without_a_record_of_what_a_configuration_sets_there_is_no_next_step() -> None:
    runs = make_runs({"a": [480.0, 481.0], "b": [1.0, 2.0]})
    (decision,) = decide(runs)
    assert next_step(decision, runs, replace(ASKED, points={})) is None


def test_the_command_keeps_the_studys_settings_and_replaces_what_it_chooses() -> None:
    words = shlex.split(command_for(ASKED, {"algorithm.training.lr": 1e-3, "algorithm": "ppo"}, {}, 5))
    assert words[:2] == ["python", "experiments/run.py"]
    assert words[2:] == [
        "hardware=laptop",
        "algorithm.training.lr=0.001",
        "algorithm=ppo",
        "study.space={}",
        "study.name=lr_batch-confirm",
        "seeds=[3,4,5,6,7]",
    ]


STUDIES = (
    (),
    ("study=smoke", "algorithm=impala"),
    ("env=acrobot", RULES, "confirmation.always=true"),
    ("study=algorithms",),
    ("algorithm=sac", "env=pendulum"),
)


@pytest.mark.parametrize("study", STUDIES, ids=" ".join)
@pytest.mark.parametrize("num_cpus", [2, 16, 64])
def test_the_command_runs_the_same_configuration_on_any_machine(
    plan_of: PlanOf, study: tuple[str, ...], num_cpus: int
) -> None:
    """The id is a hash of everything that can change a result: the command gives the very configuration
    that was studied.
    """
    plan = plan_of(*study, cluster=Cluster((Node(num_cpus, 0),)))
    for recorded in plan_record(StudyTrials(plan))["configurations"][::4]:
        asked = StudyCommand(plan.study, shlex.join(["python", "experiments/run.py", *study]), {}, plan.seeds)
        command = command_for(asked, {**recorded["point"], **recorded["planned"]}, {}, 5)
        (alone,) = plan_of(*shlex.split(command)[2:], cluster=Cluster((Node(64, 0),))).configurations
        assert alone.config_id == recorded["config_id"]


def test_equal_numbers_are_one_configuration(plan_of: PlanOf) -> None:
    ids = {
        plan_of("study.space={}", f"hardware.num_gpus_per_learner={zero}").configurations[0].config_id
        for zero in ("0", "0.0")
    }
    ids |= {plan_of("study.space={}", *said).configurations[0].config_id for said in ((), ("hardware.num_gpus=0",))}
    assert len(ids) == 1


@pytest.mark.parametrize("value", [None, True, 0.001, [1, 2], {"fcnet_hiddens": [64, 64]}, "relu"])
def test_values_of_any_kind_survive_the_command_line(value: object) -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    words = shlex.split(command_for(ASKED, {"a.b": value}, {}, 5))
    (override,) = [w for w in words if w.startswith("a.b=")]
    assert OverridesParser.create().parse_override(override).value() == value
