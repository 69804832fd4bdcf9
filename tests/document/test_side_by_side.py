"""The page of several studies and its short form."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from analysis.document.side_by_side import build, side_of
from analysis.document.terminal import WIDTH
from analysis.load import Study
from tests.support.report_pages import Page, learning, study_of
from tests.support.study_frames import make_runs, with_status

LRS = {"lr": {"lr=1e-3": 1e-3, "lr=1e-2": 1e-2}}
RECORD = {
    "algorithm": {"name": "ppo", "training": {"lr": None, "num_epochs": 6}},
    "env": {"name": "cartpole", "id": "CartPole-v1", "env_config": {}, "target": 475.0, "extra": None},
    "budget_env_steps": 100_000,
    "report_every_env_steps": 50_000,
    "evaluation": {"episodes": 20, "final_episodes": 100, "every_env_steps": None},
    "stop_at_target": False,
    "seed": 0,
    "label": "x",
    "checkpoint": {"every_env_steps": 25_000, "keep": 1},
}


def study(name: str, scores: dict[str, list[float]], **changed: Any) -> tuple[Study, dict[str, Any]]:
    runs = make_runs(scores, params=LRS)
    runs["config_id"] = f"{name}-" + runs["config_id"]
    found = replace(
        study_of(runs, learning(runs), ("lr",)), name=name, experiment=f"{name}/ppo-cartpole", run_id=f"{name}00000000"
    )
    training = {"num_epochs": changed.pop("num_epochs", 6)}
    record = {
        config: {**RECORD, **changed, "algorithm": {"name": "ppo", "training": {"lr": LRS["lr"][config], **training}}}
        for config in scores
    }
    return found, record


def compared(*studies: tuple[Study, dict[str, Any]]) -> Any:
    sides = [
        side_of(chr(65 + i), of, record, {"search": {"name": "grid"}, "output_dir": "x"})
        for i, (of, record) in enumerate(studies)
    ]
    return build([of for of, _ in studies], sides)


ONE = study("one", {"lr=1e-3": [480.0, 490.0, 485.0], "lr=1e-2": [100.0, 120.0, 110.0]})
TWO = study("two", {"lr=1e-3": [380.0, 390.0, 386.0], "lr=1e-2": [200.0, 220.0, 215.0]}, num_epochs=3)


def test_a_limit_that_is_not_set_is_as_one_that_an_earlier_study_did_not_know() -> None:
    of, record = ONE
    limits = {"constraints": {"memory_gib": 4, "hours": None}, "hardware": {"price_per_hour": None, "num_cpus": None}}
    found = side_of("A", of, record, limits).overall
    assert found == {"constraints.memory_gib": 4, "hardware.num_cpus": None}


def test_the_page_and_the_short_form_say_what_differs_and_by_how_much() -> None:
    found = compared(ONE, TWO)
    page, lines = Page(found.html), " ".join(" ".join(found.lines).split())
    assert page.open == []
    assert page.links == []
    assert len(page.images) == 2  # curves, and speeds: all trials ran alone on one machine
    for text in (page.text, lines):
        assert "A recommends lr=1e-3, B lr=1e-3." in text
        assert "A minus B in mean score: +99.7 [" in text
        assert "3 common seeds, paired" in text
        assert "A samples 1.00 " in text
    assert "algorithm.training.num_epochs: A 6; B 3" in lines
    assert "keep" not in lines
    assert "A minus B in mean env steps to target: -50,000, no test: too few seeds, or none of them vary" in lines
    assert "A and B share 2 configurations; 2 of 5 comparisons" in lines  # no seed varies in its env steps to target
    assert "significantly different (p < 0.001)" in lines
    assert "flatters" in lines
    assert "one/ppo-cartpole" in page.text


@pytest.mark.parametrize("studies", [(ONE, TWO), (ONE, TWO, ONE)])
def test_the_short_form_fits_a_terminal_of_80_columns(studies: tuple[tuple[Study, dict[str, Any]], ...]) -> None:
    assert max(map(len, compared(*studies).lines)) <= WIDTH == 80


def test_what_is_not_compared_is_said_once_with_its_reason() -> None:
    other, record = study(
        "two", {"lr=1e-3": [380.0, 390.0, 386.0], "lr=1e-2": [200.0, 220.0, 215.0]}, budget_env_steps=5
    )
    packed = replace(other, runs=other.runs.assign(exclusive=False), provenance={**other.provenance, "commit": "def"})
    found = compared(ONE, (packed, record))
    text = " ".join(" ".join(found.lines).split())
    assert text.count("Not compared between A and B: score, since scores are of policies after different budgets") == 1
    assert text.count("env steps/s, since trials of B ran side by side") == 1
    assert "commit: A abc123; B def" in text
    assert "A minus B in mean score" not in text
    assert "not compared" in Page(found.html).text  # in the table, where the two numbers stand
    assert "380" not in text.partition("recommends")[0]


def test_studies_that_share_nothing_say_what_can_still_be_shown() -> None:
    other, record = study(
        "two", {"lr=1e-3": [-90.0, -95.0]}, env={**RECORD["env"], "name": "acrobot", "id": "Acrobot-v1"}
    )
    other = replace(other, runs=other.runs.assign(env="acrobot", target=-100.0))
    text = " ".join(" ".join(compared(ONE, (other, record)).lines).split())
    assert "they share no environment (A cartpole; B acrobot)" in text
    assert "A and B share no configuration" in text
    assert "recommends lr=1e-3: score -92.5" in text  # each by itself


def test_one_configuration_that_came_out_the_same_is_no_difference_with_an_interval() -> None:
    again = replace(ONE[0], name="again", experiment="again/ppo-cartpole", run_id="again000")
    text = " ".join(" ".join(compared(ONE, (again, ONE[1])).lines).split())
    assert (
        "Score: the same in A and B seed for seed, 3 common seeds; it is one configuration to the last setting." in text
    )
    assert "A minus B" not in text


def test_what_failed_and_other_seeds_are_said() -> None:
    failed = with_status(ONE[0].runs, "lr=1e-3", [2], "failed")
    other = replace(
        ONE[0], runs=failed.assign(seed=failed["seed"] + 10), status="running", curves=learning(failed).iloc[:0]
    )
    text = " ".join(" ".join(compared((other, ONE[1]), TWO).lines).split())
    assert "missing A: 1 of 6 trials failed (out of memory): lr=1e-3 s=12." in text
    assert "A has 10, 11, 12 and B has 0, 1, 2" in text
    assert "2 seeds against 3, unpaired" in text
    assert "A is running" in text


def test_a_study_without_an_answer_is_shown_beside_one_that_has_one() -> None:
    nothing = with_status(ONE[0].runs, "lr=1e-3", [0, 1, 2], "running")
    nothing = with_status(nothing, "lr=1e-2", [0, 1, 2], "running")
    found = compared((replace(ONE[0], runs=nothing, curves=learning(nothing)), ONE[1]), TWO)
    assert "No recommendations can be compared: A has no answer yet" in " ".join(" ".join(found.lines).split())
    assert Page(found.html).open == []


def test_without_any_record_of_settings_nothing_is_compared() -> None:
    text = " ".join(" ".join(compared((ONE[0], {}), (TWO[0], {})).lines).split())
    assert "since A and B ran with settings that were not recorded" in text


def test_throughput_studies_are_compared_by_their_speed_alone() -> None:
    def measured(of: Study, speeds: list[float]) -> Study:
        runs = of.runs.assign(phase="throughput", env_steps_per_s=speeds, score=float("nan"), target=float("nan"))
        return replace(of, runs=runs, curves=pd.DataFrame(of.curves.iloc[:0]))

    fast = (measured(ONE[0], [2000.0, 2100.0, 1900.0, 900.0, 950.0, 920.0]), ONE[1])
    slow = (measured(TWO[0], [1000.0, 1050.0, 950.0, 500.0, 520.0, 490.0]), TWO[1])
    found = compared(fast, slow)
    text = " ".join(" ".join(found.lines).split())
    assert "A samples 2.00 [" in text
    assert "score and env steps to target, since both measured throughput in place of training" in text
    assert "not reached" not in text
    assert len(Page(found.html).images) == 1
