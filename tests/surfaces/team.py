"""A team server in this process, after ``recollect team push``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import uvicorn

from recollect.server.database.sqlite import SqliteDatabase
from tests.server.conftest import Kind
from tests.server.live import free_port
from tests.server.team_page import TeamPage
from tests.server.world import World, world
from tests.surfaces.case import Case
from tests.surfaces.commands import UNPRICED_COST
from tests.surfaces.pages import page_surfaces
from tests.surfaces.record import TOKENS, USAGE, Record, Records, Surface, dollars, moment, nothing_used

_TOLD = ("title", "cwd", "first_at", "last_at", "lines")


def surfaces(case: Case, names: Sequence[str], opened: Sequence[str]) -> list[Surface]:
    """The server's own lists, and its page."""
    path = case.place / "team.sqlite"
    asyncio.run(SqliteDatabase(path).migrate())
    return asyncio.run(_asked(case, Kind("sqlite", str(path)), names, opened))


async def _asked(case: Case, kind: Kind, names: Sequence[str], opened: Sequence[str]) -> list[Surface]:
    async with world(kind) as made:
        await _push(case, made)
        told = (await made.ask("GET", "/v1/sessions", params={"limit": "1000"})).json()["sessions"]
        rows = (await made.ask("GET", "/v1/cost", params={"by": "session"})).json()["rows"]
        found = [
            Surface("team: sessions", _TOLD, {row["id"]: _told(row) for row in told}, names=names),
            Surface("team: cost", USAGE, _used(rows, names), UNPRICED_COST, names),
        ]
        page = TeamPage(made, case.place / "mirror")
        try:
            async with page.client:
                await page.sign_in()
                await page.ids()
                found += await _of_page(page, names, opened)
        finally:
            await page.close()
        return found


async def _push(case: Case, made: World) -> None:
    """As a member does it: log in, then push."""
    config = uvicorn.Config(made.app, host="127.0.0.1", port=free_port(), lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    url = f"http://127.0.0.1:{config.port}"
    try:
        while not server.started:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(case.said, "team", "login", url, "--no-redact", typed=f"{made.token}\n")
        await asyncio.to_thread(case.said, "team", "push")
    finally:
        server.should_exit = True
        await serving


async def _of_page(page: TeamPage, names: Sequence[str], opened: Sequence[str]) -> list[Surface]:
    loop = asyncio.get_running_loop()

    def get(path: str) -> Any:
        return asyncio.run_coroutine_threadsafe(page.get(path), loop).result()

    return await asyncio.to_thread(
        lambda: list(page_surfaces("team page", get, names, opened, is_of_team=True))
    )


def _told(row: dict[str, Any]) -> Record:
    return {
        **{field: row[field] for field in _TOLD if field in row},
        "title": row["title"] or "",
        "cwd": row["cwd"] or "",
        "first_at": moment(row["first_at"]),
        "last_at": moment(row["last_at"]),
    }


def _used(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> Records:
    found: Records = {
        row["keys"]["session"]: {
            "responses": row["responses"],
            **{field: row["tokens"][field.removesuffix("_tokens")] for field in TOKENS},
            "cost_usd": dollars(row["usd"]),
            "is_unpriced": bool(row["unpriced"]),
        }
        for row in rows
    }
    return {name: found.get(name, nothing_used()) for name in names}
