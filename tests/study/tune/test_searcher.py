"""What a search asks for, by way of Tune."""

from pathlib import Path

from experiments.planning.trials import StudyTrials
from experiments.study.files.folder import StudyFolder
from experiments.study.tune.searcher import QueueSearcher
from experiments.trial.tune_keys import TRIAL
from tests.support.suite import PlanOf


def test_a_search_asks_for_nothing_while_a_trial_is_to_run_alone_and_afterwards_for_the_same(
    plan_of: PlanOf, tmp_path: Path
) -> None:
    plan = plan_of(
        "study=smoke",
        "search=optuna",
        "study.space={algorithm.training.lr:{distribution:loguniform,low:1e-5,high:1e-2}}",
    )
    assert plan.search is not None

    def asked(name: str, *waits: bool) -> list[float]:
        folder = StudyFolder(tmp_path / name)
        folder.create(plan)
        searcher = QueueSearcher(StudyTrials(plan), plan.search, folder, print)
        rates = []
        for wait in waits:
            searcher.waits = lambda wait=wait: wait
            before = len(searcher.queue.asked)
            suggested = searcher.suggest("tunes")
            assert (suggested is None) == wait and (len(searcher.queue.asked) == before) == wait
            if suggested is not None:
                rates.append(suggested[TRIAL]["algorithm"]["training"]["lr"])
        return rates

    assert asked("never", False, False) == asked("twice", False, True, True, False)
