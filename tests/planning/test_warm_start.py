"""Earlier studies as a search of this space has them, and what a plan says of that."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from experiments.config.errors import ConfigurationError
from experiments.config.space import parse_space
from experiments.contract import FINISHED
from experiments.planning.plan import Plan
from experiments.planning.record import plan_record
from experiments.planning.trials import StudyTrials
from experiments.planning.warm_start import point_in, prior_line, with_prior
from experiments.search.prior import Prior
from experiments.study.files.folder import StudyFolder
from tests.support.suite import PlanOf

LR, BATCH = "algorithm.training.lr", "algorithm.training.train_batch_size_per_learner"
LRS, BATCHES = (1e-3, 3e-3, 1e-2), (512, 2048)
GRID = ("search=racing", f"study.space={{{LR}:[1e-3,3e-3,1e-2],{BATCH}:[512,2048]}}")
COMPOSED = {
    "algorithm": {
        "training": {"lr": 3e-3, "train_batch_size_per_learner": 2000, "gamma": 0.99, "actor_lr": 1e-3},
        "axes": {"learning_rate": ["training.lr"], "batch_size": ["training.train_batch_size_per_learner"]},
    }
}


def found(
    points: Sequence[dict[str, Any]] | None = None,
    name: str = "before/ppo-acrobot",
    algorithm: str = "ppo",
    env: str = "acrobot",
    **more: Any,
) -> dict[str, Any]:
    """A study whose scores grow from point to point, of two seeds each."""
    points = [{LR: lr, BATCH: batch} for lr in LRS for batch in BATCHES] if points is None else points
    trials = [
        {"point": point, "seed": seed, "outcome": {"status": FINISHED, "values": {"score": 10.0 * i + seed, "auc": 0}}}
        for i, point in enumerate(points)
        for seed in range(2)
    ]
    return {"name": name, "run": f"run of {name}", "env": env, "algorithm": algorithm, "trials": trials, **more}


def prior_of(plan: Plan) -> Prior:
    assert plan.search is not None and plan.search.prior is not None
    return plan.search.prior


@pytest.mark.parametrize(
    ("space", "shown", "point"),
    [
        ({LR: [1e-3, 3e-3]}, {LR: 0.003}, {LR: 3e-3}),
        ({LR: [1e-3, 3e-3]}, {LR: 0.002}, None),
        ({LR: [1e-3, 3e-3]}, {BATCH: 2000}, None),  # it did not search the learning rate
        ({LR: [1e-3, 3e-3]}, {LR: 0.003, BATCH: 2000}, {LR: 3e-3}),  # which is this study's own batch
        ({LR: [1e-3, 3e-3]}, {LR: 0.003, BATCH: 512}, None),
        ({LR: [1e-3, 3e-3]}, {LR: 0.003, "env": "acrobot", "algorithm.env_runners.num_env_runners": 2}, {LR: 3e-3}),
        ({LR: {"distribution": "loguniform", "low": 1e-5, "high": 1e-2}}, {LR: 0.002}, {LR: 0.002}),
        ({LR: {"distribution": "loguniform", "low": 1e-5, "high": 1e-2}}, {LR: 0.02}, None),
        ({BATCH: {"distribution": "integers", "low": 500, "high": 4000, "step": 500}}, {BATCH: 1500}, {BATCH: 1500}),
        ({BATCH: {"distribution": "integers", "low": 500, "high": 4000, "step": 500}}, {BATCH: 1600}, None),
        ({LR: [None, 3e-3]}, {LR: None}, {LR: None}),
        (
            {"learning_rate": {"distribution": "multiples", "factors": [0.3, 1, 3]}},
            {LR: 0.009},
            {"learning_rate": 3},
        ),
        (
            {"batch_size": {"distribution": "multiples", "factors": [0.3333, 1]}},
            {BATCH: 667},  # 666.6
            {"batch_size": 0.3333},
        ),
        (
            {"learning_rate": {"distribution": "multiples", "low": 0.1, "high": 10.0}},
            {LR: 0.006},
            {"learning_rate": 2.0},
        ),
        (
            {"learning_rate": {"distribution": "multiples", "factors": [0.3, 1, 3]}},
            {"learning_rate": 3},  # which moved several settings there
            {"learning_rate": 3},
        ),
        ({LR: [1e-3, 3e-3]}, {LR: 0.003, "update_to_data": 1}, {LR: 3e-3}),
        ({LR: [1e-3, 3e-3]}, {LR: 0.003, "update_to_data": 2}, None),
    ],
)
def test_a_configuration_of_another_study_is_a_point_of_this_space_or_none(
    space: dict[str, Any], shown: dict[str, Any], point: dict[str, Any] | None
) -> None:
    assert point_in(parse_space(space), COMPOSED, shown) == point


def test_a_search_takes_the_order_of_the_settings_that_it_shares_with_a_study(plan_of: PlanOf) -> None:
    plan = with_prior(plan_of(*GRID, "search.from=[before]"), [found()])
    (study,) = prior_of(plan).studies
    assert (study.name, study.run) == ("before/ppo-acrobot", "run of before/ppo-acrobot")
    assert study.places == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert prior_of(plan).points[-1] == {LR: 1e-2, BATCH: 2048}
    line = prior_line(plan)
    assert line.startswith(
        "warm start  6 settings of this space ran in before/ppo-acrobot (run of before/ppo-acrobot), best there: "
        "lr=0.01 train_batch_size_per_learner=2048. The first trials run the best of them and 4 others. If their order "
        "holds here, the others of them are not run; else the search goes on as without them"
    )
    assert "Multiples" not in line


def test_seeds_that_ran_earlier_are_no_test_of_what_they_showed(plan_of: PlanOf) -> None:
    plan = plan_of(*GRID, "search.from=[before]", "seeds=[0,1,2]")
    line = prior_line(with_prior(plan, [found(env="cartpole")]))
    assert line.endswith("and confirm what was chance: seeds=[2,3,4] tests their order anew")
    for other in (plan_of(*GRID, "search.from=[before]", "seeds=[2,3,4]"), plan):
        env = "acrobot" if other is plan else "cartpole"
        assert "seeds" not in prior_line(with_prior(other, [found(env=env)]))


def test_the_centre_that_multiples_could_have_is_said(plan_of: PlanOf) -> None:
    space = "study.space={learning_rate:{distribution:multiples,factors:[0.1,0.3,1,3,10]}}"
    plan = plan_of("search=racing", space, "search.from=[before]")
    base = plan.composed["algorithm"]["training"]["lr"]
    earlier = found([{LR: float(f"{base * factor:.12g}")} for factor in (10, 0.1, 0.3, 1, 3)])
    line = prior_line(with_prior(plan, [earlier]))
    assert line.endswith(
        "Multiples are of this study's own settings; to have them of the best there: "
        f"algorithm.training.lr={float(f'{base * 3:.12g}')}"
    )
    assert "best there: learning_rate=x3. " in line


def test_what_is_taken_is_recorded_and_read_again(plan_of: PlanOf, tmp_path: Path) -> None:
    plan = with_prior(plan_of(*GRID, "search.from=[before]"), [found()])
    folder = StudyFolder(tmp_path / "study")
    folder.create(plan)
    folder.close()
    again = StudyFolder(tmp_path / "study").plan(plan.cluster, plan.suite.tracking)
    assert prior_of(again) == prior_of(plan)
    assert prior_line(again) == prior_line(plan)
    record = plan_record(StudyTrials(plan))["prior"]
    assert record["studies"][0]["places"] == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert "weights" not in record
    assert plan_record(StudyTrials(plan), [0.5])["prior"]["weights"] == [0.5]
    plain = plan_of("search=racing")
    assert "prior" not in plan_record(StudyTrials(plain))


def test_studies_that_say_nothing_are_refused_where_they_were_named(plan_of: PlanOf) -> None:
    plan = plan_of(*GRID, "search.from=[before]")
    other = found([{"algorithm.training.gamma": 0.9 + 0.01 * i} for i in range(6)])
    late = found(name="late/ppo-acrobot", trials=[])
    for studies, message in (
        ([other], rf"it ran 0 .* takes 5. Its axes are algorithm.training.gamma, those here {LR}, {BATCH}: search"),
        ([found([{LR: lr, BATCH: 512} for lr in LRS])], "search.from=before/ppo-acrobot: it ran 3 settings"),
        ([found(algorithm="sac")], "search.from=before/ppo-acrobot: is of sac, and this study of ppo"),
        ([found(), late], "search.from=late/ppo-acrobot: it ran 0 .* axes are none"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            with_prior(plan, studies)


def test_studies_that_the_suite_finds_by_itself_may_say_nothing(plan_of: PlanOf) -> None:
    plan = plan_of(*GRID, "search.from=auto")
    assert with_prior(plan, []) is plan
    assert with_prior(plan, [found(algorithm="sac")]) is plan
    assert prior_line(plan).startswith("warm start  from nothing: no study of ppo in this store ran 5 settings")
    warm = with_prior(plan, [found(trials=[]), found(name="late/ppo-acrobot")])
    assert [study.name for study in prior_of(warm).studies] == ["late/ppo-acrobot"]


def test_settings_that_failed_come_last_and_a_study_without_an_order_is_none(plan_of: PlanOf) -> None:
    plan = plan_of(*GRID, "search.from=auto")
    failing = found()
    failing["trials"][-1]["outcome"] = {"status": "failed"}  # a seed of the best
    assert prior_of(with_prior(plan, [failing])).studies[0].places == (0.2, 0.4, 0.6, 0.8, 1.0, 0.0)
    level = found()
    for trial in level["trials"]:
        trial["outcome"]["values"]["score"] = 7.0
    assert with_prior(plan, [level]) is plan
