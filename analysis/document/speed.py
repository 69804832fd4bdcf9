"""The sections on speed: throughput, how it scales, where the time goes, the health of the trials."""

from dataclasses import astuple

import numpy as np
import pandas as pd

from analysis import AnalysisError
from analysis.document.parts import MODERATED, Drawn, Part, Section, figure_of
from analysis.document.wording import (
    bottleneck_sentences,
    fit_sentence,
    health_sentences,
    held_out_sentence,
    limits_sentence,
    memory_sentences,
    own_process_sentence,
    settings_named,
    within,
)
from analysis.plots import (
    pareto,
    scaling_curve,
    scaling_efficiency,
    score_heatmap,
    staleness,
    throughput_bars,
    time_breakdown,
)
from analysis.questions import scaling_laws, throughput
from analysis.questions.health import STALE
from analysis.questions.machines import trials_by_kind

_BEYOND = 2
"""Times the largest count, up to which a fit is drawn."""


def speed(part: Part) -> Section:
    """Throughput, staleness, and what the target costs."""
    try:
        throughput.check_comparable(part.runs)
    except AnalysisError as error:
        return Section("speed", "Speed", (f"{error}",))
    beside = " Trials shared the machine." if part.packed else ""
    finished = part.summary[part.summary["num_seeds"] > 0]
    what = f"Env steps per second of training, warm-up left out: geometric mean over seeds.{beside}"
    figures = [part.drawn("throughput", figure_of(throughput_bars.plot(finished)), what, MODERATED)]
    stale = throughput.staleness(part.curves, part.runs)
    if stale["staleness_updates"].max() > 1:  # a synchronous algorithm alone is always an update behind
        what = (
            f"Throughput against the updates that lie between the policy that sampled and the one that learns.{beside}"
        )
        ax = staleness.plot(stale, limit_updates=STALE, packed=part.packed)
        figures.append(part.drawn("staleness", figure_of(ax), what, MODERATED, stale["num_seeds"]))
    costs = throughput.pareto(part.summary)
    if not costs.empty:
        what = (
            "Env steps against training seconds to target; of what mostly reaches it, nothing is better than the front "
            f"in both.{beside}"
        )
        figures.append(part.drawn("pareto", figure_of(pareto.plot(costs, part.packed)), what, MODERATED))
    return Section("speed", "Speed", (), tuple(figures))


def scaling(part: Part) -> Section:
    """Throughput against the number of processes."""
    if len(trials_by_kind(part.runs)) > 1:
        return Section("scaling", "How it scales", ("Not compared: the trials ran on different kinds of machine.",))
    axis = throughput.scaling_axis(part.runs, part.axes)
    figures, sentences = _grid(part), []
    counts, curves, marks, held, own_process = [], [], [], [], []
    others = [a for a in part.axes if a != axis]
    without = throughput.own_process_points(part.runs, axis, others) if axis else []
    for settings, points in throughput.scaling_points(part.runs, axis, others) if axis else ():
        label, where = settings_named(settings), within(settings)
        own = next((found["config"].astype(str).iloc[0] for same, found in without if same == settings), None)
        if own and len(points):
            fastest = str(np.log(points["env_steps_per_s"]).groupby(points["config"], observed=True).mean().idxmax())
            sentences.append(f"{where}{own_process_sentence(part.runs, own, fastest, axis or '')}")
        try:
            fit = scaling_laws.fit(points, part.rng, axis or "")
        except AnalysisError as error:
            sentences.append(f"{where}{error}.")
            continue
        configs = dict(zip(points["num"], points["config"].astype(str), strict=True)) | ({0: own} if own else {})
        limits = limits_sentence(part.diagnosed, configs, scaling_laws.units_of(axis or "")[1])
        sentences.append(f"{where}{fit_sentence(fit)} {limits}".rstrip())
        named = {"series": label}
        if own:
            own_process.append(part.summary[part.summary["config"] == own].assign(**named))
        counts.append(fit.counts.assign(**named))
        curves.append(fit.predict(np.geomspace(1, _BEYOND * points["num"].max(), 60)).assign(**named))
        marks.append(_marks(fit).assign(**named))
        if points["num"].nunique() > scaling_laws.FEWEST_COUNTS:
            left_out = scaling_laws.hold_out(points, part.rng, axis or "")
            sentences.append(f"{where}{held_out_sentence(left_out)}")
            row = {
                "num": left_out.num,
                "env_steps_per_s": left_out.env_steps_per_s,
                "low": left_out.low,
                "high": left_out.high,
                **named,
            }
            held.append(pd.DataFrame([row]))
    if counts and axis:
        series = "series" if len(counts) > 1 else None
        measured, fitted, places = (pd.concat(frames, ignore_index=True) for frames in (counts, curves, marks))
        left_out_counts = pd.concat(held, ignore_index=True) if held else None
        alone = pd.concat(own_process, ignore_index=True) if own_process else None
        what = (
            "Throughput against the count, with the fitted laws (Amdahl's and the Universal Scalability Law, "
            "weighted by the data) and linear scaling from the first count. Hollow: the largest count as predicted "
            "from the others, with its 95% prediction interval."
        )
        ax = scaling_curve.plot(measured, fitted, places, left_out_counts, alone, series, axis, part.packed)
        figures.append(part.drawn("scaling", figure_of(ax), what, MODERATED, measured["num_seeds"]))
        what = "What each gives, as a share of what one alone gives, by the fit."
        ax = scaling_efficiency.plot(measured, series, axis, part.packed)
        figures.append(
            part.drawn("scaling-efficiency", figure_of(ax), what, "posterior of the fit", measured["num_seeds"])
        )
    return Section("scaling", "How it scales", tuple(sentences), tuple(figures))


def _marks(fit: scaling_laws.ScalingFit) -> pd.DataFrame:
    """Where the curve's knee and peak are."""
    places = []
    for kind in ("knee", "peak"):
        num, low, high = astuple(getattr(fit, kind))
        speed = float(fit.predict([num])["env_steps_per_s"].iloc[0]) if np.isfinite(num) else np.nan
        places.append({"kind": kind, "num": num, "num_low": low, "num_high": high, "env_steps_per_s": speed})
    return pd.DataFrame(places)


def _grid(part: Part) -> list[Drawn]:
    """Throughput over the two searched axes, if there are two."""
    pair = [a for a in part.axes if part.runs[a].nunique() > 1]
    if len(pair) != 2 or len(part.summary) > len(part.summary[pair].drop_duplicates()):
        return []
    ax = score_heatmap.plot(part.summary, "env_steps_per_s", x=pair[0], y=pair[1], packed=part.packed)
    return [
        part.drawn("heatmap-throughput", figure_of(ax), "Env steps per second: geometric mean over seeds.", MODERATED)
    ]


def bottlenecks(part: Part) -> Section:
    """Where the time goes."""
    figures = []
    shares = throughput.time_shares(part.curves, part.runs)
    if not shares.empty:
        what = f"Where the time goes: mean over seeds.{' Trials shared the machine.' if part.packed else ''}"
        figures.append(
            part.drawn("time", figure_of(time_breakdown.plot(shares, part.packed)), what, "", shares["num_seeds"])
        )
    sentences = bottleneck_sentences(part.diagnosed) if len(part.diagnosed) else []
    return Section("bottlenecks", "Where the time goes", tuple(sentences), tuple(figures))


def health(part: Part) -> Section:
    """Signals in the curves."""
    sentences = health_sentences(part.diagnosed) if len(part.diagnosed) else []
    sentences += memory_sentences(part.trials, part.predicted_mib)
    return Section("health", "Health of the runs", tuple(sentences))
