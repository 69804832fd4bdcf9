"""JSON schemas of the YAML files, by which editors complete and check them; each file names its own in its head.

    python -m experiments.config.json_schema

writes them to conf/schema/, from the classes that check the settings.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import docstring_parser
from pydantic import TypeAdapter

from experiments.config.compose import CONF
from experiments.config.preprocessing_settings import PreprocessingSettings
from experiments.config.schema import EnvSettings, HardwareSettings, SuiteConfig, TrackingSettings
from experiments.config.search_settings import SchedulerSettings, SearchSettings

SCHEMAS = CONF / "schema"
HEAD = "# yaml-language-server: $schema="
OF_GROUPS: Mapping[str, Any] = {
    "env": EnvSettings,
    "hardware": HardwareSettings,
    "tracking": TrackingSettings,
    "preprocessing": PreprocessingSettings,
    "search": SearchSettings,
    "scheduler": SchedulerSettings,
}
GLOBAL = ("study", "tuned", "measurement")
"""Groups whose files may set anything."""
_INTERPOLATED = {"type": "string", "pattern": r"\$\{"}
_LATER = ({"type": "null"}, {"const": "registered"})
"""What env=gym leaves to what is registered."""
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
"""As pydantic and JSON schema have them, where a value is read by a function of the suite's."""
_OVERRIDES = {"type": "array", "description": "Other files that this one builds upon, as Hydra has them."}


def schemas() -> dict[str, dict[str, Any]]:
    """Group to the schema of its files."""
    found = {group: _of(kind) for group, kind in OF_GROUPS.items()}
    whole = _of(SuiteConfig)
    for name, kind in whole["properties"].items():
        if "oneOf" in kind or name in ("algorithm", "extension", "study"):  # parts of these, whichever it is
            whole["properties"][name] = {"type": "object", **_described(kind)}
    whole["properties"]["objective"] = {"type": ["string", "object"]}
    whole["properties"]["report"] = {"type": ["boolean", "object"]}
    return {**found, **dict.fromkeys(GLOBAL, whole)}


def _of(kind: Any) -> dict[str, Any]:
    schema: dict[str, Any] = _bounded(TypeAdapter(kind).json_schema())
    of_classes = {one.__name__: meanings(one) for one in _nested(kind)}
    for name, part in schema.get("$defs", {}).items():
        _loosen(part, of_classes.get(name, {}))
    if "properties" in schema:
        _loosen(schema, of_classes.get(getattr(kind, "__name__", ""), {}))
        schema["properties"]["defaults"] = _OVERRIDES
    return schema


def _loosen(part: dict[str, Any], meanings: Mapping[str, str]) -> None:
    """A file need not say everything, and may refer to what others say."""
    part["required"] = [name for name, kind in part.get("properties", {}).items() if "const" in kind]
    for name, kind in part.get("properties", {}).items():
        described = {"description": meanings[name]} if name in meanings else _described(kind)
        if "const" in kind or "$ref" in kind or "oneOf" in kind:
            kind.update(described)
        else:
            part["properties"][name] = {"anyOf": [kind, _INTERPOLATED, *_LATER], **described}
    part.pop("title", None)


def _bounded(part: Any) -> Any:
    if isinstance(part, list):
        return [_bounded(one) for one in part]
    if isinstance(part, dict):
        return {_BOUNDS.get(key, key): _bounded(value) for key, value in part.items()}
    return part


def _described(kind: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": kind["description"]} if "description" in kind else {}


def meanings(kind: type) -> dict[str, str]:
    """What each setting of a class means."""
    said = docstring_parser.parse(kind.__doc__ or "").params
    return {one.arg_name: " ".join((one.description or "").split()).replace("`None`", "`null`") for one in said}


def classes_of(kind: Any) -> Iterator[Any]:
    """The classes of settings that a type names."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        yield kind
    for inner in get_args(kind):
        yield from classes_of(inner)


def _nested(kind: Any) -> Iterator[type]:
    """The same, and those of their own settings."""
    for one in classes_of(kind):
        yield one
        for field in dataclasses.fields(one):
            yield from _nested(field.type)


def texts() -> dict[Path, str]:
    """The files of the schemas."""
    return {SCHEMAS / f"{group}.json": json.dumps(schema, indent=1) + "\n" for group, schema in schemas().items()}


def head_of(file: Path) -> str:
    """The line by which a file of conf/ names its schema."""
    return f"{HEAD}../schema/{file.parent.name}.json"


if __name__ == "__main__":
    SCHEMAS.mkdir(exist_ok=True)
    for path, text in texts().items():
        path.write_text(text)
