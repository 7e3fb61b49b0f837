"""Write the JSON schemas of the configuration and of the records from the models that read them.

Snakemake is not involved: the schemas are committed, an editor checks a configuration with them, and a test
fails where one differs from its model. Run it after a change of `onehot.config` or `onehot.records`.

Outputs: workflow/schemas/config.schema.json and workflow/schemas/record.schema.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from onehot import records
from onehot.config import Study
from pydantic import Field, TypeAdapter

DIALECT = "https://json-schema.org/draft/2020-12/schema"
BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
"""Pydantic keeps its own name of a bound that stands behind a validator; no reader of schemas knows it."""

FOLDER = Path(__file__).resolve().parents[1] / "workflow" / "schemas"


def config_schema() -> dict[str, Any]:
    """Give the schema of a configuration, as Snakemake hands it over with all overlays applied."""
    return {"$schema": DIALECT, **with_standard_bounds(Study.model_json_schema())}


def record_schema() -> dict[str, Any]:
    """Give the schema of a record: one of the kinds, told apart by the field `kind`."""
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[records.Record, Field(discriminator="kind")])
    return {"$schema": DIALECT, "title": "Record", **with_standard_bounds(adapter.json_schema())}


def with_standard_bounds(schema: Any) -> Any:
    """Give the same schema with bounds under JSON Schema's names; of two that meet, the narrower one."""
    if isinstance(schema, list):
        return [with_standard_bounds(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    key: str
    translated: dict[str, Any] = {}
    for key, value in schema.items():
        name: str = BOUNDS.get(key, key) if isinstance(value, int | float) else key
        narrower = min if name in {"maximum", "exclusiveMaximum"} else max
        meets = key in BOUNDS.values() or name != key
        translated[name] = (
            narrower(translated[name], value) if meets and name in translated else with_standard_bounds(value)
        )
    return translated


def texts() -> dict[str, str]:
    """Give the text of each schema file by its name."""
    schemas = {"config.schema.json": config_schema(), "record.schema.json": record_schema()}
    return {name: json.dumps(schema, indent=2) + "\n" for name, schema in schemas.items()}


def main(folder: Path) -> None:
    """Write both schemas."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main(FOLDER)
