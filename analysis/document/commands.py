"""Commands: their words, `key=value` or `--key value`, are read by the signature of the function that they call."""

import difflib
import logging
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from cyclopts import App, ArgumentCollection, CoercionError, CycloptsError, Parameter, Token, UnusedCliTokensError

from analysis import AnalysisError
from analysis.document.command_line import INTERRUPTED, REFUSED, help_asked
from analysis.document.garbage import end_quickly
from analysis.document.standard_streams import keep_streams
from experiments.contract import PROGRAM
from experiments.contract.mlflow_environment import keep_out


def _whole(_: Any, tokens: Sequence[Token]) -> int:
    word = tokens[0].value
    if not word.isascii() or not word.isdecimal():
        raise ValueError(word)
    return int(word)


Whole = Annotated[int, Parameter(converter=_whole)]
"""A whole number, 0 or more: cyclopts would round 1.5."""
NotAWord = Parameter(parse=False, show=False)
"""An argument that the command line does not have."""


@dataclass(frozen=True)
class Command:
    """What a command line calls.

    Attributes:
        name: Of the command, of `rl-scaling`.
        call: Does it, and gives the exit code. Its keyword arguments are the words there are, its docstring says what
            the command does and what each word means.
        examples: Command lines, without the program.
        exit_codes: What each means.
        refusals: Exceptions beside `AnalysisError` by which it refuses: their message is the error.
        interrupted: Said at SIGINT.
    """

    name: str
    call: Callable[..., int]
    examples: Sequence[str]
    exit_codes: str
    refusals: tuple[type[Exception], ...] = ()
    interrupted: str = ""

    def exit_code(self, arguments: Sequence[str], **more: Any) -> int:
        """Do what a command line asks for, without what the shell would tell MLflow, and give its exit code.

        Args:
            arguments: The command line's words.
            **more: Arguments of `call` that are no words.
        """
        keep_streams()
        end_quickly()
        if help_asked(arguments):
            self.print_help()
            return 0
        logging.basicConfig(level=logging.WARNING, format="%(message)s")
        for line in keep_out():
            print(line, file=sys.stderr)
        refused: tuple[type[Exception], ...] = (AnalysisError, *self.refusals)
        try:
            return self.call(**self.read(arguments), **more)
        except refused as error:
            print(f"error: {error}", file=sys.stderr)
            return REFUSED
        except KeyboardInterrupt:
            if self.interrupted:
                print(self.interrupted, file=sys.stderr)
            return INTERRUPTED

    def print_help(self) -> None:
        """What it does, its words, examples, exit codes."""
        self._app.help_print([])
        print()

    @cached_property
    def words(self) -> dict[str, str]:
        """The words there are, each with what it means."""
        return {
            name.removeprefix("--"): one.parameter.help or ""
            for one in self._arguments
            if one.parameter.parse is not False
            for name in one.names
        }

    def written_out(self, arguments: Sequence[str]) -> list[str]:
        """A command line with its own `--key value` and `--flag` as `key=value`."""
        found, given = [], list(arguments)
        while given:
            word = given.pop(0)
            key, equals, value = word.removeprefix("--").partition("=")
            if not word.startswith("--") or key not in self.words:
                found.append(word)
            elif equals:
                found.append(f"{key}={value}")
            elif key in self._flags:
                is_said = bool(given) and given[0].lower() in ("true", "false")
                found.append(f"{key}={given.pop(0) if is_said else 'true'}")
            else:
                found.append(f"{key}={given.pop(0) if given else ''}")
        return found

    @property
    def _flags(self) -> list[str]:
        return [name.removeprefix("--") for one in self._arguments if one.hint is bool for name in one.names]

    @cached_property
    def _arguments(self) -> ArgumentCollection:
        return self._app.assemble_argument_collection()

    def read(self, arguments: Sequence[str]) -> dict[str, Any]:
        """The words of a command line, by argument.

        Raises:
            AnalysisError: One has another form, there is no such key, or its value is none.
        """
        words = self.written_out(arguments)
        for word in words:
            self._check(word)
        options = [f"--{word}" if "=" in word else word for word in words]
        try:
            _, bound, _ = self._app.parse_args(options, exit_on_error=False, print_error=False)
        except UnusedCliTokensError as error:
            raise AnalysisError(f"{(error.unused_tokens or [''])[0]!r} is not understood. {self._hint}") from None
        except CoercionError as error:
            key, value = ("", "") if error.token is None else (error.token.keyword or "", error.token.value)
            wanted = _wanted(error.target_type)
            raise AnalysisError(f"{key.removeprefix('--')}={value}: must be {wanted}. {self._hint}") from None
        except CycloptsError as error:
            as_typed = re.sub(r"--([.a-z_]+)", r"\1=", str(error))
            raise AnalysisError(f"{as_typed} {self._hint}") from None
        return dict(bound.kwargs)

    def _check(self, word: str) -> None:
        key, equals, value = word.removeprefix("--").partition("=")
        if (equals or word.startswith("--")) and key not in self.words:
            alike = difflib.get_close_matches(key, self.words, n=1)
            meant = f"Did you mean {alike[0]}=? " if alike else ""
            raise AnalysisError(f"{word!r} is not understood. {meant}{self._hint}")
        if equals and not value:
            raise AnalysisError(f"{key}= is empty: give it a value, or leave it out. {self._hint}")

    @property
    def _hint(self) -> str:
        return f"{PROGRAM} {self.name} --help lists what there is."

    @cached_property
    def _app(self) -> App:
        examples = "\n".join(f"- `{' '.join((PROGRAM, self.name, words)).strip()}`" for words in self.examples)
        written = "Words may be written `key=value` or `--key value`."
        app = App(
            name=f"{PROGRAM} {self.name}",
            help_format="markdown",
            help_flags=(),
            version_flags=(),
            help_epilogue=f"{written}\n\n{examples}\n\nExit codes: {self.exit_codes}",
            default_parameter=Parameter(name_transform=str, negative=(), show_default=False),
        )
        app.default(self.call)
        return app


def _wanted(kind: Any) -> str:
    """What a value has to be, in words."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    kinds = tuple(one for one in kinds if one is not NoneType)
    if get_origin(kinds[0]) is Literal:
        return " or ".join(str(choice) for choice in get_args(kinds[0]))
    return {bool: "true or false", int: "a whole number, 0 or more", float: "a number"}.get(kinds[0], "something else")
