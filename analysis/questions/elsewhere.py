"""What would reach the target soonest on another machine: env steps as they were learned, throughput by its laws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.questions.prediction import Target, predict
from analysis.questions.product import BATCH, Factors, layout_name
from analysis.questions.runners import ENVS, RUNNERS, total_envs
from analysis.stats.goodput import INTERVAL, Learned, Measured, law_of_staleness
from analysis.stats.interval import Array


@dataclass(frozen=True)
class Machine:
    """A machine that a study is asked for.

    Attributes:
        most_runners: That it has room for.
        runners: Runners of its profile, which are asked for as well; None: none in particular.
        envs: Environments of each, likewise.
        speed: Times as fast it is as the one that measured, process by process; 1: nobody knows.
    """

    most_runners: int
    runners: int | None = None
    envs: int | None = None
    speed: float = 1.0


def layouts_of(machine: Machine, measured: pd.DataFrame) -> list[tuple[int, int]]:
    """The layouts to choose from on a machine, runners and environments of each: the measured ones that it has room
    for, powers of two of runners up to what it has room for, and its profile's.

    Args:
        machine: The machine.
        measured: Measurements of throughput.
    """
    envs = {*measured[ENVS].astype(int), *([machine.envs] if machine.envs else [])}
    counts = {int(count) for count in measured[RUNNERS] if count <= machine.most_runners}
    counts |= {2**power for power in range(20) if 2**power <= machine.most_runners}
    counts |= {machine.runners} if machine.runners is not None else set()
    return [(runners, each) for runners in sorted(counts) for each in sorted(envs)]


def elsewhere(
    factors: Factors, curves: pd.DataFrame, facts: Mapping[str, Mapping[str, Any]], machine: Machine
) -> pd.DataFrame:
    """The time to the target of every learning setting in every layout that a machine has room for: predicted.

    Env steps are those that were learned, with more environments where there are more runners, and older samples where
    these sample while the learner learns: as old as was measured in the layout, or in proportion to its environments.
    Throughput is what was measured, or that of `prediction.predict`: a range where more
    runners are asked for than were measured, from none of the further ones helping to the serial part alone. A
    machine's own speed rescales both.

    Args:
        factors: What a search learned and measured apart.
        curves: Of its measurements, with the shares of their time.
        facts: As the study recorded them.
        machine: The machine.

    Returns:
        A row for each, the soonest first by the middle of its range: the learning settings, runners, environments of
        each; `minutes` with the ends of its range, 90% of the env steps at either end of the throughput; and
        `is_bound`, whether the throughput is a range.
    """
    rounds, rows = factors.plain_rounds.assign(exploratory=False), []
    base = rounds.loc[rounds[BATCH] == rounds[BATCH].mode().iloc[0]].iloc[:1]
    rounds["env_steps_per_s"] /= _times_as_fast(factors, rounds, base)
    rounds[BATCH] = base[BATCH].iloc[0]
    of_learning = _times_as_fast(factors, factors.cells, base)
    for runners, envs in layouts_of(machine, rounds):
        slowest, fastest, is_bound = _throughput(factors, rounds, curves, facts, (runners, envs))
        rows += [
            {
                **cell,
                RUNNERS: runners,
                ENVS: envs,
                "slowest": machine.speed * times * slowest,
                "fastest": machine.speed * times * fastest,
                "is_bound": is_bound,
            }
            for cell, times in zip(factors.cells.to_dict("records"), of_learning, strict=True)
        ]
    table = factors.possible(pd.DataFrame(rows))
    learned = factors.env_steps
    steps = np.exp(learned.draws(_places(factors, table, learned, factors.throughput), np.random.default_rng(0)))
    few, middle, many = np.quantile(steps, [(1 - INTERVAL) / 2, 0.5, (1 + INTERVAL) / 2], axis=0)
    start_s = factors.start_s(table[RUNNERS])
    table["num_envs"] = total_envs(table)
    table["minutes_low"] = (start_s + few / table["fastest"]) / 60
    table["minutes_high"] = (start_s + many / table["slowest"]) / 60
    table["minutes"] = (start_s + middle / np.sqrt(table["fastest"] * table["slowest"])) / 60
    return table.sort_values("minutes", kind="stable", ignore_index=True)


def _places(factors: Factors, table: pd.DataFrame, learned: Learned, measured: Measured) -> Array:
    """As `Learned.place`, with staleness where that is known of what was learned."""
    if learned.num_common == 1 or measured.staleness is None:
        return factors.place(table)

    def design(frame: pd.DataFrame) -> Array:
        return np.column_stack([np.ones(len(frame)), total_envs(frame) / frame[BATCH].astype(float)])

    staleness = np.log10(1 + law_of_staleness(design(factors.rounds), measured.staleness, design(table)))
    names = {(row[RUNNERS], row[ENVS]): layout_name(row) for row in factors.rounds.to_dict("records")}
    layouts = [names.get((row[RUNNERS], row[ENVS]), "") for row in table.to_dict("records")]
    here = np.array([name != "" for name in layouts])
    own, names_here = table[here], [name for name in layouts if name]
    staleness[here] = measured.log_staleness_at(names_here, own[BATCH].to_numpy(float), factors.works(own))
    return np.column_stack([factors.place(table), staleness])


def _throughput(
    factors: Factors,
    rounds: pd.DataFrame,
    curves: pd.DataFrame,
    facts: Mapping[str, Mapping[str, Any]],
    layout: tuple[int, int],
) -> tuple[float, float, bool]:
    """The ends of a layout's throughput at the batch of `rounds`, and whether nothing is known but bounds."""
    own = rounds[(rounds[RUNNERS] == layout[0]) & (rounds[ENVS] == layout[1])]
    if len(own):
        batch = np.array([float(own[BATCH].iloc[0])])
        name = layout_name(own.iloc[0].to_dict())
        logs = factors.throughput.draws([name], batch, np.random.default_rng(0), works=factors.works(own.iloc[:1]))
        low, high = np.exp(np.quantile(logs, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2]))
        return float(low), float(high), False
    found = predict(rounds, curves, Target(1.0, *layout), facts)
    speed = found.env_steps_per_s
    if np.isfinite([speed.low, speed.high]).all():
        return speed.low, speed.high, found.is_bound
    return speed.estimate, speed.estimate, found.is_bound


def _times_as_fast(factors: Factors, settings: pd.DataFrame, base: pd.DataFrame) -> Array:
    """Times as fast as with the learning settings of the base, in the layout of fewest processes: what an iteration
    takes whatever its size is there in every layout.
    """
    simplest = layout_name(factors.rounds.sort_values(RUNNERS).iloc[0].to_dict())
    each = pd.concat([settings, base], ignore_index=True)
    names, batches = [simplest] * len(each), each[BATCH].to_numpy(float)
    draws = factors.throughput.draws(names, batches, np.random.default_rng(0), works=factors.works(each))
    logs = np.median(draws, axis=0)
    return np.asarray(np.exp(logs[:-1] - logs[-1]))


def widest(table: pd.DataFrame) -> Sequence[tuple[int, int]]:
    """The layouts whose measurement there would narrow the answer most: the soonest by the middle of their range, and
    the one that may be sooner by its lower end, if that is another.

    Args:
        table: As `elsewhere` gives it.
    """
    first, soonest = table.iloc[0], table.loc[table["minutes_low"].idxmin()]
    return list(dict.fromkeys((int(row[RUNNERS]), int(row[ENVS])) for row in (first, soonest)))
