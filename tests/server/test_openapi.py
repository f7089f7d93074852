"""The OpenAPI document says what the server does: every route is in it, and made requests find no lie and no 5xx."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from recollect.server.app import ROUTES
from recollect.server.database.records import AppendRequest, Author, OrgUser, SessionChanges, now_ms
from recollect.server.database.sql import Database
from recollect.server.facts import prepare
from recollect.server.tenancy import SCOPES, founded, issued, new_id, secret_hash
from recollect.share.sync.wire import POSITION, START
from tests.server.conftest import kind_named
from tests.server.live import TrialServer
from tests.server.world import after, prompt, reply

# By itself schemathesis gives up after ten seconds, which a busy machine may take.
PATIENCE = 300
EXAMPLES = int(os.environ.get("RECOLLECT_CASES", "2000" if os.environ.get("RECOLLECT_TORTURE") else "4"))
CHECKED = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@schemathesis.serializer("application/x-ndjson")
def ndjson(_: Any, value: Any) -> bytes:
    """Lines as they are sent; whatever else was made up, as its text."""
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


DATABASES = ["sqlite", "postgres"]
TEXT = prompt("some words") + reply("m-1") + b"\xff no JSON\n"
PLACES = [START, after(TEXT)]


class Made(NamedTuple):
    """The document as a server gives it, a token that may do everything, and names of things that are there."""

    schema: Any
    token: str
    known: dict[str, list[str]]


async def furnished(database: Database) -> tuple[str, dict[str, list[str]]]:
    """An organisation with sessions (one plain, one held, one deleted), files, and a member with a token."""
    token = await founded(database, f"Acme {new_id()}", "ada", SCOPES)
    grant = await database.grant(secret_hash(token))
    assert grant is not None
    # The creator sees a session whatever is made of its visibility.
    org, author = grant[2].id, Author(grant[1].id, grant[0].id)
    for name in ("s1", "held", "gone"):
        await database.append(AppendRequest(org, name, "", START, prepare(TEXT, START), author))
        await database.put_file(org, name, "f", b"bytes", only_if=None, only_own=False, author=author)
    await database.describe(org, "held", SessionChanges(held=True), author)
    await database.delete(org, "gone", purge=False, only_own=False, author=author)
    user = OrgUser(new_id(), org, "eve", "member", False, now_ms())
    await database.add_user(user, author)
    _, second = await issued(database, user, ("read",), author)
    return token, {"session_id": ["s1", "held", "gone"], "user_id": [user.id], "token_id": [second.id]}


@pytest.fixture(scope="module", params=DATABASES)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """A server before each database."""
    kind = kind_named(str(request.param), request, tmp_path_factory.mktemp("openapi"))
    address = kind.address if request.param == "postgres" else f"sqlite:///{kind.address}"

    async def prepared() -> tuple[str, dict[str, list[str]]]:
        database = kind.make()
        await database.open()
        try:
            return await furnished(database)
        finally:
            await database.close()

    token, known = asyncio.run(prepared())
    with TrialServer(address, tmp_path_factory.mktemp("server")) as server:
        yield Made(schemathesis.openapi.from_url(f"{server.url}/openapi.json"), token, known)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "place", [(route.method, route.path) for route in ROUTES], ids=lambda place: f"{place[0]} {place[1]}"
)
def test_made_requests_find_no_lie(made: Made, place: tuple[str, str]) -> None:
    """Requests that fit the document and requests that do not: no 5xx, only documented statuses, types and shapes.

    Of all the ids that could be made up hardly one is there, and no position: so some requests name real ones.
    """
    operation = made.schema[place[1]][place[0]]
    strategies = [
        operation.as_strategy(generation_mode=mode)
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    ]
    statuses = Counter[int]()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        database=None,
    )
    @given(case=strategies[0] | strategies[1], data=st.data())
    def tried(case: Any, data: st.DataObject) -> None:
        _made_real(case, made.known, data)
        answer = case.call_and_validate(
            headers={"Authorization": f"Bearer {made.token}"}, checks=CHECKED, timeout=PATIENCE
        )
        statuses[answer.status_code] += 1

    tried()
    assert statuses  # of a route that takes nothing there are few cases, but there are some
    if report := os.environ.get("RECOLLECT_REPORT"):
        with Path(report).open("a") as file:
            file.write(f"{os.environ.get('PYTEST_CURRENT_TEST')} {dict(sorted(statuses.items()))}\n")


def _made_real(case: Any, known: dict[str, list[str]], data: st.DataObject) -> None:
    """Let some requests name what is there."""

    def yes() -> bool:
        return bool(data.draw(st.booleans()))

    for name, values in known.items():
        if isinstance(case.path_parameters, dict) and name in case.path_parameters and yes():
            case.path_parameters[name] = data.draw(st.sampled_from(values))
    places = [str(place) for place in PLACES]
    if case.method == "PUT" and isinstance(case.headers, MutableMapping) and yes():
        case.headers[POSITION] = data.draw(st.sampled_from(places))
    if isinstance(case.query, dict):
        if "after" in case.query and yes():
            case.query["after"] = data.draw(st.sampled_from([*places, "0", "1", "3", "4"]))
        if case.path.endswith(("/log", "/file")) and yes():
            case.query["key"] = "f" if case.path.endswith("/file") else ""
    if case.path.endswith("/rotate") and isinstance(case.body, dict) and case.body.get("overlap_hours") == 0:
        case.body["overlap_hours"] = 1  # the token is needed for the next request
    if isinstance(case.body, dict) and isinstance(case.body.get("user"), str) and yes():
        case.body["user"] = known["user_id"][0]
