"""How well a study comes out the same when it is run again, in words."""

import numpy as np
import pandas as pd

from analysis.questions.labels import FORMS, WORDS, code, interval_of, named, shown, trials_named
from analysis.questions.reproducibility import bit_exactness, repeat_differences
from experiments.contract.words import plural

GROUP = 5
"""Seeds on either side, where some are held against as many others."""
_UNPROMISED = "the algorithm is asynchronous, the environments are EnvPool's, or something raised once and not again"


def sameness(runs: pd.DataFrame, curves: pd.DataFrame | None = None) -> list[str]:
    """How many repeats of an environment's trials came out the same, as Markdown paragraphs,
    the most important first.

    Args:
        runs: As `analysis.load` gives them, of one environment.
        curves: Likewise; None compares the final weights and the final evaluation alone.

    Returns:
        Empty if the study ran each seed once.
    """
    if not runs["repeat"].any():
        return []
    exact = bit_exactness(runs, curves)
    found = []
    if exact["num_pairs"].any():
        found.append(f"{_bits(exact, 1 + int(runs['repeat'].max()))}{_parted(exact)}")
    if number := int(exact["num_unpromised"].sum()):
        within = runs[runs["config"].isin(exact.loc[exact["num_unpromised"] > 0, "config"])]
        found.append(
            " ".join([f"{plural(number, 'repeat')} need not be the same to the bit: {_UNPROMISED}.", *_off_by(within)])
        )
    if number := int(exact["num_left_out"].sum()):
        found.append(
            f"{plural(number, 'repeat')} could not be compared: not finished, "
            "or without another finished run of the seed."
        )
    return found


def _bits(exact: pd.DataFrame, num_repeats: int) -> str:
    compared = exact[exact["num_pairs"] > 0]
    configurations = (
        f"{len(compared)} configurations x " if len(compared) > 1 else f"{code(compared['config'].iloc[0])}, "
    )
    rest = f"{compared['num_values'].sum():,} logged values" + (
        " and the final weights" if compared["has_weights"].all() else ""
    )
    same = f"{compared['num_identical'].sum()} of {compared['num_pairs'].sum()} repeats are the same to the bit"
    return (
        f"{same} as the first run of their seed ({configurations}{compared['num_seeds'].max()} seeds x "
        f"{num_repeats} repeats; {rest})."
    )


def _parted(exact: pd.DataFrame) -> str:
    """Which repeats parted, and where the first of them did."""
    parted = exact[exact["metric"].notna()]
    if parted.empty:
        return ""
    which = f" Those that differ are of {named(list(parted['config']))}; the first" if len(exact) > 1 else " The first"
    first = parted.sort_values("env_steps", kind="stable").iloc[0]
    where = f"{which} to part is {code(trials_named(first.to_frame().T))}, at {first['env_steps']:,} env steps in"
    if first["metric"] == "weights":
        return f"{where} the final weights alone."
    before, now = ("no value" if np.isnan(v) else repr(float(v)) for v in (first["value_before"], first["value"]))
    others = f" and {first['num_parted'] - 1} other metrics" if first["num_parted"] > 1 else ""
    return f"{where} {code(first['metric'])} ({before}, then {now}){others}."


def _off_by(runs: pd.DataFrame) -> list[str]:
    """How far the scores of later runs are from those of the first, of algorithms that promise no more than that."""
    sentences = []
    for row in repeat_differences(runs).to_dict("records"):
        if row["sd_repeats"] == 0:
            sentences.append(
                f"{code(row['config'])}: in all {row['num_seeds']} seeds the later runs score exactly what the first "
                f"did; seeds have a standard deviation of {row['sd_seeds']:.1f}."
            )
            continue
        difference = interval_of(row, "difference")
        verdict = (
            "more than chance explains" if difference.low > 0 or difference.high < 0 else "no more than chance explains"
        )
        sentences.append(
            f"{code(row['config'])}: the later runs of a seed score {shown(difference, '+.1f')} against its first "
            f"on average over {row['num_seeds']} seeds, {verdict}; runs of one seed have a standard deviation "
            f"of {row['sd_repeats']:.1f}, seeds one of {row['sd_seeds']:.1f}."
        )
    return sentences


def five_against_five(gaps: pd.DataFrame, measure: str) -> list[str]:
    """How often five seeds against five others of the same configuration would have differed,
    a Markdown sentence for each configuration.

    Args:
        gaps: From `reproducibility.group_gaps`.
        measure: What was compared.
    """
    form = FORMS[measure]
    return [
        f"Five seeds of {code(row['config'])} against five others of its {row['num_seeds']}, by {WORDS[measure]}: "
        f"{100 * row['share']:.1f}% of {row['num_splits']:,} random splits would have been called different at 5%. "
        f"Half of the splits lie no more than {row['gap_median']:{form}} apart, "
        f"95% no more than {row['gap_95']:{form}}."
        for row in gaps[gaps["group"] == GROUP].to_dict("records")
    ]
