"""Predicted hours of a training run on a hardware profile, from a study of throughput."""

import sys
from pathlib import Path

if not __package__:  # run as a file: what is called like the suite's packages in other folders is not taken for them
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import math
import shlex
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple
from typing import Annotated, Any

import pandas as pd
import yaml

import conf
from analysis import AnalysisError
from analysis.document.commands import Command, NotAWord, Whole
from analysis.evidence import is_measured
from analysis.load import Study, load_study
from analysis.plots.text import level
from analysis.questions.elsewhere import Machine, elsewhere, widest
from analysis.questions.labels import time_shown
from analysis.questions.prediction import OWN_PROCESS, Beside, Prediction, Target, beside_training, predict
from analysis.questions.product import factors_of
from analysis.questions.runners import ENVS, RUNNERS
from analysis.questions.throughput import check_comparable
from analysis.stats.interval import Interval
from analysis.stores.executions import executions
from experiments.contract.words import labelled, plural

_MOST_LAYOUTS = 4
_MOST_LOOKED_AT = 8
"""Studies that are asked what evaluations and reports take."""


def lines_of(found: Prediction, target: Target, beside: Beside | None, first: str) -> list[str]:
    """The prediction, for the terminal.

    Args:
        found: Of the training.
        target: Of what.
        beside: What comes on top; None if that is unknown.
        first: The command that would measure it.
    """
    speed, time = found.env_steps_per_s, found.training_h
    known = math.isfinite(speed.low) and math.isfinite(speed.high)
    ends = "95% prediction intervals" if known else "no interval from a single seed"
    ends = "bounds: what binds so many runners was not seen" if found.is_bound else ends
    limit = labelled("limit", f"{found.limit}, {100 * found.limit_share:.0f}% of training")
    if target.num_env_runners and math.isfinite(found.most_env_steps_per_s):
        learner = " and a learner that takes no time" if target.gpu or target.several_learners else ""
        limit += f"; with any number of runners{learner} at most {found.most_env_steps_per_s:,.0f} env steps/s"
    lines = [
        labelled("throughput", f"{_with_ends(speed, _speed, found.is_bound)} env steps/s"),
        *_time_lines(time, target, beside, first, found.is_bound),
        limit,
    ]
    rests = labelled("rests on", f"{found.config}, {plural(found.num_seeds, 'seed')}; {ends}")
    return [*lines, rests, *(f"extrapolated: {reason}" for reason in found.extrapolated)]


def _time_lines(time: Interval, target: Target, beside: Beside | None, first: str, is_bound: bool) -> list[str]:
    what = f"for {target.env_steps:,.0f} env steps"
    if beside is None:
        return [
            labelled(
                "time",
                f"{_with_ends(time, _hours, is_bound)} {what}: of training alone. Evaluations and reports come on top",
            ),
            labelled("run first", f"{first}   (then they are counted in)"),
        ]
    extra = beside.hours(target.env_steps)
    # Ends are added as if all went wrong at once: wider than 95%.
    whole = Interval(*(a + b for a, b in zip(astuple(time), astuple(extra), strict=True)))
    reports = plural(beside.num_reports(target.env_steps), "report")
    return [
        labelled(
            "time",
            f"{_with_ends(whole, _hours, is_bound)} {what}: training {_with_ends(time, _hours, is_bound)}, evaluations "
            f"and {reports} {_with_ends(extra, _hours)}, as long each as those of {plural(beside.num_trials, 'trial')} "
            f"of {beside.study}",
        )
        + (", which has no interval" if beside.num_trials == 1 else "")
    ]


def profile(name: str, config_dirs: Sequence[str] = ()) -> dict[str, Any]:
    """A hardware profile as conf/hardware has it, with what it takes over from others.

    Args:
        name: Of the profile.
        config_dirs: Folders of a person's own that may have it, as conf/ has others.

    Raises:
        AnalysisError: There is none of that name.
    """
    folders = [Path(folder).expanduser() for folder in config_dirs]
    for folder in folders:
        if not folder.is_dir():
            raise AnalysisError(f"{conf.CONFIG_DIR} {folder}: there is no such folder.")
    found = {
        file.stem: file
        for folder in (*folders, Path(conf.__file__).parent)
        for file in (folder / "hardware").glob("*.yaml")
    }
    if name not in found:
        raise AnalysisError(f"hardware={name}: there is no such profile; there are {', '.join(sorted(found))}.")
    own: dict[str, Any] = yaml.safe_load(found[name].read_text())
    inherited: dict[str, Any] = {}
    for base in own.pop("defaults", []):
        if base != "_self_":
            inherited |= profile(str(base), config_dirs)
    return inherited | own


def target_of(given: Mapping[str, Any], config_dirs: Sequence[str] = ()) -> Target:
    """The command line's words.

    Args:
        given: Key to value.
        config_dirs: As for `profile`.

    Raises:
        AnalysisError: One is missing or makes no sense; names the fix.
    """
    if "env_steps" not in given:
        raise AnalysisError("env_steps= is missing: how many are to be sampled? For example env_steps=1e7.")
    settings = profile(given["hardware"], config_dirs) if "hardware" in given else {}
    # What leaves the count to the machine samples in the trial's own process, unless the algorithm cannot.
    runners = given.get("num_env_runners", (settings.get("num_env_runners") or 0) if settings else None)
    if runners is None:
        raise AnalysisError(
            "how many env runners? no hardware= was given: give num_env_runners=, 0 for the trial's own process."
        )
    envs = given.get("num_envs_per_env_runner", settings.get("num_envs_per_env_runner"))
    if envs is None and settings.get("total_envs"):
        envs = max(1, int(settings["total_envs"]) // max(1, runners))
    gpu, learners = bool(settings.get("num_gpus_per_learner")), int(settings.get("num_learners") or 0)
    hardware, batch = given.get("hardware", ""), given.get("batch")
    return Target(given["env_steps"], runners, envs, hardware, gpu, learners > 1, batch)


def measured_part(study: Study, algorithm: str | None, env: str | None) -> pd.DataFrame:
    """The trials of one algorithm on one environment.

    Raises:
        AnalysisError: The study measured no throughput, or on several kinds of machine, or there are several parts to
            choose from, or not the one asked for.
    """
    runs = study.runs
    if not is_measured(runs):
        raise AnalysisError(
            f"study={study.name} trains to a budget. Name one that measures throughput, such as study=runner_scaling."
        )
    for column, wanted in (("algorithm", algorithm), ("env", env)):
        there = list(runs[column].unique())
        if wanted is not None and wanted not in there:
            raise AnalysisError(f"{column}={wanted}: {study.experiment} measured {', '.join(there)}.")
        if wanted is None and len(there) > 1:
            raise AnalysisError(f"{study.experiment} measured {', '.join(there)}: choose one with {column}={there[0]}.")
        runs = runs[runs[column] == (wanted or there[0])]
    check_comparable(runs)
    return runs


def command_of(name: str, given: Mapping[str, Any], runs: pd.DataFrame | None = None, measured_by: str = "") -> str:
    """The command line that runs a study of the algorithm and the environment that are asked for.

    Args:
        name: Of the study to run.
        given: The command line's words.
        runs: Trials of both.
        measured_by: The command that ran these and no others: of an environment without a file of its own
            the name is not enough.
    """
    keys = {word: word.lstrip("+~").partition("=")[0] for word in shlex.split(measured_by)}
    words = [word for word, key in keys.items() if key in ("algorithm", "env", "modules") or key.startswith("env.")]
    said = {keys[word] for word in words}
    chosen = {
        key: given.get(key) or (None if runs is None else runs[key].iloc[0])
        for key in ("algorithm", "env")
        if key not in said
    }
    store = [f"tracking.uri={given['tracking_uri']}"] if "tracking_uri" in given else []
    chosen_words = [f"{key}={value}" for key, value in chosen.items() if value]
    return shlex.join(["python", "experiments/run.py", f"study={name}", *chosen_words, *words, *store])


def _beside(runs: pd.DataFrame, given: Mapping[str, Any]) -> Beside | None:
    """The time that evaluations and reports take, of the trials that are named, or of the latest of the same
    algorithm and environment.

    Raises:
        AnalysisError: Those that are named do not say it.
    """
    uri, (algorithm, env) = given.get("tracking_uri"), (runs[name].iloc[0] for name in ("algorithm", "env"))
    asked = executions(given.get("trained"), uri)
    of_both = [e.run_id for e in asked if all(name in e.experiment.partition("/")[2] for name in (algorithm, env))]
    for run_id in of_both[:_MOST_LOOKED_AT]:
        with suppress(AnalysisError):  # it has only begun, or its files are gone: others may say it
            loaded = load_study(run_id, uri, metrics=("progress/env_steps",))
            mine = loaded.runs[(loaded.runs["algorithm"] == algorithm) & (loaded.runs["env"] == env)]
            if (found := beside_training(mine, loaded.curves, loaded.experiment)) is not None:
                return found
    if "trained" in given:
        raise AnalysisError(
            f"trained={given['trained']}: has no finished trial of {algorithm} on {env} that trained to a budget."
        )
    return None


def planned(
    *,
    env_steps: float | None = None,
    hardware: str | None = None,
    num_env_runners: Whole | None = None,
    num_envs_per_env_runner: Whole | None = None,
    batch: Whole | None = None,
    study: str | None = None,
    algorithm: str | None = None,
    env: str | None = None,
    num_cpus: Whole | None = None,
    probe: float | None = None,
    trained: str | None = None,
    tracking_uri: str | None = None,
    config_dirs: Annotated[Sequence[str], NotAWord] = (),
) -> int:
    """Predicts the hours of a training run on a hardware profile, from a study of throughput that was run before, for
    example by `run study=runner_scaling`. Evaluations and reports are counted in where trials of the store trained to a
    budget. Of a study that searched learning settings and layouts together, what reaches the target soonest on another
    machine.

    `--config-dir FOLDER` names a folder of your own, whose hardware/ may have the profile.

    Args:
        env_steps: To sample.
        hardware: The profile; its runners and environments count unless the next two say otherwise.
        num_env_runners: Runners of the run; 0: the trial's own process, as hardware=auto has it.
        num_envs_per_env_runner: Environments of each; default: any that was measured.
        batch: Env steps of a train batch; default: the largest that was measured.
        study: The study of throughput, by name or run id; default runner_scaling. study=joint: what is soonest there.
        algorithm: Which of its algorithms, if it has several.
        env: Which of its environments, likewise.
        num_cpus: Of study=joint: CPUs of the machine; a profile's runners say how many it has otherwise.
        probe: Of study=joint: env steps/s of the simplest layout, measured there (the command is printed); without it,
            that machine's processes are taken to be as fast as the ones here.
        trained: The study, by name or run id, that says what evaluations and reports take; default: the latest of this
            algorithm and environment.
        tracking_uri: The store that holds them; default: outputs/mlflow.db.
        config_dirs: Folders of a person's own.
    """
    words = {
        "env_steps": env_steps,
        "hardware": hardware,
        "num_env_runners": num_env_runners,
        "num_envs_per_env_runner": num_envs_per_env_runner,
        "batch": batch,
        "study": study,
        "algorithm": algorithm,
        "env": env,
        "num_cpus": num_cpus,
        "probe": probe,
        "trained": trained,
        "tracking_uri": tracking_uri,
    }
    given = {name: value for name, value in words.items() if value is not None}
    _check(given)
    if study is not None and env_steps is None:
        for line in joint_lines(load_study(study, tracking_uri), given, config_dirs):
            print(line)
        return 0
    target = target_of(given, config_dirs)
    runs, measured_by, found = _predicted(given, target)
    beside = _beside(runs, given)
    what = f"{runs['algorithm'].iloc[0]} on {runs['env'].iloc[0]}, "
    what += plural(target.num_env_runners, "env runner") if target.num_env_runners else f"sampling {OWN_PROCESS}"
    what += f" x {target.num_envs_per_env_runner} envs" if target.num_envs_per_env_runner else ""
    print(labelled("plan", f"{what}{f' (hardware={target.hardware})' if target.hardware else ''}"))
    for line in lines_of(found, target, beside, command_of("single", given, runs, measured_by)):
        print(line)
    return 0


def _check(given: Mapping[str, Any]) -> None:
    for key in ("env_steps", "probe"):
        if not 0 < given.get(key, 1.0) < math.inf:
            raise AnalysisError(f"{key}={given[key]:g}: must be a number above 0, such as 10000000 or 1e7.")
    for key in ("num_envs_per_env_runner", "batch", "num_cpus"):
        if given.get(key, 1) < 1:
            raise AnalysisError(f"{key}={given[key]}: must be a whole number, 1 or more.")


COMMAND = Command(
    "plan",
    planned,
    ("env_steps=10000000 hardware=workstation", "study=joint num_cpus=64"),
    "0 predicted. 2 what was measured does not allow it; the message has the command that measures it.",
)


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    words, config_dirs = conf.config_dirs(arguments)
    return COMMAND.exit_code(words, config_dirs=config_dirs)


def joint_lines(study: Study, given: Mapping[str, Any], config_dirs: Sequence[str] = ()) -> list[str]:
    """What reaches the target soonest on another machine, for the terminal.

    Args:
        study: One that searched learning settings and layouts together.
        given: The command line's words.
        config_dirs: As for `profile`.

    Raises:
        AnalysisError: It did not, or the machine is not said; names the fix.
    """
    factors = factors_of(study.evidence)
    if factors is None:
        raise AnalysisError(
            f"study={given['study']}: did not search learning settings and layouts together, so env_steps= has to say "
            "how many are to be sampled. Or run first: python experiments/run.py study=joint"
        )
    settings = profile(given["hardware"], config_dirs) if "hardware" in given else {}
    runners, cpus = settings.get("num_env_runners"), given.get("num_cpus")
    if runners is None and cpus is None:
        raise AnalysisError("how large is the machine? Give num_cpus=64, or a hardware= that says its runners.")
    most = cpus - 1 if cpus is not None else int(runners or 0)
    simplest = factors.rounds.sort_values([RUNNERS, ENVS], ascending=[True, False]).iloc[0]
    own = factors.plain_rounds
    own = own[(own[[RUNNERS, ENVS]] == simplest[[RUNNERS, ENVS]]).all(axis=1)]
    speed = given["probe"] / float(own["env_steps_per_s"].mean()) if "probe" in given else 1.0
    machine = Machine(most, runners, settings.get("num_envs_per_env_runner"), speed)
    table = elsewhere(factors, study.curves, study.facts, machine)
    where = f"hardware={given['hardware']}" if "hardware" in given else f"{cpus} CPUs"
    at = "rescaled by the probe" if "probe" in given else "with processes as fast as the ones here"
    lines = [labelled("plan", f"{study.experiment} on {where}: predicted, {at}")]
    for i, row in enumerate(table.drop_duplicates([RUNNERS, ENVS]).head(_MOST_LAYOUTS).to_dict("records")):
        word = "soonest" if i == 0 else "then" if i == 1 else ""
        lines.append(labelled(word, _predicted_layout(row, factors.axes)))
    there = shlex.join([f"hardware={given.get('hardware', 'auto')}", "seeds=[0]"])
    measure = command_of("runner_scaling", given, factors.rounds, study.command)
    lines += [
        labelled("to narrow", "measure there what may be the soonest:"),
        labelled("", f"{measure} {shlex.quote(_space(widest(table)))} {there}"),
    ]
    if "probe" not in given:
        simple = shlex.quote(_space([(int(simplest[RUNNERS]), int(simplest[ENVS]))]))
        lines += [
            labelled("probe", "how fast its processes are takes ten seconds there; then give probe=<env steps/s>:"),
            labelled("", f"{measure} {simple} seeds=[0]"),
        ]
    return lines


def _predicted_layout(row: Mapping[Hashable, Any], axes: Sequence[str]) -> str:
    settings = ", ".join(f"{axis}={level(axis, row[axis])}" for axis in axes)
    ends = [time_shown(Interval(row[f"minutes_{end}"], math.nan, math.nan)) for end in ("low", "high")]
    bound = ", more runners than were measured" if row["is_bound"] else ""
    return f"{row[RUNNERS]} x {row[ENVS]} at {settings}: target in {ends[0]} to {ends[1]}{bound}"


def _space(layouts: Sequence[tuple[int, int]]) -> str:
    runners, envs = (sorted({layout[i] for layout in layouts}) for i in (0, 1))
    counts = f"hardware.num_env_runners:{runners},hardware.num_envs_per_env_runner:{envs}".replace(" ", "")
    return f"study.space={{{counts}}}"


def _predicted(given: Mapping[str, Any], target: Target) -> tuple[pd.DataFrame, str, Prediction]:
    """The trials that a prediction rests on, the command that ran them if it ran no others, and the prediction.

    Raises:
        AnalysisError: It cannot be made; names the command that measures what is missing.
    """
    runs, measured_by = None, ""
    try:
        study = load_study(given.get("study", "runner_scaling"), given.get("tracking_uri"))
        runs = measured_part(study, given.get("algorithm"), given.get("env"))
        measured_by = study.command if len(runs) == len(study.runs) else ""
        asynchronous = study.facts.get(str(runs["config"].iloc[0]), {}).get("asynchronous", False)
        if asynchronous and not target.num_env_runners:
            algorithm = runs["algorithm"].iloc[0]
            raise AnalysisError(
                f"how many env runners? {algorithm} samples while it learns and needs one: "
                "give num_env_runners=, 1 or more."
            )
        return runs, measured_by, predict(runs, study.curves, target, study.facts)
    except AnalysisError as error:
        if "num_env_runners=" in str(error) or ": choose one with " in str(error):
            raise
        raise AnalysisError(
            f"{str(error).rstrip('.')}. Run first: {command_of('runner_scaling', given, runs, measured_by)}"
        ) from error


def _with_ends(found: Interval, form: Callable[[float], str], is_bound: bool = False) -> str:
    """An estimate and its interval, where there is one; the ends alone, where they are bounds."""
    known = math.isfinite(found.low) and math.isfinite(found.high)
    if known and is_bound:
        return f"{form(found.low)} to {form(found.high)}"
    return form(found.estimate) + (f" [{form(found.low)}, {form(found.high)}]" if known else "")


def _speed(value: float) -> str:
    return f"{value:,.0f}"


def _hours(hours: float) -> str:
    return f"{hours:,.1f} h" if hours >= 1 else f"{60 * hours:.1f} min" if hours >= 1 / 60 else f"{3600 * hours:.0f} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
