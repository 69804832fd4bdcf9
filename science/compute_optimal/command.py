"""The best point at a budget that was not run, from the trials of a study."""

from collections.abc import Sequence

import numpy as np

from analysis import AnalysisError
from analysis.document.commands import Command
from analysis.document.next_step import study_command
from analysis.load import load_study
from experiments.contract.words import labelled
from science.compute_optimal.question import Kind, best, find
from science.compute_optimal.words import command_of, of_cheapest, of_fit, of_point

SEED = 0
"""Of the bootstrap: the same runs give the same answer."""


def chosen(
    *,
    study: str = "compute_optimal",
    compute: float | None = None,
    data: float | None = None,
    price: float | None = None,
    tracking_uri: str | None = None,
) -> int:
    """Says which updates per env step, width and batch reach the target best at a budget that was not run, by the law
    that is fitted to the trials of study=compute_optimal, with 90% intervals, and prints the command that runs it
    (Rybkin et al. 2025, arXiv 2502.04327; Fu et al. 2025, arXiv 2508.14881).

    Args:
        study: Its name, of which the latest execution is taken, or the run id of one; default: compute_optimal.
        compute: Floating-point operations that may be spent: the fewest env steps to the target with them.
        data: Env steps that may be spent: the fewest floating-point operations to the target with them.
        price: Floating-point operations that an env step costs as much as: the least of both together.
        tracking_uri: The store that holds it: sqlite:////absolute/mlflow.db or http(s)://host:port; default:
            outputs/mlflow.db.
    """
    kind, amount = _budget(compute, data, price)
    own = load_study(study, tracking_uri, metrics=["progress/updates"])
    rng = np.random.default_rng(SEED)
    for env, evidence in own.evidence.comparing.of_envs.items():
        found = find(evidence.runs, own.curves, own.axes, rng)
        if found is None:
            raise AnalysisError(
                f"{own.experiment} did not search updates per env step, or did not count operations: name one of "
                "study=compute_optimal."
            )
        print(labelled("frontier", f"{own.experiment} on {env}"))
        for fit in found.fits:
            print(of_fit(fit))
        if found.points.empty:
            print(of_cheapest(found))
        point = best(found, kind, amount)
        print(of_point(found, point, kind, amount))
        print(labelled("run", command_of(study_command(own), evidence.runs, own.axes, found, point)))
    return 0


COMMAND = Command(
    "compute_optimal",
    chosen,
    ("study=compute_optimal compute=2e12", "study=compute_optimal price=1e8"),
    "0 told. 2 there is no such study, no law holds of it, or the budget is too far from what was run.",
)


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    return COMMAND.exit_code(arguments)


def _budget(compute: float | None, data: float | None, price: float | None) -> tuple[Kind, float]:
    given: dict[Kind, float | None] = {"compute": compute, "data": data, "price": price}
    known = [(kind, amount) for kind, amount in given.items() if amount is not None]
    if len(known) != 1:
        raise AnalysisError("give compute=, data= or price=, and one of them alone.")
    return known[0]
