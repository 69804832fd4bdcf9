"""The configuration files: a folder a group, a file a choice.

A command line may name a second such folder, of a person's own.
"""

from collections.abc import Sequence

CONFIG_DIR = "--config-dir"
_SPELLINGS = (CONFIG_DIR, "--config-di", "--config-d", "-cd")
"""As Hydra takes it, which accepts the beginning of a word."""


def config_dirs(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """A command line without the folders of a person's own that it names, and these:
    `--config-dir FOLDER` or `--config-dir=FOLDER`.

    Args:
        arguments: The command line's words.

    Returns:
        The other words, and each folder as it was given; "" where none follows.
    """
    others, folders, words = [], [], iter(arguments)
    for word in words:
        flag, equals, value = word.partition("=")
        if flag not in _SPELLINGS:
            others.append(word)
        else:
            folders.append(value if equals else next(words, ""))
    return others, folders
