"""The OpenAPI document, made from the table of routes and the document types. Tests keep it correct."""

from __future__ import annotations

from recollect import __version__
from recollect.server import team
from recollect.server.database.records import Org, OrgTeam
from recollect.server.limits import ServerLimits
from recollect.server.people import ErasureReport
from recollect.server.routes import admin, people, sessions, sign_in
from recollect.services.documents.schema import Schema, json_content, openapi, parameter, reference, schemas
from recollect.sync import wire

_SESSION_ID = r"^[A-Za-z0-9_-]([A-Za-z0-9_.-]{0,126}[A-Za-z0-9_-])?$"
_KEY = r"^([A-Za-z0-9_-]{1,24}(/[A-Za-z0-9_-]{1,24}){0,7})?$"
_FILE_KEY = r"^[A-Za-z0-9_-]{1,24}(/[A-Za-z0-9_-]{1,24}){0,7}$"
_POSITION = r"^(0|[1-9][0-9]{0,14}):[0-9a-f]{64}$"
_TYPES = (
    wire.AppendReply,
    wire.LogHeads,
    wire.RemoteSessions,
    wire.SessionDetail,
    wire.SideFile,
    wire.LineHits,
    wire.WhoAmI,
    wire.SignInOffer,
    wire.DeviceSignIn,
    wire.IssuedToken,
    wire.OwnTokens,
    ErasureReport,
    people._Erasure,  # noqa: SLF001
    sign_in._DeviceStart,  # noqa: SLF001
    sign_in._DeviceResult,  # noqa: SLF001
    sign_in._Rotation,  # noqa: SLF001
    wire.Problem,
    wire.Event,
    team.TeamCostReport,
    Org,
    OrgTeam,
    admin._NewTeam,  # noqa: SLF001
    admin._TeamChange,  # noqa: SLF001
    sessions._SessionChange,  # noqa: SLF001 - the document of a request belongs to its route
    admin._OrgChange,  # noqa: SLF001
    admin._NewUser,  # noqa: SLF001
    admin._UserChange,  # noqa: SLF001
    admin._NewToken,  # noqa: SLF001
    admin._TokenDocument,  # noqa: SLF001
    admin._UserDocument,  # noqa: SLF001
    admin._AuditPage,  # noqa: SLF001
)


def document(limits: ServerLimits) -> Schema:
    _, named = schemas(_TYPES)
    info = {
        "title": "recollect team server",
        "version": __version__,
        "description": "Logs of coding-agent sessions: appended exactly once, returned byte for byte."
        f" A body has at most {limits.body_bytes} bytes. See docs/design/server.md.",
    }
    security = {"token": {"type": "http", "scheme": "bearer"}}
    return openapi(info, _paths(), named, security, security=[{"token": []}])


def _answer(name: str) -> Schema:
    return json_content(reference(name))


_PROBLEM = _answer("Problem")
_WORDS = {
    400: "the request is invalid",
    401: "no valid token",
    403: "the token does not allow this",
    404: "not found, or not visible to you",
    406: "the format is not available",
    408: "the body came too slowly",
    409: "the state differs; for a log, with the server's position",
    410: "the session was deleted",
    413: "over a limit",
    415: "Content-Encoding unknown or wrong",
    428: "an append needs the expected end of the log",
    429: "too many requests",
    503: "busy: repeat the same request",
}
_ALWAYS = (400, 401, 403, 404, 429, 503)


def _operation(
    summary: str,
    success: Schema,
    *,
    parameters: list[Schema] | None = None,
    body: Schema | None = None,
    statuses: tuple[int, ...] = (),
    status: int = 200,
) -> Schema:
    responses = {
        str(code): {"description": _WORDS[code], "content": _PROBLEM}
        for code in sorted({*_ALWAYS, *statuses})
    }
    operation: Schema = {
        "summary": summary,
        "parameters": parameters or [],
        "responses": {str(status): {"description": "done", **success}, **responses},
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": body}
    return operation


def _changed_or_hidden(operation: Schema) -> Schema:
    """An admin may change a session that the admin may not read."""
    operation["responses"]["204"] = {"description": "done; the caller may not read the session"}
    return operation


def _open(summary: str, success: Schema, statuses: tuple[int, ...] = ()) -> Schema:
    responses: Schema = {"200": {"description": "done", **success}}
    responses |= {str(code): {"description": "not now", **success} for code in statuses}
    return {"summary": summary, "security": [], "responses": responses}


def _query(name: str, schema: Schema) -> Schema:
    return parameter("query", name, schema)


def _text(longest: int = 200) -> Schema:
    return {"type": "string", "maxLength": longest, "pattern": r"^[^\u0000\ufffd\ud800-\udfff]*$"}


def _number(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


_TIME: Schema = {"type": "string", "format": "date"}
_SESSION = parameter("path", "session_id", {"type": "string", "pattern": _SESSION_ID}, required=True)
_LOG_KEY = _query("key", {"type": "string", "maxLength": 240, "pattern": _KEY})
_SIDE_KEY = parameter(
    "query", "key", {"type": "string", "maxLength": 240, "pattern": _FILE_KEY}, required=True
)
_CURSOR = _query("cursor", {"type": "string"})
_AFTER = _query(
    "after",
    {"anyOf": [{"type": "string", "pattern": _POSITION}, {"type": "string", "pattern": "^[0-9]{1,15}$"}]},
)
_BYTES: Schema = {"schema": {"type": "string", "format": "binary"}}


def _header(name: str, schema: Schema) -> Schema:
    return parameter("header", name, schema)


_DESCRIBED = [
    _header(name, {"type": "string", "maxLength": 1024, "pattern": "^[!-~]*$"})
    for name in (wire.PROJECT, wire.REPOSITORY, wire.MACHINE)
]
_SPAN = [_query("since", _TIME), _query("until", _TIME)]
_STATUS = {
    "content": json_content(
        {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
    )
}

# One event of a stream: before OpenAPI 3.2 the schema of a stream is that of its events.
_EVENT: Schema = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": _POSITION},
        "event": {"type": "string", "enum": ["lines", "gone"]},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"anyOf": [reference("Event"), {"type": "object", "maxProperties": 0}]},
        },
    },
    "required": ["event", "data"],
    "additionalProperties": False,
}


def _paths() -> Schema:
    return {**_log_paths(), **_session_paths(), **_team_paths(), **_admin_paths(), **_sign_in_paths()}


def _log_paths() -> Schema:
    append = _operation(
        "Append lines to a log",
        {"content": _answer("AppendReply")},
        parameters=[
            _SESSION,
            _LOG_KEY,
            _header(wire.POSITION, {"type": "string", "pattern": _POSITION}),
            _header(wire.LAST_UUID, {"type": "string", "maxLength": 300, "pattern": "^[!-~]*$"}),
            _header(wire.ENCRYPTED, {"type": "string", "enum": ["0", "1"]}),
            *_DESCRIBED,
        ],
        body={wire.NDJSON: {"schema": {"type": "string", "pattern": "^[^\\n]+\\n$"}}},
        statuses=(408, 409, 410, 413, 415, 428),
    )
    read = _operation(
        "The bytes after a position",
        {"content": {wire.NDJSON: _BYTES}},
        parameters=[_SESSION, _LOG_KEY, _AFTER],
        statuses=(409,),
    )
    head = {**read, "summary": "Where a log ends"}
    head["responses"] = {code: {"description": one["description"]} for code, one in read["responses"].items()}
    follow = _operation(
        "New lines as they arrive",
        {"content": {"text/event-stream": {"schema": _EVENT}}},
        parameters=[_SESSION, _LOG_KEY, _AFTER, _header("Last-Event-ID", _AFTER["schema"])],
        statuses=(409,),
    )
    heads = _operation(
        "The ends of all logs",
        {"content": _answer("LogHeads")},
        parameters=[_CURSOR, _query("limit", _number(1, 5000))],
    )
    return {
        "/v1/sessions/{session_id}/log": {"put": append, "get": read, "head": head},
        "/v1/sessions/{session_id}/events": {"get": follow},
        "/v1/heads": {"get": heads},
    }


def _session_paths() -> Schema:
    detail = {"content": _answer("SessionDetail")}
    filters = [_query(name, _text()) for name in ("project", "repository", "machine", "person")]
    filters.append(_query("id", {"type": "string", "pattern": r"^[A-Za-z0-9_.-]{4,128}$"}))
    put = _operation(
        "Store a side file",
        {"content": _answer("SideFile")},
        parameters=[
            _SESSION,
            _SIDE_KEY,
            _header("If-Match", {"type": "string", "pattern": '^"[0-9a-f]{64}"$'}),
            _header("If-None-Match", {"type": "string", "enum": ["*"]}),
        ],
        body={"application/octet-stream": _BYTES},
        statuses=(408, 409, 410, 413, 415),
    )
    return {
        "/v1/sessions": {
            "get": _operation(
                "Sessions, newest change first",
                {"content": _answer("RemoteSessions")},
                parameters=[*filters, *_SPAN, _query("limit", _number(1, 1000)), _CURSOR],
            )
        },
        "/v1/sessions/{session_id}": {
            "get": _operation("One session", detail, parameters=[_SESSION]),
            "patch": _changed_or_hidden(
                _operation(
                    "Change the description of a session",
                    detail,
                    parameters=[_SESSION],
                    body=_answer("_SessionChange"),
                    statuses=(413,),
                )
            ),
            "delete": _operation(
                "Delete a session",
                {},
                parameters=[_SESSION, _query("purge", {"type": "string", "enum": ["true", "false"]})],
                statuses=(409,),
                status=204,
            ),
        },
        "/v1/sessions/{session_id}/file": {
            "put": put,
            "get": _operation(
                "A side file",
                {"content": {"application/octet-stream": _BYTES}},
                parameters=[_SESSION, _SIDE_KEY],
            ),
            "delete": _operation(
                "Remove a side file", {}, parameters=[_SESSION, _SIDE_KEY], statuses=(409,), status=204
            ),
        },
    }


def _team_paths() -> Schema:
    by = {"type": "string", "pattern": f"^({'|'.join(team.KEYS)})$"}
    kinds = {"type": "string", "enum": ["json", "csv", "parquet"]}
    return {
        "/v1/cost": {
            "get": _operation(
                "The cost report",
                {
                    "content": {
                        **_answer("TeamCostReport"),
                        "text/csv": {"schema": {"type": "string"}},
                        "application/vnd.apache.parquet": _BYTES,
                    }
                },
                parameters=[_query("by", by), *_SPAN, _query("format", kinds)],
                statuses=(406,),
            )
        },
        "/v1/search": {
            "get": _operation(
                "Lines that match a search",
                {"content": _answer("LineHits")},
                parameters=[
                    parameter(
                        "query",
                        "q",
                        {"type": "string", "pattern": "^[a-z0-9]{1,30}( [a-z0-9]{1,30}){0,4}$"},
                        required=True,
                    ),
                    _query("limit", _number(1, 200)),
                    *_SPAN,
                    _query("session", _text(128)),
                    _query("project", _text()),
                ],
            )
        },
        "/v1/whoami": {"get": _operation("Whose token this is", {"content": _answer("WhoAmI")})},
    }


def _sign_in_paths() -> Schema:
    issued = {"content": _answer("IssuedToken")}
    start = _operation(
        "A code with which a person lets a machine in",
        {"content": _answer("DeviceSignIn")},
        body=_answer("_DeviceStart"),
        statuses=(413,),
    )
    result = _operation(
        "A token, once the person has agreed",
        issued,
        body=_answer("_DeviceResult"),
        statuses=(413,),
        status=201,
    )
    result["responses"]["202"] = {"description": "not yet", **issued}
    rotate = _operation(
        "A new token in place of this one",
        issued,
        body=_answer("_Rotation"),
        statuses=(409, 413),
        status=201,
    )
    return {
        "/v1/sign-in": {
            "get": _open("Whether there is an identity provider", {"content": _answer("SignInOffer")})
        },
        "/v1/sign-in/device": {"post": {**start, "security": []}},
        "/v1/sign-in/device/token": {"post": {**result, "security": []}},
        "/v1/token/rotate": {"post": rotate},
    }


def _admin_paths() -> Schema:
    user_id = parameter("path", "user_id", {"type": "string", "format": "uuid"}, required=True)
    token_id = parameter("path", "token_id", {"type": "string", "format": "uuid"}, required=True)
    token, user = (
        {"content": _answer("_TokenDocument")},
        {"content": _answer("_UserDocument")},
    )
    org, team = {"content": _answer("Org")}, {"content": _answer("OrgTeam")}
    team_id = parameter("path", "team_id", {"type": "string", "format": "uuid"}, required=True)

    def listed(name: str, kind: str) -> Schema:
        items = {"type": "array", "items": reference(kind)}
        return {"content": json_content({"type": "object", "properties": {name: items}, "required": [name]})}

    return {
        "/v1/org": {
            "get": _operation("The organisation", org),
            "patch": _operation(
                "Set the retention and the visibility", org, body=_answer("_OrgChange"), statuses=(413,)
            ),
        },
        "/v1/users": {
            "get": _operation("All members", listed("users", "_UserDocument")),
            "post": _operation(
                "A new member",
                user,
                body=_answer("_NewUser"),
                statuses=(409, 413),
                status=201,
            ),
        },
        "/v1/users/{user_id}": {
            "patch": _operation(
                "Change a member",
                user,
                parameters=[user_id],
                body=_answer("_UserChange"),
                statuses=(413,),
            )
        },
        "/v1/users/{user_id}/erasure": {
            "get": _operation(
                "What erasing a member would remove and keep",
                {"content": _answer("ErasureReport")},
                parameters=[user_id],
            ),
            "post": _operation(
                "Erase a member",
                {"content": _answer("ErasureReport")},
                parameters=[user_id],
                body=_answer("_Erasure"),
                statuses=(413,),
            ),
        },
        "/v1/whoami/export": {
            "get": _operation(
                "Everything that is held of the caller, as one archive",
                {"content": {"application/gzip": _BYTES}},
            )
        },
        "/v1/whoami/tokens": {
            "get": _operation("The caller's own tokens", {"content": _answer("OwnTokens")})
        },
        "/v1/whoami/tokens/{token_id}": {
            "delete": _operation("Revoke a token of one's own", {}, parameters=[token_id], status=204)
        },
        "/v1/teams": {
            "get": _operation("All teams", listed("teams", "OrgTeam")),
            "post": _operation("A new team", team, body=_answer("_NewTeam"), statuses=(409, 413), status=201),
        },
        "/v1/teams/{team_id}": {
            "patch": _operation(
                "Set the members of a team",
                team,
                parameters=[team_id],
                body=_answer("_TeamChange"),
                statuses=(413,),
            ),
            "delete": _operation("Remove a team", {}, parameters=[team_id], status=204),
        },
        "/v1/tokens": {
            "get": _operation("All tokens", listed("tokens", "_TokenDocument")),
            "post": _operation("A new token", token, body=_answer("_NewToken"), statuses=(413,), status=201),
        },
        "/v1/tokens/{token_id}": {
            "delete": _operation("Revoke a token", {}, parameters=[token_id], status=204)
        },
        "/v1/audit": {
            "get": _operation(
                "The audit log",
                {"content": _answer("_AuditPage")},
                parameters=[_CURSOR, _query("limit", _number(1, 1000))],
            )
        },
        "/metrics": {
            "get": _operation(
                "Counts for Prometheus", {"content": {"text/plain": {"schema": {"type": "string"}}}}
            )
        },
        "/healthz": {"get": _open("Whether the process is alive", _STATUS)},
        "/readyz": {"get": _open("Whether requests would be served", _STATUS, (503,))},
        "/openapi.json": {"get": _open("This document", {"content": json_content({"type": "object"})})},
    }
