"""Which settings carry over, in words, on a page and as a command."""

import shlex
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from analysis.document.terminal import WIDTH
from analysis.document.transfer import Page as TransferPage
from analysis.document.transfer import page, sentences, source_of, trial
from analysis.load import Study
from analysis.questions.shared_settings import Source
from analysis.questions.transfer import Transfer, transfer
from analysis.transfer import main
from tests.support.commands import assert_refused
from tests.support.report_pages import Page, study_of
from tests.support.several_studies import BATCH, LR, peak, source
from tests.support.study_frames import make_search, with_status


def of(*sources: Source) -> Transfer:
    return transfer(sources, "score", np.random.default_rng(0))


def said(found: Transfer) -> str:
    return " ".join(sentences(found))


def values(letter: str, at: float, env: str, **more: Any) -> Source:
    return source(letter, peak(at), env, as_values=True, **more)


def study(of_source: Source) -> Study:
    return study_of(of_source.runs, axes=tuple(of_source.axes))


def shown(*sources: Source) -> TransferPage:
    studies = {one.letter: study(one) for one in sources}
    return page(of(*sources), studies, "score", "python analysis/transfer.py 'studies=[a,b]'")


def in_short(found: TransferPage) -> str:
    """What the terminal shows, without its line breaks."""
    assert max(map(len, found.lines[:-1])) <= WIDTH  # the last is a command to copy
    return " ".join(" ".join(found.lines).split())


ALIKE = (values("A", 3e-3, "cartpole"), values("B", 3e-3, "acrobot"), values("C", 3e-3, "pendulum"))
APART = (values("A", 3e-4, "cartpole"), values("B", 3e-2, "acrobot"))


def test_what_to_try_first_and_what_it_is_expected_to_cost_come_first() -> None:
    first, cost, verdict, *rest = sentences(of(*ALIKE))
    assert first == "Try `lr=0.003 b=512` first on a new environment."
    assert cost.startswith("It is expected to cost 0.000 [0.000, 0.000] against the environment's own best; a setting ")
    assert "These are means over 3 environments, each left out in turn" in cost
    assert verdict.startswith("The order of settings carries over: mean rank correlation 0.9")
    assert verdict.endswith("over 3 pairs, 10 settings, 6 seeds each or more.")
    assert rest[0].startswith("Taken over alone, the rest tuned: `lr` costs 0.000")
    assert not any("below 0" in sentence for sentence in rest)


def test_what_does_not_carry_over_is_said_so() -> None:
    text = said(of(*APART))
    assert "The order of settings turns around: rank correlation -0.9" in text
    assert "The choice of the others is significantly worse than its own best in cartpole (0.6" in text


def test_where_nothing_is_seen_the_seeds_own_agreement_says_why() -> None:
    noise = [source(letter, lambda *_: 200.0, env, noise=60.0) for letter, env in (("A", "cartpole"), ("B", "acrobot"))]
    text = said(of(*noise))
    assert "It is expected to cost -0." in text and "Take a cost below 0 as none" in text
    assert "There is no sign that the order of settings carries over: rank correlation " in text
    assert "Between halves of its own seeds it is " in text and " in cartpole and " in text


def test_the_form_that_carries_better_is_told_where_both_are_there() -> None:
    own = ((1e-3, "A", "cartpole"), (1e-2, "B", "acrobot"), (1e-3, "C", "pendulum"))
    found = of(*(source(letter, peak(best), env, base=(best, 2048)) for best, letter, env in own))
    text = said(found)
    assert "Try `learning_rate=x1 batch_size=x0.25`, multiples of its own settings, first on a new environment." in text
    assert ": as multiples (10 settings) 0.000 [0.000, 0.000] and as values (6 settings) 0." in text
    same = of(*(source(letter, peak(1e-3), env, base=(1e-3, 2048)) for _, letter, env in own))
    assert said(same).endswith("As values and as multiples the settings pair alike: all start from the same.")


def test_the_page_and_the_short_form_say_it() -> None:
    found = shown(*ALIKE)
    told = Page(found.html)
    assert told.open == [] and told.links == []
    lines = in_short(found)
    for text in (told.text, lines):
        assert "Try lr=0.003 b=512 first" in text
        assert "rl-scaling run algorithm=ppo env=ENV" in text
    assert "its own halves" in told.text
    assert "0 to 475" in told.text
    assert "python analysis/transfer.py 'studies=[a,b]'" in told.text
    assert "Spearman's" in told.text
    assert found.lines[0] == "A           hand/ppo-cartpole, 0123456789abcdef"
    assert "left out cartpole: the others choose lr=0.003 b=512, which costs 0.000" in lines
    assert "pairs cartpole and acrobot: rank correlation 0.9" in lines
    assert " mind " not in lines  # three environments, six seeds, ten settings that ran in all


def test_what_limits_the_conclusions_is_said() -> None:
    wide = values("B", 0.3, "pendulum", factors=(0.1, 1.0, 100.0), num_seeds=3)
    found = in_short(shown(values("A", 3e-3, "cartpole"), wide))
    assert "mind Two environments say little of a third" in found
    assert "3 seeds of a setting are few" in found
    assert "4 settings ran everywhere, of 10 in cartpole and 6 in pendulum" in found
    shorter = values("B", 3e-3, "cartpole", budget_env_steps=20_000)
    budgets = in_short(shown(values("A", 3e-3, "cartpole"), shorter))
    assert "100,000 env steps and 20,000 env steps have seeds in common" in budgets
    runs = values("A", 3e-3, "cartpole").runs
    broken = with_status(runs, runs["config"].iloc[0], [0], "failed")
    assert "missing A: 1 of 60 trials failed (out of memory)" in in_short(
        shown(replace(ALIKE[0], runs=broken), ALIKE[1])
    )


def space_of(command: str) -> Any:
    *given, space = shlex.split(command)
    assert given[:2] == ["rl-scaling", "run"]
    return OverridesParser.create().parse_override(space).value()


def test_the_command_tries_the_setting_on_what_is_new() -> None:
    found = trial(of(*ALIKE))
    assert found.startswith("rl-scaling run algorithm=ppo env=ENV ")
    assert space_of(found) == {LR: [0.003], BATCH: [512]}
    budgets = of(source("A", peak(3e-3)), source("B", peak(3e-3), budget_env_steps=20_000))
    found = trial(budgets)
    assert found.startswith("rl-scaling run algorithm=ppo env=cartpole budget_env_steps=BUDGET ")
    assert space_of(found) == {
        "learning_rate": {"distribution": "multiples", "factors": [1.0]},
        "batch_size": {"distribution": "multiples", "factors": [0.25]},
    }


def test_of_a_grid_the_whole_design_is_compared_and_of_a_search_what_confirms_it() -> None:
    fixed = study(ALIKE[0])
    assert len(source_of("A", fixed, {}).runs) == len(fixed.runs)
    search = study_of(make_search({"a": [1.0, 2.0], "b": [3.0, 4.0]}, {"b": [5.0, 6.0], "a": [1.0, 2.0]}))
    assert set(source_of("A", search, {}).runs["phase"]) == {"confirm"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "studies= names no study: give two or more that searched the same settings"),
        (["studies=[]"], "studies= names no study"),
        (["studies=[a,b]", "measure=return"], "measure=return: must be score or auc"),
        (["study=a"], "Did you mean studies=?"),
        (["studies=[a,b]", "tracking_uri=sqlite:////nowhere/mlflow.db"], "/nowhere/mlflow.db"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(main, arguments, message, capsys)
