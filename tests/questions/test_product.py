"""Env steps to target times seconds an env step: what is told of it, and whether it is borne out."""

from dataclasses import replace
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from analysis.document.answer import answers
from analysis.document.product import of_layouts, sentences
from analysis.document.terminal import settings_table
from analysis.evidence import Evidence
from analysis.questions.decision import seeds_to_show
from analysis.questions.product import product_of
from tests.support.study_frames import make_runs

AXES = ("lr", "train_batch_size_total", "num_env_runners", "num_envs_per_env_runner")
SPEEDS = {(0, 4): 1_000.0, (0, 16): 2_000.0, (4, 4): 6_000.0, (8, 16): 9_000.0}
"""Runners and environments of each to env steps/s."""
STEPS = {1e-3: 400_000.0, 3e-3: 200_000.0}
"""Learning rate to env steps to target with 16 environments."""
BUDGET = 1_500_000


def env_steps(lr: float, num_envs: int, worse_with_runners: float = 1.0) -> float:
    return STEPS[lr] * (num_envs / 16) ** 0.5 * worse_with_runners


def part(
    phase: str, cells: list[tuple[float, int, int]], seeds: int, rng: np.random.Generator, worse: float = 1.0
) -> pd.DataFrame:
    """Trials of a phase: of learning rates, runners and environments of each."""
    names = {
        (lr, r, k): f"lr={lr:g} runners={r} envs={k}" + (", speed" if phase == "throughput" else "")
        for lr, r, k in cells
    }
    columns: dict[str, dict[str, list[float]]] = {
        name: {} for name in ("env_steps_to_target", "env_steps_per_s", "seconds_to_target", "train_s", "start_s")
    }
    for (lr, r, k), name in names.items():
        speed = SPEEDS[r, k] * rng.lognormal(0, 0.02, seeds)
        steps = env_steps(lr, max(1, r) * k, worse if r else 1.0) * rng.lognormal(-0.005, 0.1, seeds)
        columns["env_steps_to_target"][name] = list(steps)
        columns["env_steps_per_s"][name] = list(speed)
        columns["seconds_to_target"][name] = columns["train_s"][name] = list(steps / speed)
        columns["start_s"][name] = [4.0 if r else 0.0] * seeds
    params = {
        "lr": {name: lr for (lr, _, _), name in names.items()},
        "num_env_runners": {name: r for (_, r, _), name in names.items()},
        "num_envs_per_env_runner": {name: k for (_, _, k), name in names.items()},
        "train_batch_size_total": dict.fromkeys(names.values(), 2048),
        "vectorize_mode": dict.fromkeys(names.values(), "sync"),
    }  # fmt: skip
    found = make_runs(
        {name: [500.0] * seeds for name in names.values()}, budget_env_steps=BUDGET, params=params, **columns
    )
    return found.assign(phase=phase, exploratory=phase != "confirm", objective="minutes_to_target")


def study(confirmed: list[tuple[float, int, int]], worse: float = 1.0) -> Evidence:
    rng = np.random.default_rng(0)
    runs = pd.concat(
        [
            part("throughput", [(3e-3, r, k) for r, k in SPEEDS], 2, rng),
            part("search", [(1e-3, 0, 16), (3e-3, 0, 16), (3e-3, 0, 4), (1e-3, 0, 4)], 5, rng),
            part("confirm", confirmed, 5, rng, worse),
        ],
        ignore_index=True,
    )
    runs["seed"] += 1000 * (runs["phase"] == "confirm")
    names = pd.CategoricalDtype([str(name) for name in runs["config"].astype(str).unique()], ordered=True)
    return Evidence(runs.astype({"config": str}).astype({"config": names}), axes=AXES)


BEST = "lr=0.003 runners=4 envs=4"
CONFIRMED = [(3e-3, 4, 4), (1e-3, 4, 4), (3e-3, 0, 16)]


def test_every_learning_setting_is_predicted_in_every_layout_and_the_soonest_comes_first() -> None:
    found = product_of(study(CONFIRMED))
    assert found is not None
    assert len(found.table) == len(STEPS) * len(SPEEDS)
    first = found.table.iloc[0]
    assert (first["config"], first["layout"]) == (BEST, "4 x 4")
    truth = (4.0 + env_steps(3e-3, 16) / SPEEDS[4, 4]) / 60
    assert first["minutes_low"] < truth < first["minutes_high"]
    assert first["start_s"] == 4.0
    assert (found.num_learned, found.num_rounds) == (20 + 15, 8)


def test_the_answer_says_what_the_other_layouts_take_and_why_the_fastest_sampler_is_not_the_soonest() -> None:
    evidence = study(CONFIRMED)
    (answer,) = answers(evidence)
    assert answer.headline.startswith(f"Use `{BEST}`: target in 3")
    simplest, fastest = answer.layouts.split(" and ")
    assert simplest.startswith("Other layouts (runners x environments of each) are predicted to take 1.")
    assert simplest.endswith("] with 0 x 16")
    assert "with 8 x 16, which samples fastest, since it needs 2" in fastest
    assert fastest.endswith("times the env steps.")
    assert answer.layouts in answer.lines()
    assert {shown.config for shown in seeds_to_show(evidence)} == {answer.decision.chosen}


def test_where_the_simplest_layout_is_chosen_the_next_ones_are_told_with_their_start() -> None:
    evidence = study([(3e-3, 0, 16)])
    found = product_of(evidence)
    assert found is not None
    assert of_layouts(found, "lr=0.003 runners=0 envs=16").count(" with ") == 1  # the fastest sampler
    assert of_layouts(found, "no such") == ""


def test_a_prediction_is_held_against_what_was_measured_on_fresh_seeds() -> None:
    found = product_of(study(CONFIRMED))
    assert found is not None
    assert found.checked["holds"].all()
    assert set(found.checked["config"]) == {f"lr={lr:g} runners={r} envs={k}" for lr, r, k in CONFIRMED}
    told = " ".join(sentences(found))
    assert "They differ by no more than chance." in told
    assert f"`{BEST}`" in told


def test_where_runners_change_what_is_learned_it_is_said_that_the_product_does_not_hold() -> None:
    found = product_of(study(CONFIRMED, worse=2.0))
    assert found is not None
    by_config = found.checked.set_index("config")["holds"]
    assert not by_config[BEST]
    assert by_config["lr=0.003 runners=0 envs=16"]
    assert "that is more than chance" in " ".join(sentences(found))


@pytest.mark.parametrize("lacks", ["throughput", "search"])
def test_other_studies_have_no_product(lacks: str) -> None:
    evidence = study(CONFIRMED)
    runs = evidence.runs[evidence.runs["phase"] != lacks]
    assert product_of(Evidence(runs, axes=AXES)) is None


def test_it_is_there_before_anything_is_confirmed() -> None:
    evidence = study(CONFIRMED)
    found = product_of(Evidence(evidence.runs[evidence.runs["phase"] != "confirm"], axes=AXES))
    assert found is not None
    assert found.checked.empty
    assert found.table["config"].eq("").all()
    assert sentences(found)[0].startswith("The soonest by env steps to target times seconds an env step: lr 3e-3")


def test_every_learning_setting_is_told_in_its_soonest_layout_with_the_seeds_behind_it() -> None:
    found = product_of(study(CONFIRMED))
    assert found is not None
    settings = found.of_settings()
    assert list(settings["lr"]) == [3e-3, 1e-3]
    assert list(settings["layout"]) == ["4 x 4", "4 x 4"]
    assert list(settings["num_seeds"]) == list(settings["num_reached"]) == [10, 10]  # in any layout, confirmed or not
    console = Console(width=100, record=True, file=StringIO())
    console.print(settings_table(found, BEST, 100))
    told = console.export_text()
    assert "lr 3e-3, batch 2048" in told and "lr 1e-3, batch 2048" in told
    assert "10/10" in told and "throughput measured alone" in told
    console.print(settings_table(found, BEST, 45))
    assert "10/10" not in console.export_text(clear=True)


# An algorithm that samples while it learns.

STALENESS = {0: 0.5, 4: 4.0, 8: 9.0}
"""Runners to the updates that samples are old, alone."""
EXPONENT, BUSY, WAITS = 0.6, 1.4, 8
"""Of env steps in 1 + staleness; times as old as alone samples of trials side by side are; batches that some wait."""
SIMPLEST = "lr=0.003 runners=0 envs=16"


def stale(with_older: bool = True) -> Evidence:
    runs = study(CONFIRMED).runs.astype({"config": str}).assign(waits=0)
    older = runs[(runs["phase"] == "search") & (runs["config"] == SIMPLEST)]
    if with_older:
        runs = pd.concat([runs, older.assign(config=f"{SIMPLEST} staleness={WAITS}", waits=WAITS)], ignore_index=True)
    busy = np.where(runs["phase"] == "search", BUSY, 1.0)
    updates = runs["num_env_runners"].map(STALENESS) * busy + runs["waits"]
    runs["staleness_updates"] = updates * np.random.default_rng(1).lognormal(0, 0.03, len(runs))
    for measure in ("env_steps_to_target", "seconds_to_target"):
        runs[measure] *= (1 + updates) ** EXPONENT
    names = pd.CategoricalDtype(list(runs["config"].unique()), ordered=True)
    return Evidence(runs.astype({"config": names}), axes=AXES)


def without_staleness(evidence: Evidence) -> Evidence:
    return Evidence(evidence.runs.drop(columns="staleness_updates"), axes=AXES)


def test_samples_that_a_layout_makes_older_take_more_env_steps_which_the_product_foresees() -> None:
    found, blind = product_of(stale()), product_of(without_staleness(stale(with_older=False)))
    assert found is not None and blind is not None
    assert found.checked["holds"].all()
    assert not blind.checked.set_index("config")["holds"][BEST]
    row = found.row(BEST)
    assert row is not None
    assert row["staleness_updates"] == pytest.approx(4.0, rel=0.1)
    times = ((1 + 4.0) / (1 + 0.5)) ** EXPONENT
    assert 1 < row["times_env_steps_low"] < times < row["times_env_steps_high"]
    truth = (4.0 + env_steps(3e-3, 16) * 5**EXPONENT / SPEEDS[4, 4]) / 60
    assert row["minutes_low"] < truth < row["minutes_high"]


def test_a_sentence_says_how_old_the_samples_of_the_chosen_layout_are_and_what_that_costs() -> None:
    found = product_of(stale())
    assert found is not None
    (told,) = [said for said in sentences(found, BEST) if said.startswith("Samples of")]
    assert told.startswith(f"Samples of `{BEST}` are 4.1 updates old when they are learned from, which takes 2.1 [")
    assert told.endswith("] times the env steps of samples 0.49 updates old, as in the freshest layout.")
    assert any(said.endswith("as fresh as in any layout.") for said in sentences(found, SIMPLEST))


def test_what_old_samples_cost_is_not_told_where_all_were_learned_from_at_one_age() -> None:
    runs = stale(with_older=False).runs
    found = product_of(Evidence(runs[runs["phase"] != "confirm"], axes=AXES))
    assert found is not None
    old = found.table.index[found.table["layout"] == "4 x 4"][0]
    table = pd.concat([found.table.loc[[old]], found.table.drop(old)], ignore_index=True)
    assert "What that costs is not known: 0." in " ".join(sentences(replace(found, table=table)))


def test_batches_are_whole_samples_so_that_small_ones_have_no_layout_of_many_environments() -> None:
    runs = stale().runs
    small = runs[(runs["phase"] == "search") & (runs["num_envs_per_env_runner"] == 4)]
    small = small.assign(config="b=512 " + small["config"].astype(str), train_batch_size_total=512)
    runs = pd.concat([runs.astype({"config": str}), small.astype({"config": str})], ignore_index=True)
    names = pd.CategoricalDtype(list(runs["config"].unique()), ordered=True)
    found = product_of(Evidence(runs.astype({"config": names}), axes=AXES))
    assert found is not None
    envs = found.table.groupby("train_batch_size_total")["num_envs_per_env_runner"].agg(set).to_dict()
    assert envs == {512: {4}, 2048: {4, 16}}


def test_of_synchronous_algorithms_nothing_is_said_of_the_age_of_samples() -> None:
    found = product_of(study(CONFIRMED))
    assert found is not None
    assert list(found.table.columns)[-1] == "config"
    assert "updates old" not in " ".join(sentences(found, BEST))
