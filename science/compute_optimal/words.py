"""What was found, in sentences, and the command that runs a point."""

from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.document.command_line import hydra_value
from analysis.document.next_step import StudyCommand
from analysis.plots.text import rate
from analysis.questions.labels import interval_of, listed, shown
from analysis.stats.interval import Interval
from experiments.contract.words import plural
from science.compute_optimal.question import BATCH, UPDATES, WIDTH, Fit, Found, Kind, at_edge

PATHS = {
    UPDATES: "algorithm.update_to_data",
    WIDTH: "algorithm.rl_module.fcnet_hiddens",
    BATCH: "algorithm.training.train_batch_size_per_learner",
}
"""Column of a study's runs to the setting that it holds."""
_STEPS = ",.0f"
_FACTORS = ("(updates per env step)", "width")


def of_fit(fit: Fit) -> str:
    """The law of a batch, or why there is none; Markdown."""
    where = f"With a batch of {fit.batch}" + (f" and width {fit.width}" if fit.width else "")
    if fit.law is None:
        return f"{where}, nothing is predicted: {fit.why}.{_held_out(fit)}{_trend(fit)}"
    terms = [f"{name}^-{shown(power, '.2f')}" for name, power in zip(_FACTORS, fit.law.powers, strict=False)]
    return (
        f"{where}, env steps to the target fall towards {shown(fit.law.least, _STEPS)} "
        f"by {'terms' if len(terms) > 1 else 'a term'} in {listed(terms)} "
        f"(90% intervals, bootstrap over seeds).{_held_out(fit)}"
    )


def _held_out(fit: Fit) -> str:
    tried = fit.held_out
    if tried is None:
        return ""
    took = f"{tried.measured:{_STEPS}}" if tried.whole else f"more than {tried.measured:{_STEPS}}"
    width = f" and width {tried.width:g}" if tried.width > 1 else ""
    return (
        f" Left out and foretold from the others, the largest configuration, {tried.updates:g} updates per env step"
        f"{width}, was to take {shown(tried.predicted, _STEPS)}, and took {took}."
    )


def _trend(fit: Fit) -> str:
    if fit.trend is None:
        return ""
    factors = [f"{name}^{shown(power, '.2f')}" for name, power in zip(_FACTORS, fit.trend.powers, strict=False)]
    return (
        f" Over all that was run, env steps go as {listed(factors)} "
        f"(90% intervals, linear regression of logarithms over {fit.trend.num_trials} trials); "
        f"seeds of a configuration vary by a factor of {fit.trend.factor:.1f} (one standard deviation)."
    )


def of_cheapest(found: Found) -> str:
    """Of what was run, what takes the fewest operations; Markdown."""
    row = found.cheapest
    reached = "" if row["num_reached"] == row["num_seeds"] else f", of which {row['num_reached']} reached the target"
    return (
        f"Of what was run, {settings_shown(row)} took the fewest floating-point operations to the target: "
        f"{flops_shown(row['flops'])}, and {shown(interval_of(row, 'env_steps'), _STEPS)} env steps "
        f"(geometric means, {plural(int(row['num_seeds']), 'seed')}{reached}; 95% interval)."
    )


def of_point(found: Found, point: pd.Series, kind: Kind, amount: float) -> str:
    """The best point at a budget, with what it is predicted to take; Markdown."""
    aims = {
        "compute": f"With {flops_shown(amount)} floating-point operations the fewest env steps to the target",
        "data": f"With {amount:{_STEPS}} env steps the fewest floating-point operations to the target",
        "price": f"Where an env step costs as much as {flops_shown(amount)} floating-point operations, "
        "the target costs least",
    }
    steps, flops = interval_of(point, "env_steps"), interval_of(point, "flops")
    verb = "" if kind == "price" else " are predicted"
    edge = at_edge(found, point)
    more = f" It has the largest {listed(edge)} of which anything is predicted: larger may be better." if edge else ""
    was_run = " It is one that was run." if point["was_run"] else ""
    return (
        f"{aims[kind]}{verb} with {settings_shown(point)}: {shown(steps, _STEPS)} env steps and {_flops(flops)} "
        f"operations (90% intervals for the geometric mean of {plural(found.num_seeds, 'new seed')}).{was_run}{more}"
    )


def settings_shown(point: Mapping[str, float]) -> str:
    """The settings of a point."""
    width = [f"width {point['width']:g}"] if point["width"] else []
    return listed([f"{point['updates']:g} updates per env step", *width, f"a batch of {point['batch']:g}"])


def flops_shown(value: float) -> str:
    """Operations in three digits: `2.1e12`."""
    return rate(float(f"{value:.3g}"))


def _flops(found: Interval) -> str:
    return f"{flops_shown(found.estimate)} [{flops_shown(found.low)}, {flops_shown(found.high)}]"


def command_of(asked: StudyCommand, runs: pd.DataFrame, axes: Sequence[str], found: Found, point: pd.Series) -> str:
    """A command for a POSIX shell that runs a point as the study ran its own, with seeds that it did not have.

    Args:
        asked: What ran the study.
        runs: Its trials on one environment.
        axes: The searched columns of `runs`.
        found: What they say.
        point: A row of `Found.points`.
    """
    learners = max(1, int(runs["num_learners"].max())) if "num_learners" in runs else 1
    space: dict[str, list[object]] = {
        PATHS[UPDATES]: [float(point["updates"])],
        PATHS[BATCH]: [int(point["batch"]) // learners],
    }
    if found.num_layers:
        space[PATHS[WIDTH]] = [[int(point["width"])] * found.num_layers]
    first = int(runs["seed"].max()) + 1
    words = (
        f"study.space={hydra_value(space)}",
        *([f"env={runs['env'].iloc[0]}"] if "env" in axes else []),
        f"seeds={hydra_value(list(range(first, first + found.num_seeds)))}",
        "study.name=compute_optimal_point",
    )
    for word in words:
        asked = StudyCommand(asked.named, asked.again(word), asked.at_once)
    return asked.command
