"""The tables of studies side by side."""

from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.document.side_words import cell, chosen_of, commit, difference, has, machine, row_of, values_of
from analysis.document.tables import Table
from analysis.load import Study
from analysis.questions.labels import WORDS, seeds_finished
from analysis.questions.side_by_side import MEASURES, DifferingSetting, Side


def facts_table(studies: Sequence[Study], sides: Sequence[Side]) -> Table:
    """The studies in short, a column each."""
    rows: dict[str, list[str]] = {}
    for study, side in zip(studies, sides, strict=True):
        runs, chosen = study.runs, chosen_of(study)
        alone = "every trial alone" if runs["exclusive"].all() else "trials side by side"
        facts = {
            "question": study.question or study.name,
            "study run": study.run_id,
            "started": f"{study.started:%Y-%m-%d %H:%M} UTC, {study.status}",
            **{name: ", ".join(map(str, runs[name].unique())) for name in ("algorithm", "env", "hardware")},
            "trials": f"{side.runs['config'].nunique()} configurations, {side.runs['seed'].nunique()} seeds, "
            f"{int((runs['status'] == 'finished').sum())} of {len(runs)} trials finished",
            "machine": f"{machine(side)}; {alone}",
            "commit": commit(study),
            "recommended": ", ".join(f"{c} ({env})" if len(chosen) > 1 else c for env, c in chosen.items())
            or "nothing yet",
        }
        for name, value in facts.items():
            rows.setdefault(name, []).append(value)
    heads = ["", *(f"{side.letter} {study.experiment}" for side, study in zip(sides, studies, strict=True))]
    return Table(heads, [[(name, ""), *((value, "") for value in values)] for name, values in rows.items()], prose=True)


def settings_table(sides: Sequence[Side], settings: Sequence[DifferingSetting]) -> Table:
    """The settings that differ, with the values of each study."""
    rows = [[(setting.path, ""), *((values_of(values), "") for values in setting.values)] for setting in settings]
    return Table(["", *(side.letter for side in sides)], rows, prose=True)


def best_table(studies: Sequence[Study], sides: Sequence[Side]) -> Table:
    """The recommended configurations, by all measures."""
    known = [
        (side.letter, env, config, row_of(study, config))
        for study, side in zip(studies, sides, strict=True)
        for env, config in chosen_of(study).items()
    ]
    several = len({env for _, env, _, _ in known}) > 1
    measures = [m for m in MEASURES if any(has(row, m) for *_, row in known)]
    rows = []
    for letter, env, config, row in known:
        name = f"{letter} {config}{f' on {env}' if several else ''}"
        rows.append([(name, ""), (seeds_finished(row), ""), *(cell(row, measure) for measure in measures)])
    return Table(["configuration", "seeds", *(WORDS[m] for m in measures)], rows)


def shared_tables(compared: pd.DataFrame, by_letter: Mapping[str, Study]) -> list[Table]:
    """The shared configurations of two studies, a table for each measure that one of them has."""
    found = []
    for measure, part in compared.groupby("measure", sort=False):
        a, b = part.iloc[0][["a", "b"]]
        rows = []
        for row in part.to_dict("records"):
            name = (row["config_a"], "" if row["config_a"] == row["config_b"] else f"{b}: {row['config_b']}")
            both = [
                cell(row_of(by_letter[side], config), measure)
                for side, config in ((a, row["config_a"]), (b, row["config_b"]))
            ]
            rows.append([name, *both, *difference(row)])
        if any(text != "\u2013" for _, *both in rows for text, _ in both[:2]):
            versus = f"{a} / {b}" if measure == "env_steps_per_s" else f"{a} \u2212 {b}"
            found.append(Table(["configuration", a, b, versus, "p", "seeds"], rows, title=WORDS[measure]))
    return found
