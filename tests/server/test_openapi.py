"""The OpenAPI document says what the server does: every route is in it, and made requests find no lie and no 5xx."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from recollect.server.app import ROUTES, make_app
from recollect.server.limits import Limits
from recollect.server.memory import MemoryDatabase
from recollect.server.openapi import document
from recollect.server.service import Service
from recollect.server.tenancy import SCOPES, founded, new_id
from tests.server.conftest import kind_named
from tests.server.live import LiveServer

EXAMPLES = int(os.environ.get("RECOLLECT_CASES", "2000" if os.environ.get("RECOLLECT_TORTURE") else "4"))
CHECKED = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
LIMITS = Limits(requests_per_second=10**9, failures_per_second=10**9, follow_seconds=0)


@schemathesis.serializer("application/x-ndjson")
def ndjson(_: Any, value: Any) -> bytes:
    """Lines as they are sent; whatever else was made up, as its text."""
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


def test_every_route_is_in_the_document_and_no_other() -> None:
    """Method by method."""
    paths: dict[str, dict[str, Any]] = document(Limits())["paths"]
    written = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert written == {(route.method, route.path) for route in ROUTES}


DATABASES = (
    ["memory", "sqlite", "postgres"] if os.environ.get("RECOLLECT_TORTURE") else ["memory", "postgres"]
)


@pytest.fixture(scope="module", params=DATABASES)
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, str]]:
    """The document as a server gives it, before each database, and a token that may do everything."""
    if request.param == "memory":
        held = MemoryDatabase()
        token = asyncio.run(founded(held, "Acme", "ada", SCOPES))
        app = make_app(Service(held, limits=LIMITS, remember_ms=0), is_owner=False)
        yield schemathesis.openapi.from_asgi("/openapi.json", app), token
        return
    kind = kind_named(str(request.param), request, tmp_path_factory.mktemp("openapi"))
    address = kind.address if request.param == "postgres" else f"sqlite:///{kind.address}"

    async def prepare() -> str:
        database = kind.make()
        await database.open()
        try:
            return await founded(database, f"Acme {new_id()}", "ada", SCOPES)
        finally:
            await database.close()

    token = asyncio.run(prepare())
    with LiveServer(address, tmp_path_factory.mktemp("server"), "--quiet") as server:
        yield schemathesis.openapi.from_url(f"{server.url}/openapi.json"), token


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "place", [(route.method, route.path) for route in ROUTES], ids=lambda place: f"{place[0]} {place[1]}"
)
def test_made_requests_find_no_lie(made: tuple[Any, str], place: tuple[str, str]) -> None:
    """Requests that fit the document and requests that do not: no 5xx, only documented statuses, types and shapes."""
    schema, token = made
    if place[1].endswith("/events") and schema.app is None:
        pytest.skip("a stream lasts an hour here; the application in memory has one that ends at once")
    strategies = [
        schema[place[1]][place[0]].as_strategy(generation_mode=mode)
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    ]

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        database=None,
    )
    @given(case=strategies[0] | strategies[1])
    def tried(case: Any) -> None:
        case.call_and_validate(headers={"Authorization": f"Bearer {token}"}, checks=CHECKED)

    tried()
