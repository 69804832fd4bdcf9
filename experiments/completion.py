"""Completion of `rl-scaling` in bash: commands, their words, and of `run` all groups, files and settings.

eval "$(rl-scaling completion bash)"
"""

import os
import sys
from collections.abc import Sequence

from analysis.document.command_line import REFUSED, help_asked
from experiments.contract import PROGRAM
from experiments.rl_scaling import command_of, commands

BASH = f"""\
_rl_scaling() {{
    local line="${{COMP_LINE:0:COMP_POINT}}" word upto
    word="${{line##* }}"
    upto="${{word%"${{word##*=}}"}}" # bash completes what follows the last =
    COMPREPLY=($(compgen -W "$({PROGRAM} completion words "$line" 2>/dev/null)" -- "$word"))
    [[ $COMP_WORDBREAKS != *=* ]] || COMPREPLY=("${{COMPREPLY[@]#"$upto"}}")
}}
complete -o nospace -o default -F _rl_scaling {PROGRAM}
"""
"""What a shell evaluates."""


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    if help_asked(arguments):
        print(f'Completion in bash, also from ~/.bashrc: eval "$({PROGRAM} completion bash)"')
    elif list(arguments) == ["bash"]:
        print(BASH, end="")
    elif len(arguments) == 2 and arguments[0] == "words":
        complete(arguments[1])
    else:
        print(f'error: there is completion for bash: eval "$({PROGRAM} completion bash)"', file=sys.stderr)
        return REFUSED
    return 0


def complete(line: str) -> None:
    """Print what may stand where a command line ends.

    Args:
        line: From the program's name on.
    """
    name, between, rest = line.partition(" ")[2].lstrip().partition(" ")
    if not between:
        print(" ".join(commands()))
    elif name == "run":
        from experiments import run  # a second, at each Tab

        os.environ["COMP_LINE"] = f"{PROGRAM} {rest}"
        run.main(["--shell-completion", "query=bash"])  # Hydra knows its groups and keys
    elif name in commands():
        found = command_of(name)
        print(" ".join(f"{key}=" for key in found.words) if found else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
