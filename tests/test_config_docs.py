"""config/README.md and the JSON schemas say what the models of the configuration and of the records say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import write_schemas
import yaml
from onehot import config
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "config" / "README.md"
SCHEMAS = ROOT / "workflow" / "schemas"

SECTIONS = {
    "sampling": config.Sampling,
    "headline": config.Headline,
    "limits": config.Limits,
    "cold_start": config.ColdStart,
    "trace": config.Trace,
    "witness": config.Witness,
    "statistics": config.Statistics,
}
FURTHER_SWEEPS = "sweeps.NAME.KEY"


@dataclass(frozen=True)
class Row:
    """One key as the document describes it."""

    bounds: str
    default: str


def documented(text: str) -> dict[str, Row]:
    """Read the rows of every table whose first column is a key."""
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| `") and len(cells) >= 5:
            key = cells[0].strip("`| ")
            assert key not in rows, f"{key} is described twice"
            rows[key] = Row(cells[2], cells[3])
    return rows


def model_keys() -> Iterator[tuple[str, type[BaseModel], str]]:
    """Yield every key with the model and the field that hold it."""
    for name in config.Study.model_fields:
        if name in SECTIONS:
            yield from ((f"{name}.{field}", SECTIONS[name], field) for field in SECTIONS[name].model_fields)
        elif name != "sweeps":
            yield name, config.Study, name


def leaf(schema: dict[str, Any]) -> dict[str, Any]:
    """Find the part of a key's schema that holds its bounds: a list's items, an optional's value."""
    for part in schema.get("anyOf", []):
        if part.get("type") != "null":
            return leaf(part)
    return leaf(schema["items"]) if "items" in schema else schema


KEYS = {key: (model, field) for key, model, field in model_keys()}
ROWS = documented(DOCUMENT.read_text())


def test_the_document_and_the_models_have_the_same_keys():
    assert set(ROWS) == {*KEYS, FURTHER_SWEEPS}


def test_every_section_of_the_models_is_known_here():
    found = {name for name in config.Study.model_fields if name not in config.Factors.model_fields}
    assert found == {"machine", "seed", "invocations", "index_sets", "input_bytes", "sweeps", *SECTIONS}


def test_a_further_sweep_may_name_what_the_document_says():
    """The factors, and the keys that the bounds of its row name."""
    further = re.findall(r"`(\w+)`", ROWS[FURTHER_SWEEPS].bounds)
    assert set(config.Override.model_fields) == {*config.Factors.model_fields, *further}


@pytest.mark.parametrize("key", KEYS)
def test_the_documented_default_is_the_models(key: str):
    model, field = KEYS[key]
    default, written = model.model_fields[field].default, ROWS[key].default
    if default is PydanticUndefined:
        assert written == "required"
    elif key == "machine":
        assert default is None and written == "the host's name"
    else:
        assert yaml.safe_load(written.strip("`")) == default


@pytest.mark.parametrize("key", KEYS)
def test_the_documented_bounds_are_the_models(key: str):
    model, field = KEYS[key]
    schema, bounds = (
        leaf(write_schemas.with_standard_bounds(model.model_json_schema())["properties"][field]),
        ROWS[key].bounds,
    )
    limits = {
        schema[name]
        for name in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
        if name in schema
    }
    assert {float(number) for number in re.findall(r"\b\d+(?:\.\d+)?", bounds)} == {
        float(limit) for limit in limits
    }
    assert ("over " in bounds) == ("exclusiveMinimum" in schema)
    if "enum" in schema:
        assert re.findall(r"`(\w+)`", bounds) == schema["enum"]


def test_every_example_of_the_document_is_a_valid_configuration():
    base = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    examples = re.findall(r"^```yaml\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        config.load({**base, **yaml.safe_load(example)})


def test_the_keys_of_the_shipped_configurations_are_documented():
    for name in ("config.yaml", "smoke.yaml"):
        for key, value in yaml.safe_load((ROOT / "config" / name).read_text()).items():
            keys = [f"{key}.{inner}" for inner in value] if key in SECTIONS else [key]
            assert key == "sweeps" or set(keys) <= set(ROWS)


# The schemas


def test_the_committed_schemas_are_the_models():
    written = {path.name: path.read_text() for path in SCHEMAS.iterdir()}
    assert written == write_schemas.texts(), "run python scripts/write_schemas.py"


def test_the_schemas_are_schemas():
    for schema in (write_schemas.config_schema(), write_schemas.record_schema()):
        jsonschema.Draft202012Validator.check_schema(schema)


def test_the_full_study_fits_the_schema_and_a_misspelt_key_does_not():
    full = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    jsonschema.validate(full, write_schemas.config_schema())
    with pytest.raises(jsonschema.ValidationError, match="minibach"):
        jsonschema.validate({**full, "minibach": [1]}, write_schemas.config_schema())


def test_a_record_of_an_unknown_kind_does_not_fit_the_schema():
    record = {"schema": 1, "kind": "backend", "backend": "numpy", "status": "skipped", "reason": "not here"}
    jsonschema.validate(record, write_schemas.record_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**record, "kind": "backends"}, write_schemas.record_schema())


def test_the_schemas_are_written_where_they_are_asked_for(tmp_path: Path):
    write_schemas.main(tmp_path / "schemas")
    assert json.loads((tmp_path / "schemas" / "config.schema.json").read_text())["title"] == "Study"
