"""The next step to know more, its cost, and the command line for it."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.evidence import SPEEDS
from analysis.load import Study
from analysis.questions.decision import Decision
from analysis.questions.labels import WORDS, code, rough_time
from conf import CONFIG_DIR, config_dirs
from experiments.contract import NAMED_AXES
from experiments.contract.words import plural

FRESH_SEEDS = 5
"""Seeds, at least, of the command that tries the answer again."""
MOST_FRESH_SEEDS = 20
"""More than these are not advised: a difference that takes them is small beside the spread of seeds."""
_MOST_TOLD = 1000
_REPLACED = ("seeds", "dry_run", "resume", "study.space", "study.name", "study.key")
"""Settings of a study's command line that the recommended one sets itself, or does without."""
_SEARCHING = ("search", "scheduler", "confirmation", "max_env_steps", "max_minutes")
"""Settings, and groups of them, that say how a study chooses its trials: where all is run,
there is nothing to choose."""


@dataclass(frozen=True)
class StudyCommand:
    """A study and the command line that ran it, for a command line of the next one.

    Attributes:
        study: Its name.
        command: The command line that ran it; "" if unknown.
        points: Configuration to what a command sets that runs it by itself.
        seeds: All that it was given.
        at_once: Trials that ran side by side.
    """

    study: str
    command: str
    points: Mapping[str, Mapping[str, Any]]
    seeds: Sequence[int]
    at_once: int = 1


@dataclass(frozen=True)
class NextStep:
    """A step that shows more.

    Attributes:
        sentence: What it would show and how long it takes, Markdown.
        command: For a POSIX shell.
    """

    sentence: str
    command: str


def study_command(study: Study) -> StudyCommand:
    """How a study was run."""
    return StudyCommand(study.name, study.command, study.points, [*study.seeds, *study.runs["seed"]], study.concurrency)


def next_step(decision: Decision, runs: pd.DataFrame, asked: StudyCommand) -> NextStep | None:
    """The step that is worth most for its cost, on seeds that the choice has not seen.

    Where a few more seeds are likely to find differences among the leaders significant, these are run again, but for
    those that are practically the same; else the chosen one by itself,
    since its numbers flatter it.

    Args:
        decision: Of the environment.
        runs: The trials of the study, as `analysis.load` gives them.
        asked: What ran the study.

    Returns:
        None where there is nothing to go by: no trial finished, or the study did not record
        how to run its configurations.
    """
    rivals = [config for config in decision.leaders if config == decision.chosen or config not in decision.equivalent]
    leaders = [asked.points.get(config) for config in rivals]
    if decision.chosen is None or not leaders or not leaders[0]:
        return None
    settings, space = dict(leaders[0]), _grid_of(leaders)
    configurations = math.prod(len(values) for values in space.values())
    # one seed has no spread to go by
    fewest, most = (FRESH_SEEDS, FRESH_SEEDS) if decision.num_seeds == 1 else decision.telling_seeds
    matters = f"{100 * decision.matters:g}%" if decision.measure in SPEEDS else f"{decision.matters:,.4g}"
    matters = f"{matters} in {WORDS[decision.measure]}"
    num_seeds, tied = FRESH_SEEDS, len(leaders) > 1
    if tied and space and configurations <= 2 * len(leaders) and fewest <= MOST_FRESH_SEEDS:
        settings = {path: value for path, value in settings.items() if path not in space}
        num_seeds = max(FRESH_SEEDS, math.ceil(min(most, MOST_FRESH_SEEDS)))
        part = "" if configurations == len(leaders) else " (the part of the grid that holds them)"
        apart = "" if math.isnan(decision.matters) else f", if they differ by {matters}"
        what = f"To tell them apart{apart}: {configurations} configurations{part} on {num_seeds} fresh seeds"
    else:
        space, configurations = {}, 1
        takes = f"{fewest:,.0f} to {most:,.0f}" if most <= _MOST_TOLD else f"more than {MOST_FRESH_SEEDS}"
        too_many = f"To tell a difference of {matters} from {code(decision.runner_up)} takes {takes} seeds each. "
        told = too_many if tied and math.isfinite(decision.matters) else ""
        what = f"{told}To confirm it: {plural(num_seeds, 'fresh seed')}"
    trials = runs[runs["config"].isin(rivals) & (runs["status"] == "finished")]
    seconds = (
        configurations
        * num_seeds
        * float(trials["wall_s"].mean())
        / max(1, min(asked.at_once, configurations * num_seeds))
    )
    cost = f", {rough_time(seconds)}" if math.isfinite(seconds) else ""
    return NextStep(f"{what}{cost}.", command_for(asked, settings, space, num_seeds))


def _grid_of(points: Sequence[Mapping[str, Any] | None]) -> dict[str, list[Any]]:
    """The values of each setting in which points differ; empty where they do not have the same settings."""
    known = [point for point in points if point]
    if len(known) < len(points) or any(point.keys() != known[0].keys() for point in known):
        return {}
    columns = {path: [point[path] for point in known] for path in known[0]}
    values = {
        path: [value for i, value in enumerate(column) if value not in column[:i]] for path, column in columns.items()
    }
    return {path: found for path, found in values.items() if len(found) > 1}


def command_for(
    asked: StudyCommand, settings: Mapping[str, Any], space: Mapping[str, Sequence[Any]], num_seeds: int
) -> str:
    """The command line that runs configurations of a study on seeds that it has not seen.

    Args:
        asked: What ran the study; the other settings of its command line are kept.
        settings: Configuration path, or name of an axis, to value, of what was searched.
        space: The same, to values.
        num_seeds: How many.

    Returns:
        A command for a POSIX shell.
    """
    words = shlex.split(asked.command)
    script = next((i for i, word in enumerate(words) if word.endswith("run.py")), None)
    given, own_folders = config_dirs(words[script + 1 :] if script is not None else [])
    paths = {w: w.lstrip("+~").partition("=")[0] for w in given if not w.startswith("-")}
    replaced = {*_REPLACED, *settings, *space}
    kept = [w for w, path in paths.items() if path not in replaced and path.partition(".")[0] not in _SEARCHING]
    fresh = range(max(asked.seeds) + 1, max(asked.seeds) + 1 + num_seeds)
    chosen = [f"{path}={hydra_value(value)}" for path, value in settings.items() if path not in NAMED_AXES]
    axes = {**{path: [value] for path, value in settings.items() if path in NAMED_AXES}, **space}
    relative = {
        path: {"distribution": "multiples", "factors": values} if path in NAMED_AXES else values
        for path, values in axes.items()
    }
    study = [
        f"study.space={hydra_value(relative)}",
        f"study.name={asked.study}-confirm",
        f"seeds={hydra_value(list(fresh))}",
    ]
    own = [word for folder in own_folders for word in (CONFIG_DIR, folder)]
    return shlex.join(
        ["python", words[script] if script is not None else "experiments/run.py", *own, *kept, *chosen, *study]
    )


def hydra_value(value: Any) -> str:
    """A value as Hydra reads it back."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(hydra_value(v) for v in value)}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{k}:{hydra_value(v)}" for k, v in value.items()) + "}"
    return str(value)
