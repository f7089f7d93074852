"""A route as data: address, parameters, answer. Requests are checked against it, and OpenAPI is generated
from it.

Every parameter has a bound; an undescribed one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, get_type_hints

from recollect.errors import UsageError
from recollect.services.documents import schema as documents
from recollect.services.documents.page import ErrorDocument
from recollect.services.documents.schema import Schema

_Values = dict[str, Any]
_LONGEST_TEXT = 1_000


class Parameter(NamedTuple):
    """One parameter, in the address or in the body."""

    name: str
    schema: Schema
    is_required: bool = False
    summary: str = ""


class Operation(NamedTuple):
    """One route."""

    method: str
    path: str
    summary: str
    run: Callable[..., Any]
    query: tuple[Parameter, ...] = ()
    body: tuple[Parameter, ...] = ()
    content: str = ""  # the content type of an answer that is not a document
    answers: Any = None  # the type of the document, where ``run`` does not declare it
    is_open: bool = False
    streams: bool = False

    @property
    def path_names(self) -> list[str]:
        """The names in braces in the path."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    @property
    def document(self) -> Any:
        """The type of the document in the answer; None for a file or a stream."""
        return None if self.content else self.answers or get_type_hints(self.run)["return"]


# ---- kinds of parameters ---------------------------------------------------------------------------------


def text(name: str, most: int = _LONGEST_TEXT, *, is_required: bool = False, summary: str = "") -> Parameter:
    return Parameter(name, {"type": "string", "maxLength": most}, is_required, summary)


def integer(
    name: str,
    least: int,
    most: int,
    default: int | None = None,
    *,
    is_required: bool = False,
    summary: str = "",
) -> Parameter:
    schema: Schema = {"type": "integer", "minimum": least, "maximum": most}
    if default is not None:
        schema["default"] = default
    return Parameter(name, schema, is_required, summary)


def number(
    name: str, least: float, most: float, default: float | None = None, summary: str = ""
) -> Parameter:
    schema: Schema = {"type": "number", "minimum": least, "maximum": most}
    if default is not None:
        schema["default"] = default
    return Parameter(name, schema, False, summary)


def choice(
    name: str, *words: str, default: str | None = None, summary: str = "", is_required: bool = False
) -> Parameter:
    schema: Schema = {"type": "string", "enum": list(words)}
    if default is not None:
        schema["default"] = default
    return Parameter(name, schema, is_required, summary)


def flag(name: str, default: bool | None = None, summary: str = "") -> Parameter:
    schema: Schema = {"type": "boolean"}
    if default is not None:
        schema["default"] = default
    return Parameter(name, schema, False, summary)


# ---- reading them ----------------------------------------------------------------------------------------


def from_query(pairs: Iterable[tuple[str, str]], known: Iterable[Parameter]) -> _Values:
    """The parameters of an address, checked; a missing one is None or its default."""
    raw: dict[str, str] = {}
    for name, value in pairs:
        if name in raw:
            raise UsageError(f"{name[:60]!a}: given twice", hint="give it once")
        raw[name] = value
    return _checked(raw, known, _parsed)


def from_body(raw: Mapping[str, object], known: Iterable[Parameter]) -> _Values:
    """The members of a body, checked."""
    return _checked(raw, known, _typed)


def _checked(
    raw: Mapping[str, object], known: Iterable[Parameter], read: Callable[[str, Schema, object], object]
) -> _Values:
    parameters = {one.name: one for one in known}
    for name in raw:
        if name not in parameters:
            raise UsageError(
                f"{name[:60]!a}: unknown parameter", hint=f"known: {', '.join(parameters) or 'none'}"
            )
    values: _Values = {}
    for name, one in parameters.items():
        if raw.get(name) is not None:
            value = read(name, one.schema, raw[name])
            _require(name, one.schema, value)
            values[name] = value
        elif one.is_required:
            raise UsageError(f"{name}: missing", hint="/openapi.json lists required parameters")
        else:
            values[name] = one.schema.get("default")
    return values


def _parsed(name: str, schema: Schema, value: object) -> object:
    """A value from an address, where everything is text."""
    raw, kind = str(value), schema["type"]
    try:
        if kind == "integer":
            return _integer(raw)
        if kind == "number":
            return float(raw)
        if kind == "boolean":
            return {"true": True, "false": False}[raw]
    except (ValueError, KeyError):
        raise UsageError(
            f"{name}: {raw[:40]!a} is not of type {kind}", hint="/openapi.json lists the types"
        ) from None
    return raw


def _integer(raw: str) -> int:
    digits = raw.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise ValueError(raw)
    return int(raw)


def _typed(name: str, schema: Schema, value: object) -> object:
    kinds: dict[str, tuple[type, ...]] = {
        "integer": (int,),
        "number": (int, float),
        "boolean": (bool,),
        "string": (str,),
    }
    is_bool = isinstance(value, bool)
    if not isinstance(value, kinds[schema["type"]]) or (is_bool and schema["type"] != "boolean"):
        raise UsageError(f"{name}: not of type {schema['type']}", hint="/openapi.json lists the types")
    return value


def _require(name: str, schema: Schema, value: Any) -> None:
    if "enum" in schema and value not in schema["enum"]:
        raise UsageError(
            f"{name}: {str(value)[:40]!a} is not a valid value", hint=f"one of {', '.join(schema['enum'])}"
        )
    if len(value) > schema["maxLength"] if "maxLength" in schema else False:
        raise UsageError(f"{name}: {len(value)} characters", hint=f"at most {schema['maxLength']}")
    if "minimum" in schema and not schema["minimum"] <= value <= schema["maximum"]:
        raise UsageError(
            f"{name}: {value} is out of bounds", hint=f"{schema['minimum']} to {schema['maximum']}"
        )


# ---- describing them -------------------------------------------------------------------------------------


def openapi(
    operations: Iterable[Operation],
    version: str,
    *,
    title: str = "recollect, the local page",
    cookie: str = "recollect_PORT",
) -> Schema:
    """The description of all routes."""
    operations = list(operations)
    kinds = answered(operations)
    found, named = documents.answer_schemas(kinds)
    contents = {kind: documents.json_content(schema) for kind, schema in zip(kinds, found, strict=True)}
    paths: dict[str, dict[str, object]] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _described(one, contents)
    security = {
        "cookie": {"type": "apiKey", "in": "cookie", "name": cookie},
        "token": {"type": "apiKey", "in": "header", "name": "X-Recollect-Token"},
    }
    return documents.openapi({"title": title, "version": version}, paths, named, security)


def answered(operations: Iterable[Operation]) -> list[Any]:
    """The types of the documents in answers, refusals included."""
    return list(dict.fromkeys([ErrorDocument, *filter(None, (one.document for one in operations))]))


def _described(one: Operation, contents: Mapping[Any, Schema]) -> dict[str, object]:
    name = {"type": "string", "maxLength": 255}
    parameters = [documents.parameter("path", part, name, required=True) for part in one.path_names]
    parameters += [
        documents.parameter(
            "query", query.name, query.schema, required=query.is_required, summary=query.summary
        )
        for query in one.query
    ]
    content = {one.content: {"schema": {"type": "string"}}} if one.content else contents[one.document]
    described: dict[str, object] = {
        "operationId": one.run.__name__,
        "summary": one.summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "The answer.", "content": content},
            "default": {"description": "Why not.", "content": contents[ErrorDocument]},
        },
        "security": []
        if one.is_open
        else [{"cookie": [], **({"token": []} if one.method == "POST" else {})}],
    }
    if one.method == "POST":
        described["requestBody"] = {"required": True, "content": documents.json_content(_body(one.body))}
    return described


def _body(fields: Iterable[Parameter]) -> Schema:
    fields = list(fields)
    return {
        "type": "object",
        "properties": {one.name: one.schema for one in fields},
        "required": [one.name for one in fields if one.is_required],
        "additionalProperties": False,
    }
