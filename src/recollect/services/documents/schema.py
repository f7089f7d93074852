"""JSON Schema and OpenAPI, generated from the types of documents. The page and the team server share this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

Schema = dict[str, Any]
_PLACE = "#/components/schemas/"


def schemas(types: Iterable[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    """A schema for each type, and the named ones that they refer to."""
    found, named = msgspec.json.schema_components(
        types, schema_hook=_path_schema, ref_template=f"{_PLACE}{{name}}"
    )
    return list(found), named


def answer_schemas(types: Iterable[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    """The same for what is only ever answered: every member is written, unless it is unset, and no other."""
    found, named = schemas(types)
    return found, {name: _as_written(schema) for name, schema in named.items()}


def _as_written(schema: Schema) -> Schema:
    if "properties" not in schema:
        return schema
    # A default is written like any other value; a member that may be unset has none in the schema.
    written = [name for name, one in schema["properties"].items() if "default" in one]
    members = {
        name: {key: value for key, value in one.items() if key != "default"}
        for name, one in schema["properties"].items()
    }
    required = [name for name in members if name in written or name in schema["required"]]
    return {**schema, "properties": members, "required": required, "additionalProperties": False}


def _path_schema(kind: type) -> Schema:
    if kind is Path:
        return {"type": "string"}
    raise NotImplementedError


# ---- OpenAPI ---------------------------------------------------------------------------------------------


def openapi(
    info: Mapping[str, str], paths: Schema, named: Mapping[str, Schema], schemes: Schema, **more: Any
) -> Schema:
    """A whole description."""
    return {
        "openapi": "3.1.0",
        "info": dict(info),
        "components": {"schemas": dict(named), "securitySchemes": schemes},
        **more,
        "paths": paths,
    }


def reference(name: str) -> Schema:
    """A schema by its name."""
    return {"$ref": f"{_PLACE}{name}"}


def json_content(schema: Schema) -> Schema:
    """A body or an answer in JSON."""
    return {"application/json": {"schema": schema}}


def parameter(place: str, name: str, schema: Schema, *, required: bool = False, summary: str = "") -> Schema:
    """Something that may be asked for."""
    described = {"description": summary} if summary else {}
    return {"in": place, "name": name, "required": required, "schema": schema, **described}
