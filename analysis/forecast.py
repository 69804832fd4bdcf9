"""What more env steps are expected to bring, from the learning curves of a study."""

import sys
from pathlib import Path

if not __package__:  # run as a file: what is called like the suite's packages in other folders is not taken for them
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from collections.abc import Sequence

from analysis import AnalysisError
from analysis.document.commands import Command
from analysis.document.forecast import lines_of
from analysis.document.next_step import study_command, twice_as_long
from analysis.load import load_study
from analysis.questions.forecast import forecast
from experiments.contract import RETURN
from experiments.contract.words import labelled


def foretold(*, study: str | None = None, tracking_uri: str | None = None) -> int:
    """Says what 2 and 5 times the env steps are expected to bring of the configuration that a study recommends, and
    which others may overtake it, with 90% intervals. The study may still run.

    Args:
        study: Its name, of which the latest execution is taken, or the run id of one; default: the latest of all. Of a
            search, the trials that confirm count.
        tracking_uri: The store that holds it: sqlite:////absolute/mlflow.db or http(s)://host:port; default:
            outputs/mlflow.db.
    """
    found = load_study(study, tracking_uri, metrics=[RETURN])
    evidence = found.evidence.concluding
    if evidence.runs.empty:
        raise AnalysisError(
            f"{found.experiment} has confirmed nothing yet, and its trials that search are no basis. Go on with it: "
            f"run resume={found.run_id}"
        )
    if evidence.is_measured:
        raise AnalysisError(f"{found.experiment} measured throughput. Name a study that trains to a budget.")
    told = {env: lines_of(forecast(own)) for env, own in evidence.of_envs.items()}
    for env, lines in told.items():
        print(labelled("forecast", f"{found.experiment}{f' on {env}' if len(told) > 1 else ''}"))
        print("\n".join(lines))
    if found.command:
        step = twice_as_long("To see it, with twice the env steps", evidence.replicates, study_command(found))
        print(labelled("next", step.sentence))
        print(labelled("", step.command))
    return 0


COMMAND = Command(
    "forecast",
    foretold,
    ("study=lr_batch",),
    "0 told. 2 there is no such study, or its curves have too few evaluations.",
)


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    return COMMAND.exit_code(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
