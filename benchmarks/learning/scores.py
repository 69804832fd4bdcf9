"""What every algorithm scores on the environments that it is meant for, beside what is published.

    python -m benchmarks learning  # all pairs, days on two cores; goes on where it was ended
    python -m benchmarks.learning.scores ppo-cartpole sac-pendulum  # these

Each pair is a study of the suite's own command with the settings that the suite ships, five seeds. Trials are kept one
by one in `benchmarks/learning/data/learning.csv`, with their curves in `curves.parquet`, and not measured again, unless
the settings have changed since.
"""

import argparse
import os
import tempfile
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from omegaconf import OmegaConf
from scipy import stats

from analysis import AnalysisError
from analysis.load import Study, load_study
from analysis.questions.labels import shown
from analysis.stats.tolerance import median_interval
from benchmarks.learning.pairs import (
    COLUMNS,
    CURVES,
    MEASURED,
    Pair,
    keep,
    keep_curves,
    measured,
    pairs,
    settings_of,
    trial_of,
)
from benchmarks.learning.sb3 import BESIDE
from benchmarks.support.harness import (
    ROOT,
    BenchmarkError,
    Report,
    Table,
    end_what_was_started,
    finish,
    run,
    say,
    suite_command,
)
from experiments.config.compose import CONF
from experiments.contract import RETURN
from experiments.contract.sqlite_address import sqlite_uri
from experiments.contract.words import duration
from experiments.study.cluster.ray_process import prepare
from experiments.tracking.provenance import git_state, host

SEEDS = (0, 1, 2, 3, 4)
LEVEL = 0.05
OUTPUTS = ROOT / "outputs" / "learning"
"""Where the studies are, so that one that was interrupted goes on."""
_SHORT = ": not all"
"""End of the verdict of a pair with seeds that miss the target."""
_EARLY = "ended early: not judged"
"""Verdict of a pair whose trials end where two cores get."""
UNKNOWN, EARLIER, FEW = "not measured", "measured with earlier settings", "seeds are missing: not judged"
"""Verdicts of pairs without a trial at all, or at the present settings, or without all of them."""
OPEN = (UNKNOWN, EARLIER, FEW)
QUICK = ("budget_env_steps=4000", "report_every_env_steps=4000", "evaluation.episodes=2", "evaluation.final_episodes=2")
"""Overrides of a run that shows that it works."""


def measure(quick: bool, wanted: Sequence[str] = ()) -> Report:
    """Run what is missing, at the lowest priority, since nothing here is timed.

    Args:
        quick: The first pair alone, for a moment.
        wanted: `<algorithm>-<env>` of the pairs to run; all of them by default. The page shows all.
    """
    os.nice(19)
    prepare()
    if quick:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as scratch:
            file = Path(scratch) / "learning.csv"
            _complete(pairs()[0], (0, 1), Path(scratch), file, QUICK)
            return _report(measured(file))
    for pair in pairs():
        if not wanted or f"{pair.algorithm}-{pair.env}" in wanted:
            try:
                _complete(pair, SEEDS, OUTPUTS, MEASURED)
            except BenchmarkError as error:  # what is left of it runs the next time
                say(f"{pair}: {error}")
    return _report(measured())


def _complete(pair: Pair, seeds: Sequence[int], output_dir: Path, file: Path, overrides: Sequence[str] = ()) -> None:
    """Run the seeds of a pair that were not measured with its present settings."""
    name = f"learning-{pair.algorithm}-{pair.env}"
    settings = [*settings_of(pair), f"study.name={name}", *overrides]
    config_id = trial_of(pair, seeds[0], overrides).config_id
    began = _last(name, output_dir)
    if began is not None:
        _keep(began, file)  # what a run that was ended has left
    known = measured(file)
    known = known[pair.of(known) & (known["config_id"] == config_id)]
    if not (missing := [seed for seed in seeds if seed not in set(known["seed"])]):
        return
    say(f"{pair}: seeds {missing}")
    if began is not None and began.status in ("interrupted", "running") and set(began.runs["config_id"]) == {config_id}:
        settings = [f"resume={began.run_id}"]
    else:
        settings += [f"seeds=[{','.join(map(str, missing))}]", "registry.models=none"]
    output_dir.mkdir(parents=True, exist_ok=True)
    log = output_dir / f"{name}.log"
    try:
        run(suite_command([*settings, "report=false"], output_dir), log)
    finally:
        if (study := _last(name, output_dir)) is not None:
            _keep(study, file)


def _last(name: str, output_dir: Path) -> Study | None:
    """The last execution of a study; None if there is none."""
    database = output_dir / "mlflow.db"
    try:
        return load_study(name, sqlite_uri(database), metrics=[RETURN]) if database.exists() else None
    except AnalysisError:
        return None


def _keep(study: Study, file: Path) -> None:
    """Keep its finished trials, and their curves beside them."""
    runs = study.runs[study.runs["status"] == "finished"]
    where = {"date": date.today().isoformat(), "commit": (git_state().commit or "unknown")[:12], "cpu": host()["cpu"]}
    rows = runs.assign(env_steps=runs["budget_env_steps"], **where)[list(COLUMNS)]
    keep(rows.round({"score": 3, "train_s": 1}), file)
    points = study.curves.loc[study.curves["metric"] == RETURN, ["run_id", "env_steps", "value"]]
    points = points.merge(runs[["run_id", "algorithm", "env", "config_id", "seed"]], on="run_id")
    keep_curves(points.rename(columns={"value": "score"}).round({"score": 3}), file.with_name(CURVES.name))


def _report(rows: pd.DataFrame) -> Report:
    present = {pair: trial_of(pair, SEEDS[0]).config_id if pair.of(rows).any() else "" for pair in pairs()}
    judged = {pair: _judged(pair, rows, config_id) for pair, config_id in present.items()}
    known = {pair: found[-1] for pair, found in judged.items() if found[-1] not in OPEN}
    worse = {pair for pair, judgement in known.items() if judgement.startswith("worse")}
    short = {pair for pair, judgement in known.items() if judgement.endswith(_SHORT)}
    early = {pair for pair, judgement in known.items() if judgement == _EARLY}
    verdict = (
        f"{len(known)} of {len(judged)} pairs are measured. Worse than published: "
        f"{_named(p for p in worse if not p.reason)}; with a reason that is named below: "
        f"{_named(p for p in worse if p.reason)}. Not every seed comes to what is published, or to the target where "
        f"nothing is: {_named(short)}. Ended early, as far as two cores get, and not judged: {_named(early)}."
    )
    machines = measured_on(rows)
    shown = ("", "env steps", "seeds", "median score [worst, best]", "env steps to target")
    columns = (*shown, "training", "published", "verdict")
    return Report(
        name="learning",
        by_machine=False,
        title="What every algorithm learns, with the settings that the suite ships",
        compared=(
            "Each pair is `python experiments/run.py algorithm=... env=... study=single`, with `budget_env_steps=` "
            "where it ends early. Score: the mean return of 100 episodes of the final deterministic policy on held-out "
            "seeds of the environment, of five seeds the median; with a probability of 94% the median of all seeds "
            "lies between the worst and the best. Env steps to target: the median over seeds, where one that never "
            "holds it takes longer than it was given, and how many seeds hold it. Training: mean seconds of a trial's "
            "training, on machines with other work: no timing. Published: of one run, with the deviation over its "
            "episodes; a seed comes to it that scores no less than that, less the deviation. Where "
            "Stable-Baselines3's PPO was run here at these settings (`python -m benchmarks.learning.sb3`), it is the "
            "judge: Welch's t-test over seeds, two-sided, 5%."
        ),
        verdict=verdict,
        tables=(Table("Scores", columns, tuple((str(pair), *found) for pair, found in judged.items())),),
        notes="\n".join(
            [*(f"- {pair}: {pair.reason}" for pair in judged if pair.reason), f"- Trials ran on: {machines}"]
        ),
    )


def measured_on(rows: pd.DataFrame) -> str:
    """Kinds of CPUs that trials ran on, and how many on each."""
    return ", ".join(f"{cpu} ({count})" for cpu, count in rows["cpu"].value_counts().items())


def _named(found: Iterable[Pair]) -> str:
    return ", ".join(sorted(map(str, found))) or "none"


def _judged(pair: Pair, rows: pd.DataFrame, config_id: str) -> tuple[str, ...]:
    """The cells of a pair's row, the verdict last; `config_id` is of its present settings."""
    mine = rows[pair.of(rows)]
    after = f"after {pair.published_env_steps:,.0f}"
    published = "" if np.isnan(pair.published) else f"{pair.published:g} +- {pair.deviation:g} {after} ({pair.source})"
    if mine.empty:
        return ("", "0", "", "", "", "", published, UNKNOWN)
    is_present = mine["config_id"] == config_id
    last = (
        mine[is_present]
        if is_present.any()
        else mine[mine["config_id"] == mine.sort_values("date")["config_id"].iloc[-1]]
    )
    env = OmegaConf.load(CONF / "env" / f"{pair.env}.yaml")
    scores = last["score"].to_numpy(float)
    theirs = measured(BESIDE).merge(last[["algorithm", "env", "config_id"]].drop_duplicates())["score"].to_numpy(float)
    if len(theirs) > 1:
        published = (
            f"{theirs.mean():.0f} ({theirs.min():.0f} to {theirs.max():.0f}; SB3 here, "
            f"{len(theirs)} seeds); {published}"
        )
        judgement = against_sb3(scores, theirs)
    elif not np.isnan(pair.env_steps):
        judgement = _EARLY
    elif not published:
        judgement = against_target(scores, env.target)
    else:
        judgement = verdict(scores, pair)
    if not is_present.any():
        judgement = EARLIER
    elif len(last) < len(SEEDS):
        judgement = FEW
    return (
        f"{int(last['env_steps'].max()):,}",
        str(len(last)),
        shown(median_interval(scores)[0], ".1f"),
        "no target" if env.target is None else _to_target(last),
        duration(float(last["train_s"].mean())),
        published,
        judgement,
    )


def _to_target(last: pd.DataFrame) -> str:
    """The median of the env steps until the target is held, with how many seeds hold it.

    A seed that never does takes longer than all that it was given.
    """
    held = last["env_steps_to_target"].to_numpy(float)
    count = f"{np.isfinite(held).sum()} of {len(held)}"
    if not np.isfinite(held).any():
        return count
    median = np.median(np.where(np.isfinite(held), held, np.inf))
    return f"{median:,.0f} ({count})" if np.isfinite(median) else f"over {last['env_steps'].max():,.0f} ({count})"


def against_sb3(ours: npt.NDArray[np.float64], theirs: npt.NDArray[np.float64]) -> str:
    """Whether scores differ from those of Stable-Baselines3 at the same settings, by Welch's t-test over seeds,
    two-sided at 5%.
    """
    p = float(stats.ttest_ind(ours, theirs, equal_var=False).pvalue)
    if not p < LEVEL:
        return f"not significantly different from SB3's (p = {p:.2f})"
    return f"{'better' if ours.mean() > theirs.mean() else 'worse'} than SB3's (p = {p:.3f})"


def against_target(ours: npt.NDArray[np.float64], target: float) -> str:
    """How many seeds end at the environment's target, where nothing is published."""
    reached = int((ours >= target).sum())
    return f"{reached} of {len(ours)} seeds end at {target:g}" + ("" if reached == len(ours) else _SHORT)


def verdict(ours: npt.NDArray[np.float64], pair: Pair) -> str:
    """How many seeds come to the published score.

    Args:
        ours: Scores of the seeds.
        pair: What is published, which something must be, and the reason why the suite may score less.
    """
    reached = int((ours >= pair.published - pair.deviation).sum())
    words = f"{reached} of {len(ours)} seeds come to it"
    if not reached:
        return f"worse: {words}{', see the notes' if pair.reason else ''}"
    return words if reached == len(ours) else f"{words}{_SHORT}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning.scores", description=__doc__)
    parser.add_argument("pairs", nargs="*", metavar="algorithm-env", help="all of them by default")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.pairs) - {f"{pair.algorithm}-{pair.env}" for pair in pairs()}):
        parser.error(f"there is no pair {unknown[0]!r} in benchmarks/learning/pairs.csv")
    end_what_was_started()
    finish(measure(False, arguments.pairs), quick=False, out=None)


if __name__ == "__main__":
    main()
