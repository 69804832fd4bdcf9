"""Two studies side by side: what differs in their settings, what may be compared,
and by how much their configurations differ.

Pure functions of the studies' frames and of what they recorded of their settings. As within a study, only trials that
finished count, and configurations are compared on the same environment alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from analysis.evidence import SPEEDS, conclusive, is_measured
from analysis.questions.convergence import by_seed
from analysis.questions.machines import trials_by_kind
from analysis.stats.comparisons import holm, p_values, unpaired
from analysis.stats.interval import antilog
from analysis.stats.moderated import Estimates, moderated_intervals, paired_differences

MEASURES = ("score", "env_steps_to_target", "env_steps_per_s")
"""The measures that are compared between studies."""

Settings = Mapping[str, Any]
"""Dotted path to value."""

_GROUPS = ("algorithm", "env", "hardware")
"""Axes that choose a file; its name is the setting `<group>.name`."""
_ENV = ("env.id", "env.env_config")
_EVALUATION = ("evaluation.episodes", "evaluation.every_env_steps", "report_every_env_steps")
_MACHINE = ("cpu", "cpu_count", "gpus")
"""The facts by which two machines are of one kind, of those that a study's provenance has under `host`."""
_UNKNOWN = "settings that were not recorded"


@dataclass(frozen=True)
class Side:
    """One of the studies.

    Attributes:
        letter: What it is called: A, B, ...
        runs: The trials that its conclusions rest on, as `convergence.concluding` gives them.
        paths: Of the searched settings.
        points: Configuration to the values that it was given of these.
        settings: Configuration to all its settings; those whose record is missing have none.
        overall: Settings of the study as a whole.
        host: Of its machine: `cpu`, `cpu_count`, `gpus`; empty if unknown.
        num_nodes: Of its cluster.
    """

    letter: str
    runs: pd.DataFrame
    paths: tuple[str, ...]
    points: Mapping[str, Settings]
    settings: Mapping[str, Settings]
    overall: Settings
    host: Mapping[str, Any]
    num_nodes: int = 1

    def of(self, config: str) -> dict[str, Any]:
        """All settings of a configuration, those of its point that a trial does not know as such included."""
        planned = self.runs[self.runs["config"] == config].iloc[0]
        names = {f"{group}.name": planned[group] for group in _GROUPS}
        point = {
            path: value
            for path, value in self.points.get(config, {}).items()
            if path in self.paths and path not in _GROUPS
        }
        return {**names, **point, **self.settings.get(config, {})}


@dataclass(frozen=True)
class DifferingSetting:
    """A setting that is not the same in all studies.

    Attributes:
        path: Dotted.
        values: Of each study, those that its configurations have, in the order of the plan;
            empty where it has no such setting.
    """

    path: str
    values: tuple[tuple[Any, ...], ...]


def flat(nested: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested settings by their dotted paths; lists stay values."""
    found: dict[str, Any] = {}
    for key, value in nested.items():
        found |= flat(value, f"{before}{key}.") if isinstance(value, Mapping) else {f"{before}{key}": value}
    return found


def differing(sides: Sequence[Side]) -> list[DifferingSetting]:
    """The settings of which studies do not have the same values, those of the trials first.

    Args:
        sides: Two or more.
    """
    tables = []
    for side in sides:
        table: dict[str, list[Any]] = {}
        for path, value in (item for config in side.runs["config"].unique() for item in side.of(config).items()):
            known = table.setdefault(path, [])
            if _plain(value) not in map(_plain, known):
                known.append(value)
        tables.append({**table, **{path: [value] for path, value in side.overall.items() if path not in table}})
    return different(tables)


def different(tables: Sequence[Mapping[str, Sequence[Any]]]) -> list[DifferingSetting]:
    """The keys of several tables whose values are not the same in all, each table a mapping of key to values."""
    paths = dict.fromkeys(path for table in tables for path in table)
    rows = [DifferingSetting(path, tuple(tuple(table.get(path, ())) for table in tables)) for path in paths]
    return [row for row in rows if len({tuple(map(_plain, values)) for values in row.values}) > 1]


def shared(a: Side, b: Side) -> list[tuple[str, str]]:
    """The configurations that two studies have in common: on the same environment,
    with the same values of all that either searched.

    Other settings may differ: they are what sets the studies apart.

    Returns:
        The configuration as the one and as the other calls it, in the order of the first.
    """
    axes = [f"{path}.name" if path in _GROUPS else path for path in dict.fromkeys((*a.paths, *b.paths))]

    def key(side: Side, config: str) -> tuple[str, ...] | None:
        settings = {**side.overall, **side.of(config)}
        known = all(path in settings for path in axes)
        return tuple(_plain(settings[path]) for path in ("env.name", *axes)) if known else None

    of_b = {found: config for config in map(str, b.runs["config"].unique()) if (found := key(b, config)) is not None}
    pairs = (
        (config, of_b.get(found))
        for config in map(str, a.runs["config"].unique())
        if (found := key(a, config)) is not None
    )
    return [(config, other) for config, other in pairs if other is not None]


def obstacles(a: Side, config_a: str, b: Side, config_b: str, measure: str) -> list[str]:
    """Why a measure of two configurations may not be compared, a clause each; none if it may.

    Args:
        a: The study of the one.
        config_a: Its name there.
        b: The study of the other.
        config_b: Its name there.
        measure: One of `MEASURES`.
    """
    of_a, of_b = a.settings.get(config_a, {}), b.settings.get(config_b, {})
    measured = [side for side in (a, b) if is_measured(side.runs)]
    if unknown := [side.letter for side, settings in ((a, of_a), (b, of_b)) if not settings]:
        return [f"{' and '.join(unknown)} ran with {_UNKNOWN}"]
    found = [_told("the environments differ", a, of_a, b, of_b, _ENV)]
    if measure != "env_steps_per_s":
        who = "both" if len(measured) == 2 else "".join(side.letter for side in measured)
        found.append(f"{who} measured throughput in place of training" if measured else "")
    if measure == "score" and not measured:
        found.append(
            _told(
                "scores are of policies after different budgets",
                a,
                of_a,
                b,
                of_b,
                ("budget_env_steps", "stop_at_target"),
            )
        )
    elif measure == "env_steps_to_target" and not measured:
        found.append(_told("the targets differ", a, of_a, b, of_b, ("env.target",)))
        found.append("the environment has no target" if of_a.get("env.target") is None else "")
        found.append(_told("the way to the target was evaluated differently", a, of_a, b, of_b, _EVALUATION))
    elif measure == "env_steps_per_s":
        if len(measured) == 1:
            found.append(
                f"{measured[0].letter} measured throughput by itself, the other study while it trained and evaluated"
            )
        if beside := [side.letter for side in (a, b) if not _alone(side)]:
            found.append(f"trials of {' and '.join(beside)} ran side by side on one machine")
        found += _machines(a, b)
    return [clause for clause in found if clause]


def _machines(a: Side, b: Side) -> list[str]:
    kinds = [list(trials_by_kind(side.runs)) for side in (a, b)]
    if several := [side.letter for side, of_side in zip((a, b), kinds, strict=True) if len(of_side) > 1]:
        return [f"trials of {' and '.join(several)} ran on several kinds of machine"]
    if all(kinds) and kinds[0] != kinds[1]:
        return [f"the machines differ: {a.letter} ran on {kinds[0][0]}, {b.letter} on {kinds[1][0]}"]
    if all(kinds) and a.num_nodes > 1 and b.num_nodes > 1:  # each recorded with its trials
        return []
    hosts = [{name: side.host.get(name) for name in _MACHINE} for side in (a, b)]
    if not all(any(host.values()) for host in hosts):
        return ["the machine of a study is unknown"]
    if hosts[0] != hosts[1]:
        words = [
            f"{side.letter} ran on {host['cpu']} with {host['cpu_count']} CPUs"
            for side, host in zip((a, b), hosts, strict=True)
        ]
        gpus = [f", {len(host['gpus'] or [])} GPUs" if hosts[0]["gpus"] != hosts[1]["gpus"] else "" for host in hosts]
        return [f"the machines differ: {', '.join(word + gpu for word, gpu in zip(words, gpus, strict=True))}"]
    several = [side.letter for side in (a, b) if side.num_nodes > 1]
    return [f"{' and '.join(several)} ran on several nodes, of which one was recorded"] if several else []


def _alone(side: Side) -> bool:
    started = side.runs[side.runs["run_id"].notna()]
    return bool(started["exclusive"].all())


def _told(what: str, a: Side, of_a: Settings, b: Side, of_b: Settings, paths: Iterable[str]) -> str:
    """The settings below some paths that differ, in a clause; "" if none does."""
    known = [p for p in dict.fromkeys((*of_a, *of_b)) if any(p == path or p.startswith(f"{path}.") for path in paths)]
    words = [
        f"{p} {_shown(of_a, p)} in {a.letter}, {_shown(of_b, p)} in {b.letter}"
        for p in known
        if _plain(of_a.get(p)) != _plain(of_b.get(p))
    ]
    return f"{what}: {'; '.join(words)}" if words else ""


def _shown(settings: Settings, path: str) -> str:
    return _plain(settings.get(path, "none"))


def _plain(value: Any) -> str:
    """A value as text, numbers that are equal alike: 1 and 1.0."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, float):
        return f"{value:.12g}"
    return str(value)


def compare(a: Side, b: Side, pairs: Sequence[tuple[str, str]], measure: str) -> pd.DataFrame:
    """How configurations of one study differ from those of another by a measure, on seeds.

    Seed for seed where most seeds of both are common to them: as within a study, the streams of a seed are the same
    whatever is run with it. Else by Welch's test. Variances are averaged over the configurations of both studies, as if
    they were one (Smyth 2004).

    Args:
        a: The one; the measure may be compared.
        b: The other.
        pairs: Configurations of both, on one environment.
        measure: One of `MEASURES`. Env steps to target count up to the smaller of the budgets. Of env steps/s the
            logarithm is compared.

    Returns:
        A row a pair: `config_a`, `config_b`; `difference` of the means, a minus b, with its interval; of env steps/s it
        is the ratio of the geometric means. `p`, two-sided; `num_a` and `num_b`, finished seeds; `num_common`;
        `num_equal`, common seeds with the same value to the bit; `paired`.
    """
    if not pairs:
        return pd.DataFrame()
    env = a.runs.loc[a.runs["config"] == pairs[0][0], "env"].iloc[0]
    frames = [conclusive(side.runs[side.runs["env"] == env]) for side in (a, b)]
    horizon = min(int(frame["budget_env_steps"].min()) if len(frame) else 0 for frame in frames)
    parts = []
    for frame in frames:
        matrix = by_seed(frame, measure)
        parts.append(
            np.log(matrix)
            if measure in SPEEDS
            else matrix.clip(upper=horizon)
            if measure == "env_steps_to_target"
            else matrix
        )
    matrix = pd.concat(parts, keys=(a.letter, b.letter))
    first, second, differences = paired_differences(matrix.to_numpy())
    means = moderated_intervals(matrix.to_numpy())
    place = {key: i for i, key in enumerate(matrix.index)}
    rows = []
    for config_a, config_b in pairs:
        i, j = place.get((a.letter, config_a)), place.get((b.letter, config_b))
        if i is None or j is None:
            continue
        has = np.isfinite(matrix.to_numpy()[[i, j]])
        equal = int((matrix.to_numpy()[i] == matrix.to_numpy()[j]).sum())
        common, most = int(has.all(axis=0).sum()), int(has.sum(axis=1).max())
        paired = common > 1 and 2 * common > most
        found = _at(differences, np.flatnonzero((first == i) & (second == j))) if paired else unpaired(means, i, j)
        columns = found.columns("difference")
        if measure in SPEEDS:
            columns = {name: antilog(value) for name, value in columns.items()}
        # no spread anywhere is no certainty
        p = float(p_values(found)[0]) if found.se[0] > 0 or found.estimate[0] == 0 else np.nan
        counts = {
            "num_a": int(has[0].sum()),
            "num_b": int(has[1].sum()),
            "num_common": common,
            "num_equal": equal,
            "paired": paired,
        }
        numbers = {name: float(value[0]) for name, value in columns.items()}
        rows.append({"config_a": config_a, "config_b": config_b, **numbers, "p": p, **counts})
    return pd.DataFrame(rows)


def _at(found: Estimates, where: np.ndarray[Any, np.dtype[np.int64]]) -> Estimates:
    return Estimates(*(getattr(found, name)[where] for name in ("estimate", "low", "high", "se", "df", "num_seeds")))


def comparisons(sides: Sequence[Side], pairs: Mapping[tuple[str, str], Sequence[tuple[str, str]]]) -> pd.DataFrame:
    """All comparisons of one kind: every pair of studies, measure by measure.

    Args:
        sides: Two or more.
        pairs: Letters of two studies to the configurations that are compared.

    Returns:
        As `compare`, with `a`, `b` (letters), `env`, `measure`, `same_id` (one configuration to the last setting),
        `obstacles` (a tuple; then there are no numbers) and `p_adjusted` (Holm, over all comparisons by the measure).
    """
    rows: list[dict[str, Any]] = []
    for a, b in combinations(sides, 2):
        envs = a.runs.drop_duplicates("config").set_index("config")["env"]
        ids = [side.runs.drop_duplicates("config").set_index("config")["config_id"] for side in (a, b)]
        for measure in MEASURES:
            for env in dict.fromkeys(envs[config] for config, _ in pairs[a.letter, b.letter]):
                of_env = [pair for pair in pairs[a.letter, b.letter] if envs[pair[0]] == env]
                reasons = {pair: tuple(obstacles(a, pair[0], b, pair[1], measure)) for pair in of_env}
                compared = compare(a, b, [pair for pair in of_env if not reasons[pair]], measure).to_dict("records")
                known = {(row["config_a"], row["config_b"]): row for row in compared}
                for pair in of_env:
                    head = {
                        "a": a.letter,
                        "b": b.letter,
                        "env": env,
                        "measure": measure,
                        "config_a": pair[0],
                        "config_b": pair[1],
                    }
                    same = {"same_id": ids[0][pair[0]] == ids[1][pair[1]]}
                    rows.append({**head, **same, "obstacles": reasons[pair], **known.get(pair, {})})
    columns = ["a", "b", "env", "measure", "config_a", "config_b", "same_id", "obstacles"]
    columns += [
        "difference",
        "difference_low",
        "difference_high",
        "p",
        "num_a",
        "num_b",
        "num_common",
        "num_equal",
        "paired",
    ]
    frame = pd.DataFrame(rows).reindex(columns=columns)
    frame["p_adjusted"] = np.nan
    for _, of_measure in frame.groupby("measure"):
        frame.loc[of_measure.index, "p_adjusted"] = holm(of_measure["p"].to_numpy(dtype=float))
    return frame
