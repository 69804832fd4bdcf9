"""Minutes to target as a product of what is learned and what is measured."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from analysis.stats.goodput import Candidates, Learned, Measured, Predicted, log_staleness, predicted
from analysis.stats.interval import Array

RATES, BATCHES = (3e-4, 1e-3, 3e-3), (512.0, 2048.0)
LAYOUTS = {"0x16": (16, 20e-6), "2x8": (16, 8e-6), "2x16": (32, 7e-6)}
"""Layout to its environments and the seconds of an env step."""
ITERATION_S = 5e-3


def env_steps(lr: float, batch: float, envs: int) -> float:
    """Fewest at 1e-3 and the small batch; a fifth more for twice the environments."""
    return float(400_000 * 4 ** abs(np.log10(lr / 1e-3)) * (batch / 512) ** 0.3 * (envs / 16) ** 0.26)


def trials(rng: np.random.Generator, num_seeds: int = 5) -> pd.DataFrame:
    cells = [*((*cell, 16) for cell in product(RATES, BATCHES)), (1e-3, 512.0, 32), (3e-3, 2048.0, 32)]
    rows = [
        {"lr": lr, "batch": batch, "envs": envs, "env_steps": env_steps(lr, batch, envs) * rng.lognormal(-0.02, 0.2)}
        for lr, batch, envs in cells
        for _ in range(num_seeds)
    ]
    return pd.DataFrame(rows)


def rounds(rng: np.random.Generator, num: int = 3) -> pd.DataFrame:
    measured = [(name, 2048.0) for name in LAYOUTS] + [("0x16", 512.0)]
    rows = [
        {"layout": name, "batch": batch, "start_s": 1.0 if name.startswith("2") else 0.0, "env_steps_per_s": speed}
        for name, batch in measured
        for speed in rng.lognormal(0, 0.02, num) / (LAYOUTS[name][1] + ITERATION_S / batch)
    ]
    return pd.DataFrame(rows)


def candidates() -> pd.DataFrame:
    rows = [
        {"lr": lr, "batch": batch, "envs": envs, "layout": name}
        for lr, batch, (name, (envs, _)) in product(RATES, BATCHES, LAYOUTS.items())
    ]
    return pd.DataFrame(rows)


def places(frame: pd.DataFrame) -> Array:
    return np.asarray(np.log10(frame[["lr", "batch", "envs"]].to_numpy(float)))


def learned(frame: pd.DataFrame) -> Learned:
    return Learned.of(places(frame), frame["env_steps"].to_numpy(float))


def measured(frame: pd.DataFrame) -> Measured:
    return Measured.of(frame["layout"].tolist(), frame["batch"].to_numpy(float), frame["env_steps_per_s"].to_numpy())


def test_the_works_of_learners_add_their_seconds_and_their_rows() -> None:
    rng = np.random.default_rng(3)
    rows_s = {"few": 1e-7, "many": 4e-7}
    asked = [*product(("0x16", "2x8"), ("few",), (64.0, 256.0)), ("0x16", "many", 64.0), ("0x16", "many", 256.0)]

    def seconds(layout: str, work: str, batch: float) -> float:
        return LAYOUTS[layout][1] + 200 * rows_s[work] + rows_s[work] * batch

    rounds = [one for one in asked for _ in range(3)]
    speeds = np.array([rng.lognormal(0, 0.01) / seconds(*one) for one in rounds])
    layouts, works, batches = zip(*rounds, strict=True)
    found = Measured.of(layouts, np.array(batches), speeds, works)
    every = list(product(("0x16", "2x8"), rows_s, (64.0, 128.0, 256.0)))
    layouts, works, batches = zip(*every, strict=True)
    predicted_s = np.exp(-np.median(found.draws(layouts, np.array(batches), rng, works=works), axis=0))
    np.testing.assert_allclose(predicted_s, [seconds(*one) for one in every], rtol=0.1)


def of(trials: pd.DataFrame, rounds: pd.DataFrame, rng: np.random.Generator) -> Predicted:
    rows = candidates()
    start = rows["layout"].map(rounds.groupby("layout")["start_s"].first()).to_numpy(float)
    asked = Candidates(places(rows), rows["batch"].to_numpy(float), rows["layout"].tolist(), start)
    return predicted(asked, learned(trials), measured(rounds), rng)


def minutes(row: pd.Series) -> float:
    start = 1.0 if str(row["layout"]).startswith("2") else 0.0
    seconds = LAYOUTS[row["layout"]][1] + ITERATION_S / row["batch"]
    return (start + env_steps(row["lr"], row["batch"], row["envs"]) * seconds) / 60


def test_what_is_soonest_is_found_and_neither_the_fewest_env_steps_nor_the_fastest_sampler() -> None:
    rng = np.random.default_rng(0)
    found = of(trials(rng), rounds(rng), rng)
    truth = candidates().apply(minutes, axis=1).to_numpy()
    best = candidates().loc[truth.argmin()]
    assert (best["batch"], best["layout"]) == (2048.0, "2x8")  # fewest env steps: 512; the fastest sampler: 2x16
    first = found.order[0]
    assert truth[first] / truth.min() - 1 < 0.12
    assert found.minutes.median[first] == pytest.approx(truth.min(), rel=0.25)
    assert found.p_best.sum() == pytest.approx(1.0)
    assert found.is_near[first] and not found.is_near[found.order[-1]]


def test_the_intervals_hold_the_truth() -> None:
    held, truth = [], candidates().apply(minutes, axis=1).to_numpy()
    for seed in range(30):
        rng = np.random.default_rng(seed)
        found = of(trials(rng), rounds(rng), rng)
        held.append(float(((found.minutes.low <= truth) & (truth <= found.minutes.high)).mean()))
    assert 0.85 <= np.mean(held) <= 0.99


def test_a_batch_that_was_not_measured_shares_out_what_an_iteration_takes() -> None:
    rng = np.random.default_rng(0)
    speeds = np.exp(measured(rounds(rng)).draws(["2x8", "2x8"], np.array([512.0, 2048.0]), rng)).mean(axis=0)
    assert speeds[0] == pytest.approx(1 / (8e-6 + ITERATION_S / 512), rel=0.05)
    assert speeds[1] == pytest.approx(1 / (8e-6 + ITERATION_S / 2048), rel=0.05)


def test_env_steps_with_other_environments_follow_what_two_cells_show() -> None:
    rng = np.random.default_rng(1)
    at = np.log10(np.array([[3e-4, 512.0, 16.0], [3e-4, 512.0, 32.0]]))
    draws = np.exp(learned(trials(rng, num_seeds=20)).draws(at, rng))
    assert np.median(draws[:, 1] / draws[:, 0]) == pytest.approx(2**0.26, rel=0.1)


def test_without_a_second_number_of_environments_it_may_be_anything_near() -> None:
    rng = np.random.default_rng(1)
    alone = trials(rng).query("envs == 16")
    at = np.log10(np.array([[1e-3, 512.0, 16.0], [1e-3, 512.0, 64.0]]))
    known, unknown = np.log(np.exp(learned(alone).draws(at, rng))).std(axis=0)
    assert unknown > 1.5 * known


def test_a_single_seed_and_a_single_round_have_wide_intervals_and_no_error() -> None:
    rng = np.random.default_rng(2)
    one, many = of(trials(rng, num_seeds=1), rounds(rng, num=1), rng), of(trials(rng, num_seeds=10), rounds(rng), rng)
    widths = [np.median(np.log(found.minutes.high / found.minutes.low)) for found in (one, many)]
    assert widths[0] > widths[1]


def test_trials_that_are_alike_are_as_old_as_they_are_on_average() -> None:
    found = log_staleness(np.array([0.0, 8.0, 99.0, np.nan, np.nan]), ["a", "a", "b", "b", "c"])
    assert found is not None
    mean = (np.log10(9) + 2) / 3
    np.testing.assert_allclose(found, [np.log10(9) / 2, np.log10(9) / 2, 2, 2, mean])
    assert log_staleness(np.full(2, np.nan), ["a", "b"]) is None


def test_samples_are_older_in_updates_the_smaller_the_batch_that_they_are_on_their_way_to() -> None:
    on_its_way = {"0x16": 1024.0, "2x8": 4096.0}
    layouts, batches = ["0x16", "0x16", "2x8"], np.array([512.0, 2048.0, 2048.0])
    staleness = np.array([0.5 + on_its_way[name] / batch for name, batch in zip(layouts, batches, strict=True)])
    found = Measured.of(layouts, batches, np.full(3, 1e4), staleness=staleness)
    at = found.log_staleness_at(["0x16", "2x8", "2x8"], np.array([1024.0, 512.0, 2048.0]))
    np.testing.assert_allclose(10**at - 1, [1.5, 8.5, 2.5])


def test_a_round_that_does_not_say_how_old_its_samples_were_is_left_out() -> None:
    twice, staleness = ["0x16", "0x16"], np.array([3.0, np.nan])
    found = Measured.of(twice, np.full(2, 512.0), np.full(2, 1e4), staleness=staleness)
    np.testing.assert_allclose(found.log_staleness_at(["0x16"], np.array([512.0])), np.log10(4))
    assert Measured.of(twice, np.full(2, 512.0), np.full(2, 1e4), staleness=np.full(2, np.nan)).staleness is None


def test_what_staleness_costs_in_one_cell_is_what_it_costs_in_others() -> None:
    rng, frame = np.random.default_rng(4), trials(np.random.default_rng(4), num_seeds=20)
    older = frame[(frame["lr"] == 1e-3) & (frame["batch"] == 512) & (frame["envs"] == 16)]
    older = older.assign(env_steps=older["env_steps"] * 5**0.5)
    both, fresh = pd.concat([frame, older]), np.full(len(frame), np.log10(2))
    staleness = np.concatenate([fresh, np.full(len(older), 1.0)])  # 1 update, and 9
    found = Learned.of(places(both), both["env_steps"].to_numpy(float), staleness)
    at = np.array([[*place, stale] for place in places(candidates()) for stale in (np.log10(2), 1.0)])
    times = np.exp(np.median(found.draws(at, rng), axis=0)).reshape(-1, 2)
    np.testing.assert_allclose(times[:, 1] / times[:, 0], 5**0.5, rtol=0.2)


def test_the_soonest_is_another_one_where_samples_are_old() -> None:
    rng = np.random.default_rng(0)
    rows, frame, measurements = candidates(), trials(rng), rounds(rng)
    older = frame[frame["envs"] == 16]
    older = older.assign(env_steps=older["env_steps"] * 4)
    both = pd.concat([frame, older])
    staleness = np.concatenate([np.zeros(len(frame)), np.ones(len(older))])
    found = Learned.of(places(both), both["env_steps"].to_numpy(float), staleness)
    ages = measurements["layout"].map({"0x16": 0.0, "2x8": 9.0, "2x16": 9.0}).to_numpy(float)
    speeds = measurements["env_steps_per_s"].to_numpy()
    layouts, batches = measurements["layout"].tolist(), measurements["batch"].to_numpy(float)
    asked = Candidates(places(rows), rows["batch"].to_numpy(float), rows["layout"].tolist(), np.zeros(len(rows)))
    aware = predicted(asked, found, Measured.of(layouts, batches, speeds, staleness=ages), rng)
    blind = predicted(asked, learned(frame), measured(measurements), rng)
    assert rows["layout"][aware.order[0]] == "0x16"
    assert rows["layout"][blind.order[0]].startswith("2x")
