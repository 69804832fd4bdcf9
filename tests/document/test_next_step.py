"""What to do next: which configurations on how many fresh seeds, at what cost, by which command."""

import math
import shlex
from dataclasses import replace

import pytest

from analysis.document.answer import answers
from analysis.document.command_line import hydra_value
from analysis.document.conclusions import steps_of
from analysis.document.next_step import NextStep, StudyCommand, next_step
from analysis.evidence import Evidence
from analysis.questions.decision import decide
from tests.support.study_frames import TARGET, Values, make_runs, together

COMMAND = (
    "python experiments/run.py hardware=laptop study.space={} seeds=[0,1,2] algorithm.training.lr=1 "
    "dry_run=true study.key=night"
)
ASKED = StudyCommand("0123", COMMAND, at_once=2)


def step_of(scores: Values, asked: StudyCommand = ASKED, target: float = TARGET) -> NextStep:
    runs = make_runs(scores, target=target)  # a trial takes 110 s
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
        },
        target=math.nan,
    )
    words = shlex.split(step.command)
    (seeds,) = [int(w.partition("=")[2]) for w in words if w.startswith("confirm.num_seeds=")]
    assert 5 < seeds <= 20
    assert step.sentence == (
        f"To tell them apart, if they differ by 10 in score: 2 configurations on {seeds} fresh seeds, "
        f"about {2 * seeds * 110 / 2 / 60:.0f} min."
    )
    assert words[2:4] == ["confirm=0123", "confirm.with=leaders"]


def test_a_winner_and_ties_that_no_number_of_seeds_separates_are_tried_by_themselves() -> None:
    step = step_of({"a": [480.0, 481.0, 482.0], "b": [1.0, 2.0, 3.0]})
    assert step.sentence == "To confirm it: 5 fresh seeds, about 5 min."
    assert step.command == "python experiments/run.py confirm=0123"
    step = step_of({"a": [300.0, 400.0, 200.0], "b": [400.0, 200.0, 300.5]}, target=math.nan)
    assert step.sentence.startswith(
        "To tell a difference of 10 in score from `a` takes more than 20 seeds each. To confirm"
    )


def test_a_study_that_is_not_whole_goes_on_first() -> None:
    runs = make_runs({"a": [480.0, 481.0, 482.0], "b": [1.0, 2.0, 3.0]})
    runs.loc[4:, "status"] = ["interrupted", "missing"]
    (decision,) = decide(runs)
    assert next_step(decision, runs, ASKED) == NextStep(
        "To go on: 2 trials did not finish", "python experiments/run.py resume=0123"
    )


def test_where_nobody_reached_the_target_it_trains_longer_with_the_studys_other_settings() -> None:
    step = step_of({"a": [300.0, 310.0, 305.0], "b": [100.0, 110.0, 105.0]})
    assert step.sentence == (
        "To reach the target: other settings, or a longer training. With twice the env steps, about 11 min."
    )
    assert step.command == (
        "python experiments/run.py hardware=laptop 'study.space={}' 'seeds=[0,1,2]' algorithm.training.lr=1 "
        "budget_env_steps=200000"
    )


def test_environments_that_take_one_command_have_one_step() -> None:
    runs = together(
        make_runs({"a": [480.0, 481.0, 482.0], "b": [1.0, 2.0, 3.0]}),
        make_runs({"c": [480.0, 481.0, 482.0], "d": [1.0, 2.0, 3.0]}, env="acrobot"),
    )
    (step, nothing) = steps_of(answers(Evidence(runs)), runs, ASKED)
    assert nothing is None
    assert step is not None
    assert step.sentence == "To confirm it: 5 fresh seeds, about 9 min."  # 2 x 5 x 110 s, two at once


def test_where_nothing_finished_there_is_no_next_step() -> None:
    runs = make_runs({"a": [480.0]}).assign(status="failed")
    (decision,) = decide(runs)
    assert next_step(decision, runs, ASKED) is None


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("", "python experiments/run.py confirm=0123"),
        (
            "python experiments/run.py --config-dir own study=ours output_dir='/a folder' seeds=[1]",
            "python experiments/run.py confirm=0123 'output_dir=/a folder'",
        ),
        (
            "python /suite/experiments/run.py --config-dir own tracking=team +hardware.address=auto",
            "python /suite/experiments/run.py --config-dir own confirm=0123 tracking=team +hardware.address=auto",
        ),
    ],
)
def test_the_command_says_where_the_study_is_kept_and_where_it_ran(command: str, expected: str) -> None:
    assert replace(ASKED, command=command).run("confirm=0123") == expected


@pytest.mark.parametrize("value", [None, True, 0.001, [1, 2], {"fcnet_hiddens": [64, 64]}, "relu"])
def test_values_of_any_kind_survive_the_command_line(value: object) -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    assert OverridesParser.create().parse_override(f"a.b={hydra_value(value)}").value() == value
