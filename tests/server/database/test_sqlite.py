"""A team's database file of an earlier version goes on after a migration."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import apsw

from recollect.server.database.sqlite import SqliteDatabase
from recollect.server.database.tables.steps import session_ref, sqlite_steps

_COUNTS = "input, output, cache_write_5m, cache_write_1h, cache_read, web_searches"


def _before(path: Path) -> None:
    """A file of the first version: one session with the title of a prompt, one response that counts."""
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute(sqlite_steps()[0])
        connection.pragma("user_version", 1)
        connection.execute("INSERT INTO orgs VALUES('o', 'Org', 0, NULL)")
        connection.execute(
            "INSERT INTO sessions(ref, org, id, title, title_rank, created, changed) VALUES(?, 'o', 's1', 'Old', 1, 0, 0)",
            (session_ref("o", "s1"),),
        )
        connection.execute(
            f"INSERT INTO usage(org, message, session, key, request, counted, speaker, has_stop, forked, at, person,"
            f" model, branch, variant, {_COUNTS}) VALUES('o','m','s1','','r',1,2,1,0,1000,'p','x','',0,1,2,3,4,5,6)"
        )
        connection.execute(
            f"INSERT INTO rollup(org, quarter, session, person, model, branch, variant, messages, {_COUNTS})"
            " VALUES('o',0,'s1','p','x','',0,1,1,2,3,4,5,6)"
        )


def test_titles_and_counted_responses_of_an_earlier_version_stay(tmp_path: Path) -> None:
    """A title that was kept whole is shown until a part of one is known; what counted counts, in parts of quarters too."""
    path = tmp_path / "team.sqlite"
    _before(path)

    async def asked() -> tuple[object, ...]:
        database = SqliteDatabase(path)
        done = await database.migrate()
        await database.open()
        try:
            detail = await database.session("o", "s1")
            whole = await database.usage("o", None, None)
            part = await database.usage("o", 999, 1001)
            return done, detail and detail.session.title, [tuple(one[9:]) for one in (*whole, *part)]
        finally:
            await database.close()

    counts = (1, 1, 2, 3, 4, 5, 6)
    assert (len(sqlite_steps()) - 1, "Old", [counts, counts]) == asyncio.run(asked())
