"""JSON Schema and OpenAPI, generated from the document types. Shared by the page and the team server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

Schema = dict[str, Any]
_PLACE = "#/components/schemas/"


def schemas(types: Iterable[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    """A schema for each type, and the named schemas they refer to."""
    found, named = msgspec.json.schema_components(
        types, schema_hook=_path_schema, ref_template=f"{_PLACE}{{name}}"
    )
    return list(found), named


def answer_schemas(types: Iterable[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    """The same for documents that are only sent: every member is present unless unset, and there are no others."""
    found, named = schemas(types)
    return found, {name: _as_written(schema) for name, schema in named.items()}


def _as_written(schema: Schema) -> Schema:
    if "properties" not in schema:
        return schema
    # A default is written like any other value; a member that may be unset has no default in the schema.
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
    return {
        "openapi": "3.1.0",
        "info": dict(info),
        "components": {"schemas": dict(named), "securitySchemes": schemes},
        **more,
        "paths": paths,
    }


def reference(name: str) -> Schema:
    return {"$ref": f"{_PLACE}{name}"}


def json_content(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def parameter(place: str, name: str, schema: Schema, *, required: bool = False, summary: str = "") -> Schema:
    described = {"description": summary} if summary else {}
    return {"in": place, "name": name, "required": required, "schema": schema, **described}
