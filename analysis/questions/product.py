"""What reaches the target soonest, of a search that measured env steps to target and seconds an env step apart."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.evidence import Evidence, conclusive, once, replicates
from analysis.questions.runners import ENVS, RUNNERS, total_envs
from analysis.stats.goodput import (
    Candidates,
    Learned,
    Measured,
    Predicted,
    Spread,
    log_staleness,
    longest_start,
    predicted,
)
from analysis.stats.interval import Array, Interval
from analysis.stats.moderated import moderated_intervals
from experiments.contract import is_work

BATCH, MODE = "train_batch_size_total", "vectorize_mode"
LAYOUT = "layout"
STALENESS = "staleness_updates"
_OF_LAYOUT = (RUNNERS, ENVS, MODE)
_NORMAL_90 = 1.645


@dataclass(frozen=True)
class Product:
    """The product for every learning setting in every layout that was measured.

    Attributes:
        table: A row for each, the least regret first: the searched settings, `layout`, its runners, environments of
            each and how they are vectorised; `minutes`, `env_steps` and `env_steps_per_s` with 90% intervals;
            `start_s`, the seconds of these before training; `p_best`, the probability to be the soonest; `regret`, by
            what share it is expected to take longer than the soonest; `is_near`, whether it is expected to be about as
            soon; `num_seeds` that its learning settings were trained with in any layout, and `num_reached`, those of
            them that held the target; and `config`, its name, "" where it was not trained.
            Where samples are older the busier runners are: `staleness_updates` between the policy that samples and the
            one that learns; `least_staleness_updates`, in the layout where these are fewest; and `times_env_steps` with
            a 90% interval, how many times the env steps it takes for that.
        checked: A row for each configuration that was confirmed: `config`; `minutes` with a 90% interval, as predicted
            without these seeds; `measured` with a 95% one; and `holds`, whether they differ by no more than chance.
        num_learned: Trials that env steps are learned from, those that confirm among them.
        num_rounds: Measurements of throughput.
    """

    table: pd.DataFrame
    checked: pd.DataFrame
    num_learned: int
    num_rounds: int

    def row(self, config: str) -> pd.Series | None:
        """What is predicted of a configuration; None if nothing is."""
        rows = self.table[self.table["config"] == config]
        return None if rows.empty else rows.iloc[0]

    @property
    def axes(self) -> list[str]:
        """The searched settings that learning depends on."""
        return [axis for axis in self.table.columns[: self.table.columns.get_loc(LAYOUT)] if axis not in _OF_LAYOUT]

    def beside(self, config: str) -> pd.DataFrame:
        """A configuration's learning settings in every layout, the soonest first; no row if nothing is predicted."""
        own = self.row(config)
        if own is None:
            return self.table.iloc[:0]
        same = (self.table[self.axes] == own[self.axes]).all(axis=1)
        return self.table[same].sort_values("minutes", kind="stable", ignore_index=True)

    def of_settings(self) -> pd.DataFrame:
        """Every learning setting in the layout in which it is the soonest, the soonest first."""
        soonest = self.table.sort_values("minutes", kind="stable").drop_duplicates(self.axes)
        return soonest.reset_index(drop=True)


@dataclass(frozen=True)
class Factors:
    """What a search learned and measured apart.

    Attributes:
        axes: Columns of the searched settings that learning depends on.
        cells: A row for each learning setting: `axes`, and the batch.
        learned: Trials that env steps to target are learned from.
        rounds: Measurements of throughput.
    """

    axes: tuple[str, ...]
    cells: pd.DataFrame
    learned: pd.DataFrame
    rounds: pd.DataFrame

    @property
    def env_steps(self) -> Learned:
        """Env steps to target."""
        learned, staleness = self.learned, None
        if self.throughput.staleness is not None:
            alike = learned["config"].astype(str) + " " + learned["phase"].astype(str)
            staleness = log_staleness(_staleness(learned), alike.tolist())
        steps = learned["env_steps_to_target"].where(learned["status"] == "finished")
        return Learned.of(self.place(learned), steps.fillna(learned["budget_env_steps"]).to_numpy(float), staleness)

    @property
    def throughput(self) -> Measured:
        """Env steps/s, and of an algorithm that samples while it learns the staleness of its samples."""
        rounds = self.rounds
        names = [layout_name(row) for row in rounds.to_dict("records")]
        speeds = rounds["env_steps_per_s"].to_numpy(float)
        batches = rounds[BATCH].to_numpy(float)
        return Measured.of(names, batches, speeds, self.works(rounds), _staleness(rounds))

    @property
    def plain_rounds(self) -> pd.DataFrame:
        """The measurements of what the learner did in most of them: in every layout, near the base's batch."""
        works = pd.Series(self.works(self.rounds), index=self.rounds.index)
        return self.rounds[works == works.mode().iloc[0]]

    def works(self, frame: pd.DataFrame) -> list[str]:
        """What the learner of each row does with an env step, as `Measured` knows it."""
        named = [axis for axis in self.axes if is_work(axis)]
        return [" ".join(f"{axis}={row[axis]:g}" for axis in named) for row in frame.to_dict("records")]

    def place(self, frame: pd.DataFrame) -> Array:
        """Rows with `axes`, runners and environments of each, as `Learned.place` has them without staleness."""
        columns = [*(frame[axis].astype(float) for axis in self.axes), total_envs(frame)]
        return np.asarray(np.log10(np.column_stack(columns)))

    def possible(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows, with batch and environments of each runner, that can be run. An algorithm that samples while it
        learns makes batches of whole samples: none has more environments than a batch as large, or a smaller one, was
        tried with.
        """
        if self.throughput.staleness is None:
            return frame
        tried = pd.concat([self.rounds, self.learned])
        most = [tried.loc[tried[BATCH] <= batch, ENVS].max() for batch in frame[BATCH]]
        return frame[frame[ENVS].to_numpy() <= np.array(most)].reset_index(drop=True)

    def start_s(self, runners: pd.Series) -> Array:
        """Seconds before training, by the runners."""
        starts = zip(self.rounds[RUNNERS].astype(int), self.rounds["start_s"].fillna(0.0), strict=True)
        return longest_start([int(count) for count in runners], [(count, float(s)) for count, s in starts])


def _staleness(runs: pd.DataFrame) -> Array:
    """Of trials, NaN where they have none."""
    of_runs = runs[STALENESS] if STALENESS in runs else np.full(len(runs), np.nan)
    return np.asarray(of_runs, dtype=float)


def factors_of(evidence: Evidence, with_confirmed: bool = True) -> Factors | None:
    """What a search on one environment learned and measured apart; None of other studies, and of one that has not
    come so far.

    Args:
        evidence: All of its trials.
        with_confirmed: Whether env steps are learned from the trials that confirm as well.
    """
    runs = replicates(evidence.runs)
    ended = runs[runs["status"].isin(["finished", "failed"])].astype({"exploratory": bool})
    tried = ended[ended["exploratory"]]
    rounds, searched = (
        tried[(tried["phase"] == "throughput") & tried["env_steps_per_s"].gt(0)],
        tried[tried["phase"] == "search"],
    )
    if rounds.empty or searched.empty or runs["env"].nunique() > 1:
        return None
    axes = tuple(axis for axis in evidence.axes if axis in runs and axis not in _OF_LAYOUT)
    columns = list(dict.fromkeys([*axes, BATCH]))
    cells = searched[columns].drop_duplicates(subset=[*axes], ignore_index=True)
    learned = pd.concat([searched, ended[~ended["exploratory"]]]) if with_confirmed else searched
    found = Factors(axes, cells, learned, rounds)
    measured = pd.Series(found.works(cells)).isin(found.works(rounds))
    return replace(found, cells=cells[measured].reset_index(drop=True))


@once
def product_of(evidence: Evidence) -> Product | None:
    """The product of a search on one environment that measured layouts and trained learning settings apart.

    Args:
        evidence: All of its trials.

    Returns:
        None of other studies, and of one that has not come so far.
    """
    factors, before = factors_of(evidence), factors_of(evidence, with_confirmed=False)
    if factors is None or before is None:
        return None
    runs = replicates(evidence.runs)
    confirmed = runs[~runs["exploratory"].astype(bool) & runs["status"].isin(["finished", "failed"])]
    return Product(
        _predicted(factors, confirmed),
        _checked(_predicted(before, confirmed), confirmed),
        len(factors.learned),
        len(factors.rounds),
    )


def _predicted(factors: Factors, named: pd.DataFrame) -> pd.DataFrame:
    layouts = factors.rounds[[*_OF_LAYOUT]].drop_duplicates()
    cells = factors.possible(factors.cells.merge(layouts, how="cross"))
    start_s = factors.start_s(cells[RUNNERS])
    candidates = Candidates(
        factors.place(cells),
        cells[BATCH].to_numpy(float),
        [layout_name(row) for row in cells.to_dict("records")],
        start_s,
        factors.works(cells),
    )
    learned, measured = factors.env_steps, factors.throughput
    found = predicted(candidates, learned, measured, np.random.default_rng(0))
    table = _table(factors, cells, found, named, start_s)
    if learned.num_common > 1:
        table = table.join(_cost_of_staleness(factors, cells, candidates.places(learned, measured), learned))
    return table.iloc[found.order].reset_index(drop=True)


def _cost_of_staleness(factors: Factors, cells: pd.DataFrame, places: Array, learned: Learned) -> pd.DataFrame:
    """How old the samples of configurations are, and what that costs in env steps, against samples as old as in the
    layout where they are least so: the columns of `Product.table`.
    """
    logs = pd.Series(places[:, -1], cells.index)
    least = logs.groupby([cells[axis] for axis in factors.axes]).transform("min")
    freshest = np.column_stack([places[:, :-1], least])
    each, which = np.unique(np.vstack([places, freshest]), axis=0, return_inverse=True)
    draws = learned.draws(each, np.random.default_rng(0))[:, which.ravel()]
    times = Spread.of(np.exp(draws[:, : len(cells)] - draws[:, len(cells) :]))
    return pd.DataFrame(
        {
            STALENESS: 10**logs - 1,
            f"least_{STALENESS}": 10**least - 1,
            "times_env_steps": times.median,
            "times_env_steps_low": times.low,
            "times_env_steps_high": times.high,
        },
        index=cells.index,
    )


def layout_name(row: Mapping[Hashable, object]) -> str:
    """A layout as `Measured` knows it."""
    return " ".join(str(row[name]) for name in _OF_LAYOUT)


def _table(
    factors: Factors, cells: pd.DataFrame, found: Predicted, named: pd.DataFrame, start_s: Array
) -> pd.DataFrame:
    axes, learned = factors.axes, factors.learned
    keys = [*axes, *_OF_LAYOUT]
    names = named.drop_duplicates("config").set_index(keys)["config"].astype(str)
    several = cells[MODE].nunique() > 1
    table = cells[keys].assign(**{LAYOUT: [_called(row, several) for row in cells.to_dict("records")]})
    for name in ("minutes", "env_steps", "env_steps_per_s"):
        spread = getattr(found, name)
        table = table.assign(**{name: spread.median, f"{name}_low": spread.low, f"{name}_high": spread.high})
    table = table.assign(start_s=start_s, p_best=found.p_best, regret=found.regret, is_near=found.is_near)
    reached = learned[learned["env_steps_to_target"].notna() & (learned["status"] == "finished")]
    for name, trials in (("num_seeds", learned), ("num_reached", reached)):
        seeds = trials.groupby([*axes], observed=True)["seed"].nunique().rename(name)
        table = table.join(seeds, on=[*axes]).fillna({name: 0})
    table["config"] = [names.get(key, "") for key in table[keys].itertuples(index=False, name=None)]
    return table


def _called(row: dict[str, object], with_mode: bool) -> str:
    runners, envs = row[RUNNERS], row[ENVS]
    return f"{runners} x {envs}{f' {row[MODE]}' if with_mode else ''}"


def _checked(table: pd.DataFrame, confirmed: pd.DataFrame) -> pd.DataFrame:
    """What was predicted beside what was measured: they may differ by the errors of both, on a logarithmic scale."""
    measured = conclusive(confirmed)
    rows = []
    for config, trials in measured.groupby("config", observed=True, sort=False):
        own = table[table["config"] == str(config)]
        if own.empty or len(trials) < 2:
            continue
        logs = np.log(trials["minutes_to_target"].to_numpy(float))
        row = own.iloc[0]
        error = np.hypot(
            np.log(row["minutes_high"] / row["minutes_low"]) / 2 / _NORMAL_90, logs.std(ddof=1) / len(logs) ** 0.5
        )
        minutes = moderated_intervals(trials["minutes_to_target"].to_numpy(float)[None], (0.0, np.inf))
        mean = Interval(float(minutes.estimate[0]), float(minutes.low[0]), float(minutes.high[0]))
        rows.append(
            {
                "config": str(config),
                **{name: row[name] for name in ("minutes", "minutes_low", "minutes_high")},
                "measured": mean.estimate,
                "measured_low": mean.low,
                "measured_high": mean.high,
                "holds": bool(abs(np.log(mean.estimate / row["minutes"])) <= 1.96 * error),
            }
        )
    columns = ["config", "minutes", "minutes_low", "minutes_high", "measured", "measured_low", "measured_high", "holds"]
    return pd.DataFrame(rows, columns=columns)
