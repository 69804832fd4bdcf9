"""The commands in docs/cluster.md and in the files of `deploy/`, as they are written there."""

import re
import shlex

import click
import hydra
import pytest
from ray.scripts.scripts import cli as ray_cli

from experiments.config.compose import CONF, composer
from experiments.config.schema import parse
from tests.support.planning import compose
from tests.support.suite import ROOT

OF_DEPLOY = (path for path in sorted((ROOT / "deploy").rglob("*")) if path.is_file() and path.suffix != ".pyc")
FILES = [ROOT / "docs/cluster.md", *OF_DEPLOY]
# A line that ends in a backslash goes on in the next one, also in a comment.
TEXT = re.sub(r"\\\n[\s#]*", "", "\n".join(path.read_text() for path in FILES))
STUDIES = sorted(
    {
        words.strip()
        for words in re.findall(r"(?:experiments/run\.py|slurm/study\.sh)((?: [\w.]+=[^\s`]+)+)", TEXT)
        if "..." not in words
    }
)
RAY = sorted(
    {words.strip() for words in re.findall(r"(?:[#$/-]|^)\s*ray ([a-z-]+(?: [^`\n#]*)?)$", TEXT, re.MULTILINE)}
)


@pytest.mark.parametrize("words", STUDIES)
def test_the_settings_of_a_studys_command_compose(words: str) -> None:
    overrides = shlex.split(words)
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        suite = parse(composer(compose(overrides), overrides)({}))
    assert suite.output_dir.startswith(("/shared", "s3://"))


@pytest.mark.parametrize("words", RAY)
def test_rays_commands_and_options_exist(words: str) -> None:
    command: click.Command | None = ray_cli
    left = shlex.split(words)
    while isinstance(command, click.Group):
        command, left = command.get_command(click.Context(command), left[0]), left[1:]
    assert command is not None
    command.make_context(command.name, left)  # parses, and does nothing


def test_what_is_looked_at_is_what_is_written() -> None:
    assert len(STUDIES) >= 6
    assert {words.split()[0] for words in RAY} >= {"start", "stop", "up", "attach", "down", "get-auth-token"}


def test_the_files_of_the_commands_are_there() -> None:
    named = {name for path in FILES for name in re.findall(r"(?<![\w/.])deploy/[\w./-]+\w", path.read_text())}
    assert len(named) >= 7
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
