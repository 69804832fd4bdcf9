"""The address of an SQLite file, and the file of an address. Standard library only.

SQLAlchemy reads the path of `sqlite:///path` as that of any URI: %25 is a %, and a ? begins parameters. So do MLflow
and Optuna, which hand it on.
"""

from pathlib import Path
from urllib.parse import quote, unquote

_PLAIN, _QUOTED = "sqlite:///", "sqlite+pysqlite:///"


def sqlite_uri(path: Path) -> str:
    """The address of a database.

    Args:
        path: Absolute. With characters that an address has to quote, it names SQLite's driver as well: of `sqlite:///`
            MLflow makes the folders, by the names that stand there, and would put `per%25cent` beside `per%cent`.

    Raises:
        ValueError: The path is no text, which Linux does not ask of it.
    """
    try:
        quoted = quote(str(path))
    except UnicodeEncodeError:
        raise ValueError(f"{str(path)!a}: is not valid UTF-8, so no address can name it. Rename the folder.") from None
    return f"{_PLAIN if quoted == str(path) else _QUOTED}{quoted}"


def sqlite_path(uri: str) -> Path | None:
    """The file that an address names, which may be relative; None if it is no address of an SQLite file.

    Raises:
        ValueError: It has parameters, or its percent-escapes spell no text.
    """
    prefix = next((known for known in (_PLAIN, _QUOTED) if uri.startswith(known)), None)
    if prefix is None:
        return None
    path = unquote(uri.removeprefix(prefix))
    if "?" in uri or "\N{REPLACEMENT CHARACTER}" in path:
        raise ValueError(
            f"{uri}: in the address of an SQLite file write % as %25 and ? as %3F; it takes no parameters."
        )
    return Path(path)
