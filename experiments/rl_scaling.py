"""`rl-scaling`: every command of the suite, as it is installed."""

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from analysis.document.command_line import REFUSED, help_asked
from experiments.contract import PROGRAM, extensions

if TYPE_CHECKING:
    from analysis.document.commands import Command

MODULES = {
    "run": ("experiments.run", "Runs a study: trials, their report, what to use."),
    "report": ("analysis.report", "Writes the report of a study, or of several side by side."),
    "plan": ("analysis.plan", "Predicts the hours of a training, also on another machine."),
    "forecast": ("analysis.forecast", "Says what more env steps would bring, and what may overtake the choice."),
    "transfer": ("analysis.transfer", "Says which settings carry over from one environment to another."),
    "reproduce": ("experiments.reproduce", "Runs a logged trial again: does it come out the same?"),
    "evaluate": ("experiments.evaluate", "Plays, films and exports a trained policy."),
    "autotune": ("experiments.autotune", "Finds this machine's fastest runners, as a hardware profile."),
    "list": ("experiments.list", "Lists the studies of a store."),
    "delete": ("experiments.delete", "Removes a study, or what weighs of it."),
    "ui": ("experiments.tracking.ui", "Opens MLflow's UI on this folder's studies, on 127.0.0.1 alone."),
    "completion": ("experiments.completion", "Prints what bash needs to complete these commands."),
}
"""Name to the module whose `main` takes its words, and what it does; extensions add theirs."""


def commands() -> dict[str, str]:
    """Name to what it does."""
    found = {name: what for name, (_, what) in MODULES.items()}
    for extension in extensions.found():
        for word in extension.manifest.commands:
            found.setdefault(word, f"Of the extension {extension.name}.")
    return found


def _main_of(name: str) -> Callable[[Sequence[str]], int | None]:
    """What takes a command's words."""
    if name in MODULES:
        takes: Callable[[Sequence[str]], int | None] = importlib.import_module(MODULES[name][0]).main
        return takes

    from analysis.document.extension import command  # with pandas, which takes a second

    return command(name)


def command_of(name: str) -> "Command | None":
    """A command's words and their meaning; None of one whose words are another program's."""
    return getattr(importlib.import_module(_main_of(name).__module__), "COMMAND", None)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    known = commands()
    if given and given[0] in known:
        sys.argv[1:] = given[1:]
        return _main_of(given[0])(given[1:]) or 0

    from cyclopts import App, CycloptsError  # which a command that is known reads its words with, or not at all

    app = App(
        name=PROGRAM,
        help="Which learning rate, train batch size and env-runner count should I use?",
        help_epilogue=f"{PROGRAM} COMMAND --help says more of each.",
        version_flags=(),
    )
    for name, what in known.items():
        app.command(lambda: None, name=name, help=what)
    if not given or help_asked(given):
        app.help_print([])
        print()
        return 0
    try:
        app.parse_args(given, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        print(f"error: {error}", file=sys.stderr)
    return REFUSED


if __name__ == "__main__":
    sys.exit(main())
