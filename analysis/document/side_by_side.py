"""Two studies or more side by side: one page, and its short form for the terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

import pandas as pd

from analysis.document.caveats import FEW_SEEDS
from analysis.document.page import address, environment, svg
from analysis.document.parts import MODERATED, figure_of
from analysis.document.side_tables import best_table, facts_table, settings_table, shared_tables
from analysis.document.side_words import cell, chosen_of, commit, has, in_words, machine, refused, row_of, values_of
from analysis.document.tables import section
from analysis.document.terminal import wrapped
from analysis.evidence import is_measured
from analysis.load import Study
from analysis.plots import learning_curves, style, throughput_bars
from analysis.questions.convergence import curve_bands
from analysis.questions.labels import WORDS, code, listed
from analysis.questions.side_by_side import (
    MEASURES,
    DifferingSetting,
    Side,
    comparisons,
    different,
    differing,
    flat,
    shared,
)
from analysis.stats.interval import CONFIDENCE
from experiments.contract import NOT_HASHED
from experiments.contract.words import plural

_MOST_IN_TERMINAL = 8
"""Settings that differ, shown there."""
_NO_STUDY_SETTINGS = (
    *("algorithm", "env", "study", "tracking", "output_dir", "resume", "dry_run", "report", "fast", "modules"),
    *("measurement", "confirmation"),
)
_OF_STUDY = ("preprocessing", "extension", "extensions", "start", "provenance")
"""Of a trial's record, what is said of its study as a whole, or in its name."""
_NEW = ("constraints.", "hardware.price_per_hour")
"""Settings that earlier studies did not record: as good as none, where they are null."""
_NOT_OF_TRIALS = (
    *("checkpoint.keep", "checkpoint.keep_best", "checkpoint.replay"),
    *("env.budget_env_steps", "env.report_every_env_steps", "env.extra"),
)
"""Settings that change no result, and those that an environment's file proposes."""

METHODS = (
    "**Shared configurations.** Those with the same values of all settings that one of the studies searched. "
    "Whatever else differs is what the comparison is about.",
    "**Differences.** Of means over seeds, seed for seed where most seeds are common to both studies, "
    "else by Welch's test. Variances are averaged over the configurations of both studies (moderated, Smyth 2004). "
    "Of env steps/s it is the ratio of geometric means.",
    "**Significance.** Two-sided, 5%; p is corrected for all comparisons of one kind by one measure (Holm 1979). "
    "Intervals are 95%, not corrected.",
    "**Env steps to target.** Between studies of different budgets, counted up to the smaller one.",
    "**Each study's own numbers** are those of its own report.",
)


@dataclass(frozen=True)
class SideBySide:
    """Several studies beside each other.

    Attributes:
        html: The page.
        lines: The short form, at most `terminal.WIDTH` columns wide.
    """

    html: str
    lines: tuple[str, ...]


def side_of(letter: str, study: Study, recorded: Mapping[str, Mapping[str, Any]], composed: Mapping[str, Any]) -> Side:
    """A study as the comparison takes it.

    Args:
        letter: What it is called.
        study: As `analysis.load.load_study` gives it.
        recorded: As `analysis.load.load_settings` gives it, as the next.
        composed: The study's own settings.
    """
    beside = {*NOT_HASHED, *_OF_STUDY} - {"checkpoint"}
    of_trials = {config: {k: v for k, v in nested.items() if k not in beside} for config, nested in recorded.items()}
    settings = {
        config: {path: value for path, value in flat(nested).items() if path not in _NOT_OF_TRIALS}
        for config, nested in of_trials.items()
    }
    left_out = {*_NO_STUDY_SETTINGS, *NOT_HASHED, *(key for nested in of_trials.values() for key in nested)}
    overall = flat({key: value for key, value in composed.items() if key not in left_out})
    overall = {path: value for path, value in overall.items() if value is not None or not path.startswith(_NEW)}
    facts = study.provenance
    return Side(
        letter,
        study.evidence.concluding.runs,
        tuple(study.paths.values()),
        study.points,
        settings,
        overall,
        facts.get("host") or {},
        int(facts.get("num_nodes") or 1),
    )


def build(studies: Sequence[Study], sides: Sequence[Side]) -> SideBySide:
    """The page and the lines.

    Args:
        studies: Two or more.
        sides: The same, in the same order.
    """
    by_letter = {side.letter: study for side, study in zip(sides, studies, strict=True)}
    best = comparisons(sides, {(a, b): _recommended(by_letter[a], by_letter[b]) for a, b in combinations(by_letter, 2)})
    pairs = {(a.letter, b.letter): shared(a, b) for a, b in combinations(sides, 2)}
    common = comparisons(sides, pairs)
    settings, around = differing(sides), _around(studies)
    answers = _answers(studies, sides, best)
    cautions = [*refused(pd.concat([best, common])), *_cautions(studies, sides)]
    gaps = [f"{side.letter}: {gap}" for side, study in zip(sides, studies, strict=True) for gap in study.gaps()]
    names = [f"{side.letter} {study.experiment}" for side, study in zip(sides, studies, strict=True)]
    sections = [
        section("The studies", [facts_table(studies, sides)]),
        section("What differs: settings", [settings_table(sides, settings)], "" if settings else "No setting differs."),
        section(
            "What differs: code, versions, machine",
            [settings_table(sides, around)],
            "" if around else "Nothing that was recorded differs.",
        ),
        section(
            "Recommended configurations",
            [best_table(studies, sides)],
            figures=_figures(studies, sides, best),
        ),
        *(
            section(
                f"Configurations that {a} and {b} share",
                shared_tables(common[(common["a"] == a) & (common["b"] == b)], by_letter),
                _nothing_shared(a, b, sides) if not pairs[a, b] else "",
            )
            for a, b in pairs
        ),
    ]
    page = (
        environment()
        .get_template("side_by_side.html.j2")
        .render(
            title=f"Side by side: {listed([study.experiment for study in studies])}",
            over="Studies side by side",
            heading=listed(names),
            answers=answers,
            gaps=gaps,
            cautions=cautions,
            sections=sections,
            methods=METHODS,
            commands=[(side.letter, study.command) for side, study in zip(sides, studies, strict=True)],
            footer=(
                f"Study runs {listed([study.run_id for study in studies])}. "
                f"Written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
            ),
        )
    )
    num_shared = {key: len(found) for key, found in pairs.items()}
    lines = _lines(studies, sides, settings + around, answers, common, num_shared, cautions, gaps)
    return SideBySide(page, tuple(lines))


def _recommended(a: Study, b: Study) -> list[tuple[str, str]]:
    """The recommended configurations of two studies, on each environment that both have."""
    of_a, of_b = chosen_of(a), chosen_of(b)
    return [(of_a[env], of_b[env]) for env in of_a if env in of_b]


def _around(studies: Sequence[Study]) -> list[DifferingSetting]:
    """Differences around the studies, as recorded: the commit, versions, the machine."""
    tables = []
    for study in studies:
        facts = {key: value for key, value in study.provenance.items() if key not in ("command", "packages", "dirty")}
        facts = {"uncommitted changes" if key == "diff" else key: value or "none" for key, value in flat(facts).items()}
        others = {f"packages.{name}": version for name, version in (study.provenance.get("packages") or {}).items()}
        known = {key.partition(".")[2] for key in facts if key.startswith("versions.")}
        tables.append(
            {
                key: [value]
                for key, value in {**facts, **others}.items()
                if key.removeprefix("packages.") not in known or key in facts
            }
        )
    return different(tables)


# Sentences.


def _answers(studies: Sequence[Study], sides: Sequence[Side], best: pd.DataFrame) -> list[list[str]]:
    """How the recommended configurations compare: a paragraph of Markdown sentences
    for each pair of studies and environment.
    """
    found = []
    for (a, b, env), part in best.groupby(["a", "b", "env"], sort=False):
        row = part.iloc[0]
        where = f" on {env}" if best["env"].nunique() > 1 else ""
        head = f"{a} recommends {code(row['config_a'])}{where}, {b} {code(row['config_b'])}."
        found.append([head, *(words for r in part.to_dict("records") if (words := in_words(r)))])
    if not found:
        what = [f"{side.letter} {listed(sorted(side.runs['env'].unique())) or 'nothing'}" for side in sides]
        without = [side.letter for side, study in zip(sides, studies, strict=True) if not chosen_of(study)]
        why = f"{listed(without)} has no answer yet" if without else f"they share no environment ({'; '.join(what)})"
        found.append(
            [
                f"No recommendations can be compared: {why}.",
                "What each study says by itself stands below, beside the other.",
            ]
        )
    return found


def _cautions(studies: Sequence[Study], sides: Sequence[Side]) -> list[str]:
    """Warnings on what is compared."""
    found = []
    tried = [side.runs["config"].nunique() for side in sides]
    if max(tried) > 1:
        counts = listed([f"{count} in {side.letter}" for count, side in zip(tried, sides, strict=True)])
        found.append(
            f"Each recommended configuration was picked for its numbers on these seeds ({counts}), which flatters it, "
            "more so where more were tried. Run both on fresh seeds before you rely on a small difference."
        )
    seeds = [sorted(side.runs["seed"].unique()) for side in sides]
    if len({tuple(own) for own in seeds}) > 1:
        words = listed(
            [f"{side.letter} has {', '.join(map(str, own))}" for side, own in zip(sides, seeds, strict=True)]
        )
        found.append(f"The studies do not have the same seeds: {words}.")
    if min(map(len, seeds)) < FEW_SEEDS:
        found.append(
            f"{plural(min(map(len, seeds)), 'seed')} of a study are few: differences that matter may not show."
        )
    if any(study.status != "finished" for study in studies):
        words = listed(
            [
                f"{side.letter} is {study.status}"
                for side, study in zip(sides, studies, strict=True)
                if study.status != "finished"
            ]
        )
        found.append(f"Not all studies are finished: {words}.")
    return found


def _nothing_shared(a: str, b: str, sides: Sequence[Side]) -> str:
    by_letter = {side.letter: side for side in sides}
    envs = [set(by_letter[letter].runs["env"]) for letter in (a, b)]
    why = "they share no environment" if not envs[0] & envs[1] else "no values of what either searched are in both"
    return f"{a} and {b} share no configuration: {why}. Their recommended configurations stand beside each other."


# Figures.


def _figures(studies: Sequence[Study], sides: Sequence[Side], best: pd.DataFrame) -> list[dict[str, str]]:
    """The recommended configurations' curves, and their speeds where these may be compared."""
    found = []
    names = listed(list(dict.fromkeys(study.name for study in studies)))

    def rests(counts: Sequence[int]) -> str:
        return style.caption(names, counts, MODERATED).replace("Study", "Studies", 1)

    for env in dict.fromkeys(best["env"]):
        where = f" on {env}" if best["env"].nunique() > 1 else ""
        bands, counts, speeds = [], [], []
        for study, side in zip(studies, sides, strict=True):
            if (config := chosen_of(study).get(env)) is None:
                continue
            mine = side.runs[side.runs["config"] == config]
            name = f"{side.letter} {config}"
            part = (
                pd.DataFrame()
                if is_measured(side.runs)
                else curve_bands(study.curves, side.runs[side.runs["env"] == env])
            )
            speeds.append({**row_of(study, config).to_dict(), "config": name})
            if len(part):
                bands.append(part[part["config"] == config].assign(config=name))
                counts.append(int(mine["seed"].nunique()))
        of_env = best[best["env"] == env]
        if bands and not of_env.loc[of_env["measure"] == "score", "obstacles"].map(bool).all():
            targets = {row["target"] for row in speeds}
            target = targets.pop() if len(targets) == 1 else None
            figure = figure_of(
                learning_curves.plot(pd.concat(bands, ignore_index=True), target=target if pd.notna(target) else None)
            )
            caption = f"Evaluation return over env steps of the recommended configurations{where}: mean over seeds. "
            found.append({"source": address(svg(figure)), "caption": caption + rests(counts)})
        if not of_env.loc[of_env["measure"] == "env_steps_per_s", "obstacles"].map(bool).any():
            frame = pd.DataFrame(speeds)
            caption = (
                f"Env steps per second of training of the recommended configurations{where}: "
                "geometric mean over seeds. "
            )
            figure = figure_of(throughput_bars.plot(frame))
            found.append({"source": address(svg(figure)), "caption": caption + rests(list(frame["num_seeds"]))})
    return found


# The terminal.


def _lines(
    studies: Sequence[Study],
    sides: Sequence[Side],
    settings: Sequence[DifferingSetting],
    answers: Sequence[Sequence[str]],
    common: pd.DataFrame,
    pairs: Mapping[tuple[str, str], int],
    cautions: Sequence[str],
    gaps: Sequence[str],
) -> list[str]:
    """The short form: key, then text."""
    found = []
    for study, side in zip(studies, sides, strict=True):
        size = (
            f"{plural(side.runs['config'].nunique(), 'configuration')} x {plural(side.runs['seed'].nunique(), 'seed')}"
        )
        found += wrapped(side.letter, f"{study.experiment}, {study.run_id}")
        found += wrapped("", f"{size}, {study.status}; {machine(side)}; commit {commit(study)}")
        for config in chosen_of(study).values():
            row = row_of(study, config)
            measures = [f"{WORDS[m]} {' '.join(cell(row, m))}".strip() for m in MEASURES if has(row, m)]
            found += wrapped(
                "", f"recommends {config}: {', '.join(measures)} ({plural(int(row['num_seeds']), 'seed')})"
            )
    for i, setting in enumerate(settings[:_MOST_IN_TERMINAL]):
        words = "; ".join(
            f"{side.letter} {values_of(values)}" for side, values in zip(sides, setting.values, strict=True)
        )
        found += wrapped("differs" if not i else "", f"{setting.path}: {words}")
    if (more := len(settings) - _MOST_IN_TERMINAL) > 0:
        found += wrapped("", f"and {more} more, on the page")
    for paragraph in answers:
        for i, sentence in enumerate(paragraph):
            found += wrapped("answer" if not i else "", sentence)
    for (a, b), num_shared in pairs.items():
        of_pair = common[(common["a"] == a) & (common["b"] == b)]
        clear = of_pair[of_pair["p_adjusted"] < 1 - CONFIDENCE]
        tested = int(of_pair["p_adjusted"].notna().sum())
        verdict = f"; {len(clear)} of {plural(tested, 'comparison')} significantly different" if tested else ""
        words = (
            f"{a} and {b} share {plural(num_shared, 'configuration')}{verdict}"
            if num_shared
            else _nothing_shared(a, b, sides)
        )
        found += wrapped("shared", words)
        for row in clear.to_dict("records"):
            found += wrapped("", f"{row['config_a']}: {in_words(row)}")
    for key, sentences in (("missing", gaps), ("mind", cautions)):
        for i, sentence in enumerate(sentences):
            found += wrapped(key if not i else "", sentence)
    return found
