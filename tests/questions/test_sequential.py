"""What a sequential comparison showed, and what the answer makes of it."""

import numpy as np
import pandas as pd

from analysis.document.answer import answers
from analysis.document.sequential import sentences
from analysis.evidence import Evidence
from analysis.questions.decision import decide
from analysis.questions.sequential import Difference, sequential_comparison
from tests.support.study_frames import make_runs, with_status

OF_SEEDS = np.array([-2.0, -1, 0, 1, 2])


def looked(runs: pd.DataFrame, seeds_per_look: int, looks: int, alpha: float = 0.05) -> pd.DataFrame:
    """The same runs as a sequential comparison."""
    return runs.assign(
        comparison_seeds_per_look=float(seeds_per_look), comparison_looks=float(looks), comparison_alpha=alpha
    )


def study(looks: int = 3, alpha: float = 0.05) -> pd.DataFrame:
    """One far above the others after a look; two that are alike take a second one."""
    wiggle = np.array([0.3, -0.2, 0.1, 0.4, -0.5])
    scores = {
        "mid": [*(100 + OF_SEEDS), *(100 + OF_SEEDS)],
        "best": list(400 + OF_SEEDS),
        "low": [*(99.5 + OF_SEEDS + wiggle), *(100 + OF_SEEDS)],
    }
    return looked(make_runs({c: list(map(float, s)) for c, s in scores.items()}, target=np.nan), 5, looks, alpha)


def test_pairs_are_ranked_and_what_it_took_is_counted() -> None:
    found = sequential_comparison(study())
    assert found is not None
    assert found.configs == ("best", "mid", "low")
    assert found.differences == (Difference("best", "mid", 1), Difference("best", "low", 1))
    assert found.alike == (("mid", "low"),)
    assert found.leaders == ("best",)
    assert (found.looks, found.is_over, found.num_trials, found.fixed_trials) == (2, False, 25, 45)
    over = sequential_comparison(study(looks=2))
    assert over is not None and over.is_over


def test_other_studies_are_no_comparison() -> None:
    assert sequential_comparison(make_runs({"a": [1.0], "b": [2.0]})) is None
    assert sequential_comparison(study().assign(comparison_looks=np.nan)) is None


def test_a_failed_seed_takes_its_configuration_out_and_a_running_one_holds_the_look() -> None:
    failed = sequential_comparison(with_status(study(), "mid", [3], "failed"))
    assert failed is not None and failed.failed == ("mid",)
    assert failed.differences == (Difference("best", "low", 1),)
    running = sequential_comparison(with_status(study(), "low", [7], "running"))
    assert running is not None and (running.looks, running.is_over) == (1, False)


def test_the_leaders_are_those_than_which_none_was_shown_to_be_higher() -> None:
    """After one look of three seeds nothing can be shown, however clear a t test would be."""
    runs = looked(study()[lambda runs: runs["seed"] < 3], 3, 2)
    (found,) = decide(runs)
    assert set(found.leaders) == {"best", "mid", "low"}
    (decided,) = decide(study())
    assert decided.leaders == ("best",)


def test_the_answer_tells_the_verdict_and_the_seeds_that_it_took() -> None:
    (answer,) = answers(Evidence(study(looks=2, alpha=0.1)))
    assert answer.headline.endswith("The 2 others are significantly worse.")
    assert (
        "Shown to differ: `best` scores higher than `mid` (look 1); `best` scores higher than `low` (look 1)."
        in answer.compared
    )
    assert "Not shown to differ: `mid` and `low`." in answer.compared
    assert "2 looks of 2 at most; 25 of the 30 trials of the fixed design with 10 seeds each." in answer.compared
    assert "is 10%" in answer.compared
    assert answer.compared in answer.markdown()


def test_an_answer_names_some_pairs_and_the_report_all() -> None:
    scores = {str(i): list(100.0 * i + OF_SEEDS) for i in range(5)}
    found = sequential_comparison(looked(make_runs(scores, score_range=(0, 1000)), 5, 5))
    assert found is not None and len(found.differences) == 10
    assert "; and 4 more." in sentences(found)[0]
    assert sentences(found, None)[0].count("scores higher than") == 10
