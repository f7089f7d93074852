"""Who may see a session, asked for by many at once: while one question is under way, those that come meanwhile share the next."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from recollect.server.database.records import LIVE, PURGED, SessionAccess, SessionReader
from recollect.server.database.sql_base import SqlRunner
from recollect.server.database.sql_visibility import seen_by
from recollect.server.database.tables.steps import session_ref

_Asker = tuple[str, SessionReader]
_Answer = asyncio.Future[SessionAccess | None]


class PostgresAccess(SqlRunner):
    """A client that begins with its sessions asks for all of them in one moment, each in a request of its own."""

    def __init__(self) -> None:
        self._unasked: dict[_Asker, list[tuple[bytes, _Answer]]] = {}
        self._asking: dict[_Asker, asyncio.Task[None]] = {}

    async def access(self, org: str, session: str, reader: SessionReader) -> SessionAccess | None:
        asker = (org, reader)
        answer: _Answer = asyncio.get_running_loop().create_future()
        self._unasked.setdefault(asker, []).append((session_ref(org, session), answer))
        if asker not in self._asking:
            self._asking[asker] = asyncio.create_task(self._ask_all(asker))
        return await answer

    async def _ask_all(self, asker: _Asker) -> None:
        try:
            while asked := self._unasked.pop(asker, None):
                await self._ask(asker, asked)
        finally:
            del self._asking[asker]

    async def _ask(self, asker: _Asker, asked: list[tuple[bytes, _Answer]]) -> None:
        try:
            found = await self._found(*asker, [ref for ref, _ in asked])
        except Exception as problem:  # noqa: BLE001 - handed to those who wait
            for _, answer in asked:
                if not answer.done():
                    answer.set_exception(problem)
            return
        for ref, answer in asked:
            if not answer.done():
                answer.set_result(found.get(ref))

    async def _found(
        self, org: str, reader: SessionReader, refs: list[bytes]
    ) -> Mapping[bytes, SessionAccess]:
        rows = await self._read_now(
            org,
            f"SELECT ref, user_id, {seen_by(reader, '$2')}, state <> {LIVE} FROM sessions"  # noqa: S608 - constants
            f" WHERE ref = ANY($1) AND state <> {PURGED}",
            refs,
            reader.user,
        )
        return {
            ref: SessionAccess(creator, bool(is_visible), bool(is_deleted))
            for ref, creator, is_visible, is_deleted in rows
        }
