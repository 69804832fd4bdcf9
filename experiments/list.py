"""The studies of a store: every execution of a study, the latest first."""

import sys
from pathlib import Path

if not __package__:  # run as a file: what is called like the suite's packages in other folders is not taken for them
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding

from analysis.document.commands import Command
from analysis.stores.executions import Execution, executions
from experiments.study.progress import console as terminal


def listed(*, study: str | None = None, tracking_uri: str | None = None) -> int:
    """Lists the studies of a store, the latest first: name, status, when it began, its size, its run id, its question
    and its answer.

    The run id is what `run resume=` and `report study=` take.

    Args:
        study: Only those of this name (lr_batch), or of this experiment (lr_batch/ppo-cartpole).
        tracking_uri: The store: sqlite:////absolute/mlflow.db or http(s)://host:port; default: outputs/mlflow.db.
    """
    console = terminal()
    for execution in executions(study, tracking_uri):
        _show(execution, console)
    return 0


COMMAND = Command(
    "list", listed, ("", "study=lr_batch"), "0 listed. 2 the store cannot be read, or holds no such study."
)


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    return COMMAND.exit_code(arguments)


def _show(execution: Execution, console: Console) -> None:
    counts = ((execution.configurations, "configuration"), (execution.seeds, "seed"))
    size = " x ".join(f"{count} {what}{'' if count == '1' else 's'}" for count, what in counts if count)
    head = "   ".join(
        part
        for part in (execution.experiment, execution.status, f"{execution.started:%Y-%m-%d %H:%M} UTC", size)
        if part
    )
    console.print(head, style="bold", highlight=False, markup=False)
    for line in (f"study run {execution.run_id}", execution.question, *execution.answers):
        if line:
            console.print(Padding(line, (0, 0, 0, 2), expand=False), highlight=False, markup=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
