"""The schemas by which editors check the YAML files."""

from pathlib import Path

import jsonschema
import pytest
import yaml

from experiments.config.compose import CONF
from experiments.config.json_schema import GLOBAL, OF_GROUPS, head_of, schemas, texts

SCHEMAS = schemas()
VALIDATORS = {group: jsonschema.validators.validator_for(schema)(schema) for group, schema in SCHEMAS.items()}
FILES = sorted(file for group in (*OF_GROUPS, *GLOBAL) for file in CONF.glob(f"{group}/*.yaml"))


def test_they_are_what_the_classes_say() -> None:
    assert {path: path.read_text() for path in texts()} == texts()


@pytest.mark.parametrize("group", VALIDATORS)
def test_they_are_schemas(group: str) -> None:
    VALIDATORS[group].check_schema(SCHEMAS[group])


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_file_names_its_schema_and_is_valid(file: Path) -> None:
    assert head_of(file) in file.read_text().splitlines()[:2]
    VALIDATORS[file.parent.name].validate(yaml.safe_load(file.read_text()) or {})


@pytest.mark.parametrize(
    ("group", "wrong"),
    [
        ("env", {"budget_env_stps": 5}),
        ("env", {"budget_env_steps": "many"}),
        ("hardware", {"num_env_runners": -1}),
        ("search", {"name": "racing", "max_sds": 3}),
        ("study", {"seeds": "all"}),
    ],
)
def test_what_is_wrong_is_found(group: str, wrong: dict[str, object]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        VALIDATORS[group].validate(wrong)


def test_a_key_says_what_it_means() -> None:
    assert "threads" in SCHEMAS["hardware"]["properties"]["threads_per_process"]["description"].lower()
