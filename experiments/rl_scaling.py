"""`rl-scaling`: every command of the suite, as it is installed."""

import functools
import importlib
import sys
from collections.abc import Callable, Sequence

from cyclopts import App, CycloptsError

from analysis.document.command_line import REFUSED, Command, help_asked
from experiments.contract import PROGRAM, extensions

MODULES = {
    "run": ("experiments.run", "Runs a study: trials, their report, what to use."),
    "report": ("analysis.report", "Writes the report of a study, or of several side by side."),
    "plan": ("analysis.plan", "Predicts the hours of a training, also on another machine."),
    "reproduce": ("experiments.reproduce", "Runs a logged trial again: does it come out the same?"),
    "evaluate": ("experiments.evaluate", "Plays, films and exports a trained policy."),
    "autotune": ("experiments.autotune", "Finds this machine's fastest runners and writes a hardware profile."),
    "list": ("experiments.list", "Lists the studies of a store."),
    "delete": ("experiments.delete", "Removes a study, or what weighs of it."),
    "ui": ("experiments.tracking.ui", "Opens MLflow's UI on this folder's studies, on 127.0.0.1 alone."),
    "completion": ("experiments.completion", "Prints what bash needs to complete these commands."),
}
"""Name to the module whose `main` takes its words, and what it does; extensions add theirs."""


def commands() -> dict[str, tuple[Callable[[Sequence[str]], int | None], str]]:
    """Name to what takes its words, and what it does."""
    found: dict[str, tuple[Callable[[Sequence[str]], int | None], str]] = {
        name: (functools.partial(_main_of, module), what) for name, (module, what) in MODULES.items()
    }
    for extension in extensions.found():
        for word in extension.manifest.commands:
            found.setdefault(word, (functools.partial(_of_extension, word), f"Of the extension {extension.name}."))
    return found


def _main_of(module: str, arguments: Sequence[str]) -> int | None:
    code: int | None = importlib.import_module(module).main(arguments)
    return code


def _of_extension(word: str, arguments: Sequence[str]) -> int:
    from analysis.document.extension import command  # with pandas, which takes a second

    return command(word)(arguments)


def command_of(name: str) -> Command | None:
    """A command's words and their meaning; None of one whose words are another program's."""
    from analysis.document.extension import command

    module = MODULES[name][0] if name in MODULES else command(name).__module__
    return getattr(importlib.import_module(module), "COMMAND", None)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    known = commands()
    if given and given[0] in known:
        sys.argv[1:] = given[1:]
        return int(known[given[0]][0](given[1:]) or 0)
    app = App(
        name=PROGRAM,
        help="Which learning rate, train batch size and env-runner count should I use?",
        help_epilogue=f"{PROGRAM} COMMAND --help says more of each.",
        version_flags=(),
    )
    for name, (_, what) in known.items():
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
