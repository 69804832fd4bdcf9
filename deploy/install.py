"""Install packages into this Python's environment as `pip install` does, by uv: seconds in place of minutes.

python deploy/install.py -r requirements.txt

uv reads none of pip's settings: indexes, folders of wheels, constraints and certificates are handed over, so that it
finds what pip would find. Where uv cannot be had, or would not install the pins as they stand, pip installs. Standard
library only: nothing else is there yet.
"""

import ast
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

UV = "uv==0.13.9"
_HANDED_OVER = {  # pip's setting: uv's variable, and what separates several values there
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "constraint": ("UV_CONSTRAINT", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
}
_PRECEDENCE = ("global", "install", ":env:")
"""Of pip's configuration, the strongest last."""
_CUDA = re.compile(r"(nvidia|cuda|triton)\b")
"""What a torch for CUDA brings with it, which the pins do not name: pip takes the same one from the same places."""


def variables(listed: str) -> dict[str, str]:
    """The variables that tell uv what pip is told.

    Args:
        listed: What `pip config list` prints: lines of `section.name='value'`.
    """
    told: dict[str, str] = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # the best version in any index, as pip
    for section in _PRECEDENCE:
        for name, (variable, separator) in _HANDED_OVER.items():
            for value in re.findall(rf"^{section}\.{name}=(.+)$", listed, re.MULTILINE):
                if values := str(ast.literal_eval(value)).split():
                    told[variable] = separator.join(values)
    return told


def pins(lines: Iterable[str]) -> dict[str, str]:
    """Names, as they are compared, to versions without the build's part, of lines as `Box2D==2.3.10`
    and ` + torch==2.13.0+cpu`.
    """
    found = (re.fullmatch(r"[ +]*([\w.-]+)==([^\s+]+)(\+\S+)?\s*", line) for line in lines)
    return {re.sub(r"[-_.]+", "-", pin[1]).lower(): pin[2] for pin in found if pin is not None}


def differing(planned: Mapping[str, str], pinned: Mapping[str, str]) -> list[str]:
    """The packages that would be installed otherwise than they are pinned."""
    return sorted(name for name, version in planned.items() if pinned.get(name) != version and not _CUDA.match(name))


def main(words: list[str]) -> int:
    """Install; the exit code of what installed."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    listed = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=False).stdout
    environment = variables(listed) | os.environ  # what a person tells uv counts more
    uv = [sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable, *words]
    files = [Path(word) for option, word in itertools.pairwise(words) if option == "-r"]
    pinned = pins(line for file in files for line in file.read_text().splitlines())
    why = ""
    if subprocess.run([*pip, "install", "--quiet", UV], stderr=subprocess.DEVNULL, check=False).returncode:
        why = f"{UV} cannot be had"
    elif pinned:
        tried = subprocess.run([*uv, "--dry-run"], env=environment, capture_output=True, text=True, check=False)
        others = differing(pins(tried.stderr.splitlines()), pinned)
        why = (
            "uv cannot resolve the pins"
            if tried.returncode
            else f"uv would install {', '.join(others)} otherwise"
            if others
            else ""
        )
    if not why and not subprocess.run([*uv, "--quiet"], env=environment, check=False).returncode:
        return 0
    print(f"pip installs, which takes minutes: {why or 'uv did not'}", file=sys.stderr)
    return subprocess.run([*pip, "install", "--quiet", *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
