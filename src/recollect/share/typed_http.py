"""Typed handlers: the annotations of a function say what a route takes and answers, to requests and to OpenAPI alike.

``def rename(page, session: Name, body: Rename, limit: Limit = 50) -> Renamed``: the first argument is the caller's; a name in
braces in the path is a part of the path; ``body`` is a Struct in JSON; ``query`` is a Struct whose fields are parameters of the
query, as are all other arguments (``from_`` is sent as ``from``), or members of the body with ``in_body``;
``Annotated[str, Header("X-Name")]`` is a header.
An answer is a Struct, None (204), or a ``Response`` with ``Media`` in its annotation.
Nothing runs here: the caller decides who may ask, in which thread and within which limits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, getdoc, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from starlette.responses import Response

from recollect.errors import UsageError
from recollect.model.cost.money import Usd
from recollect.model.lines.json_text import encode_json

Schema = dict[str, Any]
_PLACE = "#/components/schemas/"
_HINT = "/openapi.json lists the parameters of every route, with their bounds"


class Header(NamedTuple):
    """Where an argument comes from."""

    name: str


class Media(NamedTuple):
    """Content other than one JSON document; ``kind`` is a type, or a schema."""

    type: str
    kind: Any = bytes


class TypedRoute:
    """One route. ``takes``: a body that the handler reads itself. ``in_body``: what is neither part of the path nor a
    header is a member of the body. ``more``: members of its description.
    """

    def __init__(
        self,
        method: str,
        path: str,
        run: Callable[..., Any],
        *,
        status: int = 200,
        takes: Media | None = None,
        in_body: bool = False,
        **more: Any,
    ) -> None:
        self.method, self.path, self.run, self.status, self.takes, self.more = (
            method, path, run, status, takes, more,
        )  # fmt: skip
        hints = get_type_hints(run, include_extras=True)
        self.answer, self.body, self.query = hints["return"], hints.get("body"), hints.get("query")
        self.places = dict.fromkeys(re.findall(r"{(\w+)", path), "path")
        self.headers: dict[str, str] = {}
        fields: list[Any] = []
        members: list[Any] = []
        for argument in list(signature(run).parameters.values())[1:]:
            name, kind = argument.name, hints[argument.name]
            if name in ("body", "query"):
                continue
            for mark in getattr(kind, "__metadata__", ()):
                if isinstance(mark, Header):
                    self.headers[name], self.places[name] = mark.name, "header"
            is_needed = argument.default is Parameter.empty
            chosen = members if in_body and name not in self.places else fields
            chosen.append((name, kind) if is_needed else (name, kind, argument.default))
        self.parameters = _struct("Parameters", fields)
        self.members: tuple[str, ...] = ()
        if members:
            self.body = _struct(f"{run.__name__.title().replace('_', '')}Body", members)
            self.members = self.body.__struct_fields__

    def arguments(
        self,
        path: Mapping[str, str],
        query: Iterable[tuple[str, str]],
        headers: Mapping[str, str],
        body: bytes | None = None,
    ) -> dict[str, Any]:
        """What the handler is called with; ``UsageError`` for what it does not take."""
        given = dict(path)
        for name, value in query:
            if name in given or name in self.headers:
                raise UsageError(f"{name[:60]!a}: given twice", hint="give it once")
            given[name] = value
        given |= {name: headers[sent] for name, sent in self.headers.items() if sent in headers}
        arguments: dict[str, Any] = {}
        if self.query is not None:
            own = self.parameters.__struct_encode_fields__
            rest = {name: given.pop(name) for name in list(given) if name not in own}
            arguments["query"] = _read("", lambda: msgspec.convert(rest, self.query, strict=False))
        parameters = _read("", lambda: msgspec.convert(given, self.parameters, strict=False))
        arguments |= {name: getattr(parameters, name) for name in self.parameters.__struct_fields__}
        if self.body is not None:
            given_body = _read("body: ", lambda: msgspec.json.decode(body or b"{}", type=self.body))
            members = {name: getattr(given_body, name) for name in self.members}
            arguments |= members or {"body": given_body}
        return arguments

    def describe(self, named: Schema, problem: Any, written: Callable[[Schema], Schema]) -> Schema:
        """The operation in OpenAPI; schemas with names are added to ``named``. ``written``: of answers only."""
        described: list[Schema] = []
        for kind in filter(None, (self.parameters, self.query)):
            inner: Schema = {}
            name = _schema(kind, inner)["$ref"].removeprefix(_PLACE)
            fields = inner.pop(name)
            named |= inner
            for sent, schema in fields["properties"].items():
                place, shown = self.places.get(sent, "query"), self.headers.get(sent, sent)
                is_needed = sent in fields.get("required", ()) or place == "path"
                described.append({"in": place, "name": shown, "required": is_needed, "schema": _sent(schema)})
        kinds, responses = get_args(self.answer), dict[str, Schema]()
        if self.answer is NoneType:
            responses["204"] = {"description": "done"}
        elif get_origin(self.answer) is Annotated:
            responses[str(self.status)] = {"description": "the answer", "content": {
                media.type: {"schema": media.kind if isinstance(media.kind, dict) else _schema(media.kind, named, written)}
                for media in kinds[1:] if isinstance(media, Media)
            }}  # fmt: skip
        else:
            is_union = get_origin(self.answer) in (Union, UnionType)
            kind = next(kind for kind in kinds if kind is not NoneType) if is_union else self.answer
            responses[str(self.status)] = _json(_schema(kind, named, written), "the answer")
            if is_union:
                responses["204"] = {"description": "done; there is nothing to show"}
        refusal = _json(_schema(problem, named, written), "why not")
        operation: Schema = {
            "operationId": self.run.__name__,
            "summary": (getdoc(self.run) or "").split("\n")[0].rstrip("."),
            "parameters": described,
            "responses": {**responses, "4XX": refusal, "503": refusal},
        }
        if self.body is not None:
            operation["requestBody"] = {"required": True, **_json(_schema(self.body, named), "")}
        elif self.takes is not None:
            content = {self.takes.type: {"schema": self.takes.kind}}
            operation["requestBody"] = {"required": True, "content": content}
        return operation | self.more


def openapi(
    routes: Iterable[TypedRoute],
    info: Mapping[str, str],
    schemes: Schema,
    problem: Any,
    written: Callable[[Schema], Schema] = dict,
    **more: Any,
) -> Schema:
    """The description of all routes; every refusal is a ``problem``."""
    paths, named = dict[str, Schema](), dict[str, Any]()
    for route in routes:
        operation = route.describe(named, problem, written)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    components = {"schemas": named, "securitySchemes": schemes}
    return {"openapi": "3.1.0", "info": dict(info), "components": components, **more, "paths": paths}


def answer(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """What a handler returned, as a response; None is 204."""
    if isinstance(document, Response):
        return document
    if document is None:
        return Response(status_code=204, headers=headers)
    return Response(encode_json(document), status, headers, "application/json")


def _struct(name: str, fields: Iterable[Any]) -> Any:
    return msgspec.defstruct(
        name, fields, kw_only=True, forbid_unknown_fields=True, rename=lambda field: field.rstrip("_")
    )


def _read(place: str, convert: Callable[[], Any]) -> Any:
    try:
        return convert()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        text = str(problem).encode("ascii", "backslashreplace").decode()
        message, _, where = text.partition(" - at `$.")
        name = f"{where.rstrip('`')}: " if where else ""
        raise UsageError(f"{place}{name}{message}"[:200], hint=_HINT) from None


def _schema(kind: Any, named: Schema, written: Callable[[Schema], Schema] = dict) -> Schema:
    if kind is bytes:
        return {"type": "string", "format": "binary"}
    (schema,), more = msgspec.json.schema_components(
        (kind,), schema_hook=_text_schema, ref_template=f"{_PLACE}{{name}}"
    )
    named |= {name: written(one) for name, one in more.items()}
    return schema


def answer_schemas(types: Iterable[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    """The schemas of documents that are only sent, and the named schemas they refer to."""
    found, named = msgspec.json.schema_components(
        types, schema_hook=_text_schema, ref_template=f"{_PLACE}{{name}}"
    )
    return list(found), {name: as_written(schema) for name, schema in named.items()}


def as_written(schema: Schema) -> Schema:
    """The schema of a document that is only sent: every member is present unless unset, and there are no others."""
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


def _text_schema(kind: type) -> Schema:
    """The types that are written as texts."""
    if kind in (Path, Usd):
        return {"type": "string"}
    raise NotImplementedError


def _sent(schema: Schema) -> Schema:
    """The schema of a parameter, which is a text or is not there: never null."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    rest = {name: part for name, part in schema.items() if name != "anyOf" and part is not None}
    if "enum" in rest:
        rest["enum"] = [value for value in rest["enum"] if value is not None]
    return rest | (kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {})


def _json(schema: Schema, description: str) -> Schema:
    content = {"content": {"application/json": {"schema": schema}}}
    return {"description": description, **content} if description else content
