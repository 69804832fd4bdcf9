"""The next step to know more, its cost, and the command line for it."""

import math
import shlex
from dataclasses import dataclass

import pandas as pd

from analysis.evidence import SPEEDS, TO_COME, replicates
from analysis.load import Study
from analysis.questions.confirmation import LEADERS, rivals_of
from analysis.questions.decision import Decision
from analysis.questions.labels import WORDS, code, rough_time, time_shown
from analysis.stats.interval import Interval
from conf import CONFIG_DIR, config_dirs
from experiments.contract import PROGRAM
from experiments.contract.words import plural

FRESH_SEEDS = 5
"""Seeds, at least, of the command that tries the answer again; as many as `confirm=` takes by itself."""
MOST_FRESH_SEEDS = 20
"""More than these are not advised: a difference that takes them is small beside the spread of seeds."""
_MOST_TOLD = 1000
_WHERE = ("output_dir", "tracking", "tracking.uri", "hardware.address")
"""Settings of a command line that say where studies are kept, and where they run."""
_OF_ONE_STUDY = ("dry_run", "resume", "study.key")
"""Settings that are of one study, and not of another that is like it."""


@dataclass(frozen=True)
class StudyCommand:
    """A study and the command line that ran it, for a command line of the next one.

    Attributes:
        named: Its run id; or its folder, where MLflow does not have it.
        command: The command line that ran it; "" if unknown.
        at_once: Trials that ran side by side.
    """

    named: str
    command: str
    at_once: int = 1

    def run(self, *words: str) -> str:
        """A command for a POSIX shell that runs a study where this one ran.

        Args:
            *words: Settings of that study.
        """
        program, others, own_folders = self._words
        where = [word for word in others if _setting(word) in _WHERE]
        # a store's file may be one of a person's own
        own = own_folders if any(word.startswith("tracking=") for word in where) else []
        return shlex.join([*program, *_named(own), *words, *where])

    def again(self, word: str) -> str:
        """A command for a POSIX shell that runs the study again with another setting."""
        program, others, own_folders = self._words
        kept = [other for other in others if _setting(other) not in (_setting(word), *_OF_ONE_STUDY)]
        return shlex.join([*program, *_named(own_folders), *kept, word])

    @property
    def _words(self) -> tuple[list[str], list[str], list[str]]:
        """What is run, what follows it, and the folders of a person's own that it names."""
        given = shlex.split(self.command)
        if "run" in given and given[given.index("run") - 1] in (PROGRAM, "experiments.rl_scaling"):
            return [PROGRAM, "run"], *config_dirs(given[given.index("run") + 1 :])
        script = next((i for i, word in enumerate(given) if word.endswith("run.py")), None)
        if script is None:
            return ["python", "experiments/run.py"], [], []
        return ["python", given[script]], *config_dirs(given[script + 1 :])


def _setting(word: str) -> str:
    return word.lstrip("+~").partition("=")[0]


def _named(folders: list[str]) -> list[str]:
    return [word for folder in folders for word in (CONFIG_DIR, folder)]


@dataclass(frozen=True)
class NextStep:
    """A step that shows more.

    Attributes:
        what: What it would show, Markdown without a full stop.
        command: For a POSIX shell.
        seconds: How long it takes, about; NaN if unknown.
    """

    what: str
    command: str
    seconds: float = math.nan

    @property
    def sentence(self) -> str:
        """What it would show and how long it takes, Markdown."""
        return f"{self.what}{f', {rough_time(self.seconds)}' if math.isfinite(self.seconds) else ''}."

    def and_(self, other: "NextStep") -> "NextStep":
        """The step and another one by the same command."""
        what = self.what if other.what in self.what else f"{self.what}. {other.what}"
        return NextStep(what, self.command, self.seconds + other.seconds)


def study_command(study: Study) -> StudyCommand:
    """How a study was run."""
    return StudyCommand(study.run_id, study.command, study.concurrency)


def next_step(decision: Decision, runs: pd.DataFrame, asked: StudyCommand) -> NextStep | None:
    """The step that is worth most for its cost.

    A study that is not whole goes on. One in which no seed reached the target trains longer. Else it is fresh seeds,
    which the choice has not seen: where a few more are likely to find differences among the leaders significant, of
    these, but for those that are practically the same; else of the chosen one by itself, since its numbers flatter it.

    Args:
        decision: Of the environment.
        runs: The trials of the study, as `analysis.load` gives them.
        asked: What ran the study.

    Returns:
        None where there is nothing to go by: no trial finished, and none is to come.
    """
    seeds = replicates(runs[runs["env"] == decision.env])
    if left := int(seeds["status"].isin(TO_COME).sum()):
        return NextStep(f"To go on: {plural(left, 'trial')} did not finish", asked.run(f"resume={asked.named}"))
    if decision.chosen is None:
        resume = NextStep("To go on: nothing is confirmed yet", asked.run(f"resume={asked.named}"))
        return resume if seeds["exploratory"].all() else None
    if asked.command and decision.measure == "score" and _missed(seeds):
        what = "To reach the target: other settings, or a longer training. With twice the env steps"
        return twice_as_long(what, seeds, asked)
    rivals = rivals_of(decision) if _may_matter(decision) else []
    # one seed has no spread to go by
    fewest, most = (FRESH_SEEDS, FRESH_SEEDS) if decision.num_seeds == 1 else decision.telling_seeds
    matters = f"{100 * decision.matters:g}%" if decision.measure in SPEEDS else f"{decision.matters:,.4g}"
    matters = f"{matters} in {WORDS[decision.measure]}"
    if decision.measure == "minutes_to_target":
        matters = time_shown(Interval(decision.matters, math.nan, math.nan))
    words, num_seeds, configurations = [f"confirm={asked.named}"], FRESH_SEEDS, 1
    if rivals and fewest <= MOST_FRESH_SEEDS:
        num_seeds = max(FRESH_SEEDS, math.ceil(min(most, MOST_FRESH_SEEDS)))
        configurations = 1 + len(rivals)
        words.append(f"confirm.with={LEADERS}")
        apart = "" if math.isnan(decision.matters) else f", if they differ by {matters}"
        what = f"To tell them apart{apart}: {configurations} configurations on {num_seeds} fresh seeds"
    else:
        takes = f"{fewest:,.0f} to {most:,.0f}" if most <= _MOST_TOLD else f"more than {MOST_FRESH_SEEDS}"
        too_many = f"To tell a difference of {matters} from {code(decision.runner_up)} takes {takes} seeds each. "
        told = too_many if rivals and math.isfinite(decision.matters) else ""
        aim = "To know it better" if len(decision.order) == 1 else "To confirm it"
        what = f"{told}{aim}: {plural(num_seeds, 'fresh seed')}"
    if num_seeds != FRESH_SEEDS:
        words.append(f"confirm.num_seeds={num_seeds}")
    trials = runs[runs["config"].isin([decision.chosen, *rivals]) & (runs["status"] == "finished")]
    in_all = configurations * num_seeds
    seconds = in_all * float(trials["wall_s"].mean()) / max(1, min(asked.at_once, in_all))
    return NextStep(what, asked.run(*words), seconds)


def twice_as_long(what: str, seeds: pd.DataFrame, asked: StudyCommand) -> NextStep:
    """The study again with twice the env steps.

    Args:
        what: It would show, Markdown without a full stop.
        seeds: Its trials, without repeats.
        asked: What ran the study.
    """
    budget = int(seeds["budget_env_steps"].max())
    seconds = 2 * float(seeds["wall_s"].sum()) / max(1, asked.at_once)
    return NextStep(what, asked.again(f"budget_env_steps={2 * budget}"), seconds)


def _may_matter(decision: Decision) -> bool:
    """False where what is left of a difference to the next best would not matter, whichever it is."""
    if decision.measure in SPEEDS or not math.isfinite(decision.spread) or not math.isfinite(decision.matters):
        return True
    return abs(decision.difference) + 2 * decision.spread / math.sqrt(max(1, decision.num_seeds)) >= decision.matters


def _missed(seeds: pd.DataFrame) -> bool:
    """True where no seed of any configuration held the target at any time."""
    reached = seeds["env_steps_to_target"].notna() | (seeds["score"] >= seeds["target"])
    return bool(seeds["target"].notna().all() and not reached.any())
