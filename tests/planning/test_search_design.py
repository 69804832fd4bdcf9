import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from experiments.config.errors import ConfigurationError
from experiments.contract import CONFIRM, FINISHED
from experiments.planning.plan import Plan
from experiments.planning.record import plan_record
from experiments.planning.terminal import plan_lines, summary
from experiments.planning.trials import StudyTrials
from experiments.search.confirmation_race import RacedConfirmation
from experiments.search.strategy import Ask, Outcome
from experiments.search.trial_queue import TrialQueue
from experiments.study.files.folder import StudyFolder
from tests.support.search_runs import run
from tests.support.suite import ROOT, RULES, PlanOf

ENDLESS = (
    "study.space={algorithm.training.lr:{distribution:loguniform,low:1e-5,high:1e-2},"
    "algorithm.training.num_epochs:[5,10]}"
)


GRID = {
    "study": "study.space={algorithm.training.lr:[3e-4,1e-3,3e-3,1e-2,3e-2],"
    "algorithm.training.train_batch_size_per_learner:[512,2000,4000]}",
    "seeds": "seeds=[0,1,2]",
}
"""Of 15 configurations and 3 seeds, whatever becomes of the default study."""


@pytest.fixture
def plan_of(plan_of: PlanOf) -> PlanOf:
    def plan(*overrides: str, **kwargs: Any) -> Plan:
        given = {re.split(r"[.=]", word)[0] for word in overrides}
        return plan_of(*(word for key, word in GRID.items() if key not in given), *overrides, **kwargs)

    return plan


def searching(plan: Plan) -> tuple[Plan, StudyTrials]:
    assert plan.search is not None
    return plan, StudyTrials(plan)


def queue_of(plan: Plan) -> TrialQueue:
    assert plan.search is not None
    return TrialQueue(plan.search.strategy(), plan.ahead, plan.search.limits())


def test_a_grid_without_limits_is_known_beforehand(plan_of: PlanOf) -> None:
    assert plan_of().search is None
    assert plan_of("max_minutes=5").search is not None


def test_a_race_over_a_grid(plan_of: PlanOf) -> None:
    plan, study = searching(plan_of("search=racing"))
    assert len(plan.configurations) == 16  # the grid, and the base beside it
    assert plan.num_trials == 23 + 4 * 5
    assert "search=racing: 23 trials that search, then the 3 best and the base on 5 held-out seeds" in summary(plan)
    assert study.trials == [] and plan_record(study)["trials"] == []
    assert plan_record(study)["base"] == "lr=3e-3 b=2048"


def test_a_race_of_fresh_seeds_is_chosen_and_said(plan_of: PlanOf) -> None:
    plan, _ = searching(plan_of("search=racing", "confirmation.rule=race"))
    assert plan.num_trials == 23 + 4 * 5
    assert "23 trials that search, then the 3 best and the base on up to 5 held-out seeds" in summary(plan)
    assert plan.search and isinstance(plan.search.outline, RacedConfirmation)
    fixed, _ = searching(plan_of("search=racing"))
    assert fixed.search and not isinstance(fixed.search.outline, RacedConfirmation)
    assert [c.trial(0).config_id for c in plan.configurations] == [c.trial(0).config_id for c in fixed.configurations]


def test_a_comparison_runs_its_own_configurations_and_says_what_it_may_cost(plan_of: PlanOf) -> None:
    plan, study = searching(plan_of("search=compare", "study.space={algorithm.training.lr:[1e-3,1e-2]}", "seeds=[5,7]"))
    assert len(plan.configurations) == 2  # no base beside them
    assert (plan.num_trials, plan.env_steps_in_all()) == (50, 50 * 60_000)
    assert summary(plan).startswith(
        "search=compare: 2 configurations x up to 25 seeds, 5 before each of 5 looks, those of decided pairs left out; "
        "alpha=0.05 over all pairs and looks: at most 50 trials, 3,000,000 env steps"
    )
    record = plan_record(study)
    assert record["comparison"] == {"seeds_per_look": 5, "looks": 5, "alpha": 0.05}
    assert record["phase"] == "fixed" and "base" not in record
    queue = queue_of(plan)
    asked = run(
        queue,
        lambda ask: Outcome(FINISHED, {"score": 100.0 if ask.point["algorithm.training.lr"] == 1e-3 else 1.0}, 60_000),
    )
    assert [ask.seed for ask in asked if ask.point["algorithm.training.lr"] == 1e-3] == [5, 7, 8, 9, 10]
    assert not study.take(asked[0]).exploratory
    assert "comparison" not in plan_record(searching(plan_of("search=racing"))[1])


@pytest.mark.parametrize(
    ("overrides", "error"),
    [
        (("study.space={}",), "two configurations or more, and study.space has one"),
        (
            ("study.space={algorithm.training.lr:[1e-4,2e-4,3e-4],algorithm.training.num_epochs:[1,2,3,4,5,6,7]}",),
            "20 .* has 21.*racing",
        ),
        (("search.seeds_per_look=1",), r"shows no difference at search.alpha=0.05. Try search.seeds_per_look=5"),
        (("seeds=[0,1,2]", "search.looks=1", "search.seeds_per_look=2"), "seeds has 3 seeds, .* at most .* = 2"),
        (("scheduler=asha",), "Try scheduler=fifo"),
        (("confirmation.always=true",), "Try confirmation.always=false"),
        (("repeats=2",), "Try repeats=1"),
        (("study.space={env:[cartpole,acrobot]}",), "one environment"),
        (("study.space={algorithm.training.lr:{distribution:loguniform,low:1e-5,high:1e-2}}",), "Give a list"),
        (("search.alpha=0",), "search.alpha=0: input should be greater than 0"),
        (("study=runner_scaling",), "throughput has none. Try search=grid"),
    ],
)
def test_a_comparison_that_makes_no_sense_is_refused(plan_of: PlanOf, overrides: tuple[str, ...], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        plan_of("search=compare", *overrides)


OF_THE_GRID = "of the grid at these 3 seeds (15 configurations, 2,700,000 env steps)"
COSTS = {
    ("search=racing",): f"at most 96% {OF_THE_GRID}",
    ("search=optuna",): f"at most 78% {OF_THE_GRID}",
    ("search=optuna", "search.num_samples=40"): (
        f"at most 133% {OF_THE_GRID}. Try search=grid scheduler=fifo: from 5 seeds on the search takes less"
    ),
    ("search=optuna", "search.num_samples=40", "seeds=[0,1,2,3,4]"): (
        "at most 80% of the grid at these 5 seeds (15 configurations, 4,500,000 env steps)"
    ),
    ("search=optuna", "search.num_samples=40", "seeds=[0]"): (
        "at most 233% of the grid at this seed (15 configurations, 900,000 env steps). "
        "Try search=grid scheduler=fifo: from 3 seeds on the search takes less"
    ),
    ("scheduler=asha",): (
        f"at most 144% {OF_THE_GRID}, if little stops early. Try max_env_steps=2700000, or search=grid scheduler=fifo"
    ),
    ("scheduler=asha", "max_env_steps=1350000"): f"at most 50% {OF_THE_GRID}",
    ("scheduler=pbt",): f"at most 62% {OF_THE_GRID}",
    ("search=random", "scheduler=asha", "search.num_samples=5"): f"at most 78% {OF_THE_GRID}",
    ("search=optuna", ENDLESS): (
        "at most that of 20 random configurations with these 3 seeds; the space has ranges, and so no grid"
    ),
}  # fmt: skip


@pytest.mark.parametrize("overrides", COSTS, ids=" ".join)
def test_a_search_says_what_share_of_the_grid_it_takes_and_what_to_do_if_that_is_more(
    overrides: tuple[str, ...], plan_of: PlanOf
) -> None:
    assert f"cost        {COSTS[overrides]}" in plan_lines(plan_of(*overrides))


def test_the_number_of_seeds_from_which_a_search_pays_is_where_its_plan_says_so(plan_of: PlanOf) -> None:
    def takes_less(num_seeds: int) -> bool:
        design = plan_of("search=optuna", "search.num_samples=40", f"seeds={list(range(num_seeds))}").search
        assert design is not None
        return design.env_steps_in_all() < design.grid_env_steps

    assert [takes_less(num_seeds) for num_seeds in (3, 4, 5)] == [False, False, True]


def test_what_searches_nothing_has_no_share(plan_of: PlanOf) -> None:
    assert not any(
        line.startswith("cost") for choice in ("search=grid", "search=random") for line in plan_lines(plan_of(choice))
    )


def test_what_is_asked_for_becomes_trials_of_the_plan(plan_of: PlanOf) -> None:
    plan, study = searching(
        plan_of("search=optuna", "search.num_samples=5", ENDLESS, "confirmation.top=1", "confirmation.seeds=[50]")
    )
    queue = queue_of(plan)

    def outcome(ask: Ask) -> Outcome:
        trial = study.take(ask)
        assert trial.algorithm["training"]["lr"] == ask.point.get("algorithm.training.lr", 3e-3)
        return Outcome(FINISHED, {"score": trial.algorithm["training"]["lr"], "auc": 0.0}, trial.budget_env_steps, 1.0)

    run(queue, outcome)
    assert [t.phase for t in study.trials] == ["search"] * 5 + ["confirm"] * 2
    assert len({t.folder_name for t in study.trials}) == 7
    best = max(study.trials[:5], key=lambda t: t.algorithm["training"]["lr"])
    assert study.trials[5].config_id == best.config_id and study.trials[5].seed == 50
    assert {c["config"] for c in plan_record(study)["configurations"]} == {t.label for t in study.trials}
    assert [t["phase"] for t in plan_record(study)["trials"]] == [t.phase for t in study.trials]


def test_suggestions_that_read_the_same_when_rounded_are_configurations_of_their_own(plan_of: PlanOf) -> None:
    _, study = searching(plan_of("search=optuna", ENDLESS))
    points = [{"algorithm.training.lr": lr} for lr in (0.00123401, 0.00123402, 0.00123401)]
    trials = [study.take(Ask(point, seed)) for seed, point in enumerate(points)]
    assert [t.label for t in trials] == ["lr=1.234e-3", f"lr=1.234e-3 id={trials[1].config_id}", "lr=1.234e-3"]
    assert [study.configuration_of(t).point for t in trials] == points
    assert len(plan_record(study)["configurations"]) == 2


def test_a_population_names_the_generation_last(plan_of: PlanOf) -> None:
    _, study = searching(plan_of("scheduler=pbt", "scheduler.population=4"))
    note = {"generation": 0, "until": 20_000}
    first, second = (study.take(Ask({"algorithm.training.lr": lr}, 0, note=note)) for lr in (0.00123401, 0.00123402))
    assert [first.label, second.label] == ["lr=1.234e-3 g=0", f"lr=1.234e-3 id={second.config_id} g=0"]


def test_the_layout_follows_each_suggestion(plan_of: PlanOf) -> None:
    space = "study.space={algorithm.env_runners.num_env_runners:[0,1]}"
    _, study = searching(plan_of("search=racing", space))
    trials = [study.take(Ask({"algorithm.env_runners.num_env_runners": n}, 0)) for n in (0, 1)]
    assert [t.algorithm["env_runners"]["num_env_runners"] for t in trials] == [0, 1]
    assert [c.request.required_resources["CPU"] for c in study.configurations] == [1, 2]


def test_a_generation_goes_on_from_its_parent_and_is_another_configuration(plan_of: PlanOf) -> None:
    plan, study = searching(plan_of("scheduler=pbt", "scheduler.population=2", "scheduler.interval_env_steps=20000"))
    queue = queue_of(plan)
    trials = []

    def outcome(ask: Ask) -> Outcome:
        parent = ask.note.get("parent")
        trials.append(study.take(ask, None if parent is None else trials[parent]))
        return Outcome(FINISHED, {"score": float(ask.seed), "auc": 0.0}, ask.note.get("env_steps", 60_000))

    asked = run(queue, outcome, side_by_side=1)
    assert [(t.seed, t.budget_env_steps, t.start.env_steps if t.start else 0) for t in trials[:6]] == [
        (seed, 20_000 * (g + 1), 20_000 * g) for g in range(3) for seed in (0, 1)
    ]
    # The better of the two goes on as it is, the other one copies it.
    assert [t.start.trial for t in trials[2:6] if t.start] == [trials[i].folder_name for i in (1, 1, 3, 3)]
    assert [t.start.copied for t in trials[2:6] if t.start] == [True, False, True, False]
    assert {t.checkpoint.every_env_steps for t in trials[:6]} == {20_000}
    assert len({t.folder_name for t in trials}) == len(trials)
    assert [trial.get("generation") for trial in plan_record(study)["trials"]] == [
        0,
        0,
        1,
        1,
        2,
        2,
        *[None] * (len(trials) - 6),
    ]
    assert all(
        t.start is None and t.budget_env_steps == 60_000
        for t, ask in zip(trials, asked, strict=True)
        if ask.phase == CONFIRM
    )
    assert type(trials[2]).from_mapping(trials[2].to_mapping()) == trials[2]


def test_a_search_comes_back_from_its_folder_with_the_configurations_that_came_up(
    plan_of: PlanOf, tmp_path: Path
) -> None:
    plan, study = searching(plan_of("scheduler=pbt", "scheduler.population=2"))
    folder = StudyFolder(tmp_path / "study")
    folder.create(plan)
    run(queue_of(plan), lambda ask: Outcome(FINISHED, {"score": float(len(study.take(ask).label)), "auc": 0.0}, 1))
    folder.keep_configurations(study)
    folder.close()
    again, of_again = searching(folder.plan(plan.cluster, plan.suite.tracking))
    assert {c.label: c for c in again.configurations} == {
        c.label: c for c in (*plan.configurations, *study.configurations)
    }
    run(queue_of(again), lambda ask: Outcome(FINISHED, {"score": float(len(of_again.take(ask).label)), "auc": 0.0}, 1))
    assert of_again.trials == study.trials


def test_a_grid_can_be_confirmed(plan_of: PlanOf) -> None:
    plan, study = searching(plan_of("confirmation.always=true", "seeds=[0,1]"))
    assert "search=grid: 30 trials, then the 3 best and the base on 5 held-out seeds" in summary(plan)
    queue = queue_of(plan)
    run(
        queue,
        lambda ask: Outcome(
            FINISHED, {"score": 1.0, "auc": float(study.take(ask).algorithm["training"]["lr"])}, 60_000
        ),
    )
    assert [(t.phase, t.exploratory) for t in study.trials[:30]] == [("fixed", True)] * 30
    assert {(t.phase, t.exploratory) for t in study.trials[30:]} == {("confirm", False)}


def test_a_grid_can_be_confirmed_by_some_of_its_own_seeds(plan_of: PlanOf) -> None:
    plan, study = searching(plan_of("confirmation.always=true", "seeds=[0,1,2]", "confirmation.seeds=[1,2]"))
    assert plan.num_trials == 15 * 3 + 2  # the base is not of the grid
    assert (
        "15 trials, then the 3 best and the base on 2 held-out seeds, then the other configurations on 2 of these"
        in summary(plan)
    )
    run(
        queue_of(plan),
        lambda ask: Outcome(
            FINISHED, {"score": 1.0, "auc": float(study.take(ask).algorithm["training"]["lr"])}, 60_000
        ),
    )
    assert Counter((t.phase, t.exploratory) for t in study.trials) == {
        ("fixed", True): 15 + 12 * 2,
        ("confirm", False): 4 * 2,
    }
    assert len({t.folder_name for t in study.trials}) == plan.num_trials


def test_rules_that_meet_at_their_base_are_run_once(plan_of: PlanOf) -> None:
    plan, study = searching(plan_of(RULES, "confirmation.always=true", "seeds=[0,1]"))
    assert plan.num_trials == 2 * 10 + 4 * 5
    run(queue_of(plan), lambda ask: Outcome(FINISHED, {"score": 1.0, "auc": len(study.take(ask).label)}, 1))
    assert len({trial.folder_name for trial in study.trials}) == len(study.trials)
    assert plan_record(study)["base"] == "lr=base b=2048"


WRONG = {
    ("search=optuna", "study.space={}"): "search=optuna needs a study.space",
    ("search=optuna", "study.space={algorithm.training.lr:{distribution:loguniform,low:1e-2,high:1e-4}}"): (
        "low=0.01 must be below high"
    ),
    ("search=optuna", "study.space={algorithm.training.lr:{distribution:loguniform,low:0,high:1e-2}}"): (
        "loguniform needs low above 0"
    ),
    ("search=optuna", "study.space={algorithm.training.lr:[]}"): "has no values",
    ("search=optuna", "study.space={algorithm.training.momentum:{distribution:uniform,low:0,high:1}}"): "momentum",
    ("search=racing", "study.space={algorithm.training.lr:{distribution:uniform,low:1e-4,high:1e-2}}"): (
        "search.proposals=random"
    ),
    ("search=optuna", "objective=env_steps_to_target", "env.target=null"): (
        "env=cartpole has no target to reach"
    ),
    ("search=optuna", "search.objective=[loss]"): "search.objective.0='loss'",
    ("search=optuna", "search.objective=[score,train_s]"): "hardware.max_concurrent_trials=1",
    ("search=optuna", "search.objective=[auc]"): "One aim is the whole study's: objective=auc",
    ("search=optuna", "search.objective=[score,auc]", "objective=env_steps_to_target"): "give one of them",
    ("objective=minutes_to_target",): "trials side by side slow each other down. Try hardware.max_concurrent_trials=1",
    ("objective=minutes_to_target", "env.target=null"): "has no target to reach",
    ("objective=cost_to_target", "hardware.max_concurrent_trials=1"): "Try hardware.price_per_hour=0.5",
    ("objective=score_in_minutes",): "Try objective={score_in_minutes:10}",
    ("objective={score_in_minutes:0}",): "objective.minutes=0",
    ("objective=speed",): "objective.name='speed'",
    ("study=runner_scaling", "objective=env_steps_to_target"): "compares env steps/s. Leave it out",
    ("search=racing", "scheduler=asha"): "a race compares trials of the same budget",
    ("search=optuna", "scheduler=pbt"): "changes settings itself",
    ("search=optuna", "repeats=2"): "a search runs each configuration and seed once",
    ("search=optuna", "+measurement=throughput"): "experiments/autotune.py",
    ("confirmation.always=true", "+measurement=throughput"): "confirmation.always=true searches by what trials learn",
    ("search=optuna", "confirmation.seeds=[2,3]"): "the search uses 2 as well",
    ("search=racing", "confirmation.seeds=[8,9]"): "the search uses 8 as well",
    ("confirmation.always=true", "confirmation.seeds=[0,1,2]"): "none is left to choose by what is confirmed",
    ("search=optuna", "confirmation.seeds=[]"): "confirmation.seeds is empty",
    ("confirmation.always=true", "confirmation.rule=race"): "it follows a search, such as search=racing",
    ("search=joint", "objective=minutes_to_target", "confirmation.rule=race"): "recommends by the product",
    ("scheduler=pbt", "confirmation.rule=race"): "nothing is known yet of the last settings",
    (
        "search=optuna",
        "search.objective=[score,train_s]",
        "hardware.max_concurrent_trials=1",
        "confirmation.rule=race",
    ): "two aims have many. Try confirmation.rule=fixed",
    ("scheduler=asha", "scheduler.grace_env_steps=60000"): "leaves nothing to stop in budget_env_steps=60000",
    ("scheduler=median", "scheduler.grace_env_steps=90000"): "scheduler.grace_env_steps=90000",
    ("scheduler=asha", "scheduler.reduction_factor=1"): "scheduler.reduction_factor",
    ("scheduler=pbt", "scheduler.population=1"): "scheduler.population=1",
    ("scheduler=pbt", "scheduler.interval_env_steps=60000"): "scheduler.interval_env_steps=60000",
    ("scheduler=pbt", "scheduler.interval_env_steps=5000", "report_every_env_steps=4000"): (
        "Try scheduler.interval_env_steps=4000"
    ),
    ("scheduler=pbt", "study.space={}"): "scheduler=pbt needs a study.space",
    ("scheduler=pbt", "study.space={algorithm.env_runners.num_env_runners:[0,1]}"): (
        "cannot change while a member trains"
    ),
    ("scheduler=pbt", "stop_at_target=true"): "stop_at_target=true with scheduler=pbt",
    ("search=optuna", "max_env_steps=1000"): "Try max_env_steps=600000",
    ("search=optuna", "study.space={algorithm.training.lr:[{rule:sqrt,base_batch:2048}]}"): "a rule needs base_lr",
}  # fmt: skip


@pytest.mark.parametrize("overrides", WRONG, ids=" ".join)
def test_what_cannot_be_searched_is_refused_with_the_fix(overrides: tuple[str, ...], plan_of: PlanOf) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(WRONG[overrides])):
        plan_of(*overrides)


@pytest.mark.parametrize(
    "choice", [f"{group}={f.stem}" for group in ("search", "scheduler") for f in (ROOT / "conf" / group).glob("*")]
)
def test_every_search_and_scheduler_of_conf_makes_a_plan(choice: str, plan_of: PlanOf) -> None:
    study = "study=joint" if choice == "search=joint" else "study=lr_batch"  # which needs layouts to choose from
    assert plan_of(study, choice, "seeds=[0]").num_trials > 0
