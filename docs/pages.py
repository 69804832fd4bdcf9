"""Pages of the documentation that are written elsewhere, or made of what the code says of itself.

A hook of MkDocs (https://www.mkdocs.org/user-guide/configuration/#hooks). Every page is found in the repository, and
its links are as they are there: this turns them into links between pages, and leaves the names of what is no page.
"""

import dataclasses
import posixpath
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import docstring_parser
import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert import MarkdownExporter

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from experiments.config import schema  # noqa: E402
from experiments.config.json_schema import classes_of, meanings  # noqa: E402
from experiments.contract import METRICS  # noqa: E402
from experiments.rl_scaling import command_of  # noqa: E402
from experiments.rl_scaling import commands as all_commands  # noqa: E402

WRITTEN = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "experiments/fast/README.md": "fast.md",
    **{f"analysis/{path.name}": f"tutorials/{path.stem}.md" for path in ROOT.glob("analysis/*.ipynb")},
    **{
        f"science/{path.parent.name}/README.md": f"science/{path.parent.name}.md"
        for path in ROOT.glob("science/*/README.md")
    },
}
"""Files that are pages, by where they lie in the repository."""
API = ("experiments.api", "analysis.load", "experiments.policies.policy")
_SOURCE = {page: file for file, page in WRITTEN.items()}
_LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in docs/."""
    for file, page in WRITTEN.items():
        text, figures = executed(ROOT / file) if file.endswith(".ipynb") else ((ROOT / file).read_text(), {})
        files.append(File.generated(config, page, content=text))
        for name, figure in figures.items():
            files.append(File.generated(config, posixpath.join(posixpath.dirname(page), name), content=figure))
        for picture in (*(ROOT / file).parent.glob("*.svg"), *(ROOT / file).parent.glob("*.png")):
            beside = posixpath.join(posixpath.dirname(file), picture.name)
            if file.startswith("science/"):
                files.append(File.generated(config, beside, abs_src_path=str(picture)))
    made = {
        "reference/commands.md": commands(),
        "reference/configuration.md": configuration(),
        "reference/metrics.md": metrics(),
        "reference/api.md": "# Python\n\n" + "\n\n".join(f"::: {module}" for module in API),
        "benchmarks/index.md": benchmarks(),
    }
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def executed(notebook: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook with what it showed when it was run, as Markdown, and its figures by their place beside the page."""
    resources = {"unique_key": notebook.stem, "output_files_dir": notebook.stem}
    text, found = MarkdownExporter().from_filename(str(notebook), resources=resources)  # type: ignore[no-untyped-call]
    return text, found["outputs"]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the repository into links between pages."""
    at = page.file.src_uri
    source = _SOURCE.get(at, f"docs/{at}")

    def linked(match: re.Match[str]) -> str:
        text, target, anchor = match.groups()
        named = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        there = WRITTEN.get(named) or (named.removeprefix("docs/") if named.startswith("docs/") else named)
        if there.endswith(".py") or files.get_file_from_path(there) is None:
            if not (ROOT / named).exists():
                return match[0]  # MkDocs says that it is not there
            return text[1:-1]  # a file of the code
        return f"{text}({posixpath.relpath(there, posixpath.dirname(at) or '.')}{anchor or ''})"

    return _LINK.sub(linked, markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Search without a network: the theme's own way to do that loads a script from one."""
    return _from_here(output, posixpath.relpath("assets/file_search.js", posixpath.dirname(page.file.dest_uri) or "."))


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """Likewise, on the page for what is not there."""
    return _from_here(output_content, "assets/file_search.js")


def _from_here(page: str, script: str) -> str:
    return page.replace("https://unpkg.com/iframe-worker/shim", script)


def commands() -> str:
    """A section for each command, of its function."""
    parts = ["# Commands", "`rl-scaling COMMAND`; in the clone also `python experiments/COMMAND.py` or `analysis/`."]
    for name, what in all_commands().items():
        parts.append(f"## {name}")
        command = command_of(name)
        if command is None:
            parts.append(what)
            continue
        rows = [(f"`{word}=`", meaning) for word, meaning in command.words.items()]
        parts += [
            _one_line(docstring_parser.parse(command.call.__doc__ or "").description),
            _table(("word", "meaning"), rows),
            "\n".join(f"    rl-scaling {name} {words}".rstrip() for words in command.examples),
            f"Exit codes: {command.exit_codes}",
        ]
    return "\n\n".join(parts)


def configuration() -> str:
    """Every key of the configuration, of the classes that check it."""
    text = (ROOT / "conf/base.yaml").read_text()
    base: Mapping[str, Any] = yaml.safe_load(text)
    commented = dict(re.findall(r"^(\w+):.*? # (.+)$", text, re.MULTILINE))
    parts = [
        "# Configuration",
        "Every setting that the suite checks: its key, what it may be, its value where nothing else is said, and what "
        "it means. `algorithm` holds RLlib's own sections under RLlib's own names; `study.space` any of these keys.",
    ]
    for key, choice, kind in _sections():
        said, meant = docstring_parser.parse(kind.__doc__ or ""), meanings(kind)
        given = base.get(key) if key else base
        rows = []
        for field in dataclasses.fields(kind):
            if not any(classes_of(field.type)):
                path = f"{key}.{field.name}" if key else field.name
                default = given.get(field.name, _default(field)) if isinstance(given, Mapping) else _default(field)
                means = meant.get(field.name) or ("" if key else commented.get(field.name, ""))
                rows.append((f"`{path}`", _kind(field.type), default, means))
        if rows:
            title = f"{key}={choice}" if choice else key or "A study"
            table = _table(("key", "is", "default", "means"), [(*row[:2], _shown(row[2]), row[3]) for row in rows])
            parts += [f"## {title}", _one_line(said.short_description), table]
    return "\n\n".join(parts)


def _sections() -> Iterator[tuple[str, str, Any]]:
    """Key, choice if there are several, and class of each section."""
    yield "", "", schema.SuiteConfig
    for section in dataclasses.fields(schema.SuiteConfig):
        for kind in classes_of(section.type):
            names = [field.type for field in dataclasses.fields(kind) if field.name == "name"]
            choices = [str(get_args(name)[0]) for name in names if get_origin(name) is Literal]
            yield section.name, choices[0] if choices else "", kind


def metrics() -> str:
    """The metrics of a trial."""
    intro = (
        "Of a trial, in MLflow and as columns of `curves`; those of `final/` are also columns of `runs`. Absent where "
        "an algorithm has no such thing."
    )
    return "\n\n".join(
        ["# Metrics", intro, _table(("metric", "is"), [(f"`{n}`", what) for n, what in METRICS.items()])]
    )


def benchmarks() -> str:
    """The pages of measurements, with their verdicts."""
    rows = []
    for path in sorted((ROOT / "docs/benchmarks").glob("*.md")):
        text = path.read_text()
        title = text.splitlines()[0].removeprefix("# ")
        verdict = re.search(r"^\*\*(.+?)\*\*$", text, re.MULTILINE)
        rows.append((f"[{title}]({path.name})", verdict[1] if verdict else ""))
    intro = "`python -m benchmarks NAME` measures each again, and says on which machine."
    return "\n\n".join(["# Benchmarks", intro, _table(("", "verdict"), rows)])


def _kind(kind: Any) -> str:
    """What a value may be, in words."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _kind(inner[0])
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_kind(one) for one in inner))
    if origin is Literal:
        return ", ".join(f"`{choice}`" for choice in inner)
    named = {int: "whole number", float: "number", str: "text", bool: "true or false", type(None): "null"}
    if kind in named:
        return named[kind]
    if origin in (tuple, list) or (origin is not None and "Sequence" in str(origin)):
        return "list"
    return "mapping" if origin is not None else "any"


def _default(field: "dataclasses.Field[Any]") -> Any:
    """A field's value where nothing is said; `MISSING` if it has to be."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _shown(value: Any) -> str:
    if value is dataclasses.MISSING:
        return ""
    return f"`{yaml.safe_dump(value, default_flow_style=True).strip().removesuffix('...').strip()}`"


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
