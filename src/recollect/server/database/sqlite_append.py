"""Appends on SQLite, many rows per statement.

Every statement releases the interpreter lock and must regain it, which costs more than the statement
when the loop is busy. So a batch of appends is four statements, whatever its size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import apsw

from recollect.model.search.terms import indexed_text
from recollect.server.database.records import LIVE, PURGED, Moved, SessionAppend
from recollect.server.database.sql_append import is_fresh, packed, session_update

_Values = tuple[object, ...]
_ROWS_AT_ONCE = 64
_NEW_SESSION = (
    "INSERT INTO sessions(ref, org, id, machine, user_id, created, changed, encrypted) VALUES {rows}"  # noqa: S608 - constants
    f" ON CONFLICT (ref) DO UPDATE SET state = CASE WHEN sessions.state = {PURGED} THEN {LIVE} ELSE sessions.state END,"
    f" encrypted = CASE WHEN sessions.state = {PURGED} THEN excluded.encrypted ELSE sessions.encrypted END"
    " RETURNING ref, state"
)
_NEW_LOG = "INSERT INTO logs(ref, key, org, lines, bytes, hash, changed) VALUES {rows} ON CONFLICT (ref, key) DO NOTHING"
_MOVE = (
    "WITH new(ref, key, before, before_hash, after, after_hash, size, uuid, at) AS (VALUES {rows})"
    " UPDATE logs SET lines = new.after, bytes = bytes + new.size, hash = new.after_hash,"
    " last_uuid = coalesce(new.uuid, last_uuid), changed = new.at FROM new WHERE logs.ref = new.ref"
    " AND logs.key = new.key AND logs.lines = new.before AND logs.hash = new.before_hash AND closed = 0"
    " RETURNING logs.ref, logs.key, bytes, last_uuid"
)
_SEGMENT = (
    "INSERT INTO segments(ref, key, first_line, org, lines, first_byte, size, before, hash, at, token, codec, data)"
    " VALUES {rows}"
)
_SESSION = (
    "WITH new(ref, at, first_at, last_at, cwd, branch, custom_title, ai_title, last_prompt, first_prompt,"
    " project, repository, machine) AS (VALUES {rows})"
    " UPDATE sessions SET changed = max(changed, new.at),"
    " first_at = coalesce(sessions.first_at, new.first_at), last_at = coalesce(new.last_at, sessions.last_at),"
    " cwd = coalesce(sessions.cwd, new.cwd), branch = coalesce(new.branch, sessions.branch),"
    " custom_title = coalesce(new.custom_title, sessions.custom_title),"
    " ai_title = coalesce(new.ai_title, sessions.ai_title),"
    " last_prompt = coalesce(new.last_prompt, sessions.last_prompt),"
    " first_prompt = coalesce(sessions.first_prompt, new.first_prompt),"
    " project = coalesce(new.project, sessions.project),"
    " repository = coalesce(new.repository, sessions.repository), machine = coalesce(new.machine, sessions.machine)"
    " FROM new WHERE sessions.ref = new.ref"
)
_AUDIT = "INSERT INTO audit(org, at, user_id, token, act, target, detail) VALUES {rows}"
_TEXT = "INSERT INTO texts(id, ref, key, line, org, at, type) VALUES {rows}"
_WORDS = "INSERT INTO words(rowid, text) VALUES {rows}"


@lru_cache(maxsize=1024)
def _spread(sql: str, rows: int, width: int) -> str:
    row = f"({','.join('?' * width)})"
    return sql.format(rows=",".join([row] * rows))


def all_rows(connection: apsw.Connection, sql: str, rows: Sequence[_Values]) -> Iterator[tuple[Any, ...]]:
    """The results of a statement for many rows, which replace ``{rows}`` in it."""
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[start : start + _ROWS_AT_ONCE]
        yield from connection.execute(_spread(sql, len(some), len(some[0])), tuple(chain.from_iterable(some)))


def move(
    connection: apsw.Connection, org: str, asks: Sequence[SessionAppend], now: int
) -> list[Moved | None]:
    """Make appends to different logs; None for those at another position."""
    _make_logs(connection, org, [asked for asked in asks if is_fresh(asked.ask)], now)
    found = {
        (ref, key): (size, last_uuid)
        for ref, key, size, last_uuid in all_rows(connection, _MOVE, [_move(asked, now) for asked in asks])
    }
    moved = [found.get((asked.ref, asked.ask.key)) for asked in asks]
    won = [(asked, one[0]) for asked, one in zip(asks, moved, strict=True) if one is not None]
    if won:
        for sql, rows in (
            (_SEGMENT, [_segment(asked, end, now) for asked, end in won]),
            (_AUDIT, [_audit(asked, now) for asked, _ in won]),
        ):
            list(all_rows(connection, sql, rows))
        _tell_sessions(connection, [asked for asked, _ in won], now)
        _add_texts(connection, [asked for asked, _ in won])
    return moved


def _make_logs(connection: apsw.Connection, org: str, fresh: Sequence[SessionAppend], now: int) -> None:
    """Rows for new logs."""
    sessions = [_new_session(asked, now) for asked in fresh]
    live = {ref for ref, state in all_rows(connection, _NEW_SESSION, sessions) if state == LIVE}
    logs = [(ref, ask.key, org, 0, 0, bytes(32), now) for ref, ask in fresh if ref in live]
    list(all_rows(connection, _NEW_LOG, logs))


def _tell_sessions(connection: apsw.Connection, won: Sequence[SessionAppend], now: int) -> None:
    """One update can change a row once: a second log of one session waits for the next."""
    rest: list[_Values] = [(ref, now, *session_update(ask)) for ref, ask in won]
    while rest:
        wave: dict[object, _Values] = {}
        later: list[_Values] = []
        for row in rest:
            (later.append(row) if row[0] in wave else wave.__setitem__(row[0], row))
        list(all_rows(connection, _SESSION, list(wave.values())))
        rest = later


def _add_texts(connection: apsw.Connection, won: Sequence[SessionAppend]) -> None:
    texts = [(asked, row) for asked in won for row in asked.ask.prepared.texts]
    if not texts:
        return
    # There is no other writer before the commit: the next numbers are ours.
    last: Any = connection.execute("SELECT coalesce(max(id), 0) FROM texts").fetchall()[0][0]
    places, words = list[_Values](), list[_Values]()
    for number, ((ref, ask), row) in enumerate(texts, last + 1):
        places.append((number, ref, ask.key, row.line, ask.org, row.at, row.type))
        words.append((number, indexed_text(row.text)))
    list(all_rows(connection, _TEXT, places))
    list(all_rows(connection, _WORDS, words))


def _new_session(asked: SessionAppend, now: int) -> _Values:
    ref, ask = asked
    description, author = ask.description, ask.author
    machine = description.machine or author.machine
    return ref, ask.org, ask.session, machine, author.user, now, now, int(description.encrypted)


def _move(asked: SessionAppend, now: int) -> _Values:
    ref, ask = asked
    new, (lines, running) = ask.prepared, ask.expected
    return ref, ask.key, lines, running, *new.after, len(new.data), new.last_uuid, now


def _segment(asked: SessionAppend, end: int, now: int) -> _Values:
    ref, ask = asked
    new, before = ask.prepared, ask.expected
    codec, data = packed(new.data)
    size = len(new.data)
    place = (ref, ask.key, before.lines, ask.org, new.lines, end - size, size)
    return *place, before.hash, new.after.hash, now, ask.author.token, codec, data


def _audit(asked: SessionAppend, now: int) -> _Values:
    ask = asked.ask
    target = f"{ask.session}/{ask.key}" if ask.key else ask.session
    detail = f"{ask.expected.lines}+{ask.prepared.lines}"
    return ask.org, now, ask.author.user, ask.author.token, "append", target, detail
