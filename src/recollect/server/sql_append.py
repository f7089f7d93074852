"""Many appends, one transaction: compare each head with what its client expects and move it, in one statement.

Whoever finds its log elsewhere changes nothing and is told after the transaction where the log is. There is no
look-then-write anywhere: the comparison is part of the update, and the primary key of ``segments`` would refuse a
second writer even if it were not.
"""

from __future__ import annotations

import zstandard

from recollect.server.records import LIVE, PURGED, Append
from recollect.server.sql_tables import session_ref
from recollect.server.sql_usage import Transaction, count_usage

RAW, ZSTD = 0, 1
# A kilobyte of JSON compresses badly by itself, and most appends are that small.
_WORTH_COMPRESSING = 4_096

_NEW_SESSION = (
    "INSERT INTO sessions(ref, org, id, machine, user_id, created, changed, encrypted) VALUES($1,$2,$3,$4,$5,$6,$6,$7)"
    f" ON CONFLICT (ref) DO UPDATE SET state = CASE WHEN sessions.state = {PURGED} THEN {LIVE} ELSE sessions.state END,"
    f" encrypted = CASE WHEN sessions.state = {PURGED} THEN excluded.encrypted ELSE sessions.encrypted END"
    " RETURNING ref, state"
)
_NEW_LOG = (
    "INSERT INTO logs(ref, key, org, lines, bytes, hash, changed) VALUES($1,$2,$3,0,0,$4,$5)"
    " ON CONFLICT (ref, key) DO NOTHING"
)
_MOVE = (
    "UPDATE logs SET lines = $4, bytes = bytes + $5, hash = $6, last_uuid = coalesce($7, last_uuid), changed = $8"
    " WHERE ref = $1 AND key = $2 AND lines = $3 AND hash = $9 AND closed = 0 RETURNING ref, key, bytes, last_uuid"
)
_SEGMENT = (
    "INSERT INTO segments(ref, key, first_line, org, lines, first_byte, size, before, hash, at, token, codec, data)"
    " VALUES($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13)"
)
_SESSION = (
    "UPDATE sessions SET changed = CASE WHEN changed < $2 THEN $2 ELSE changed END,"
    " first_at = CASE WHEN first_at IS NULL OR $3 < first_at THEN coalesce($3, first_at) ELSE first_at END,"
    " last_at = CASE WHEN last_at IS NULL OR $4 > last_at THEN coalesce($4, last_at) ELSE last_at END,"
    " cwd = coalesce(cwd, $5), branch = coalesce($6, branch),"
    " title = CASE WHEN $8 > title_rank OR ($8 = title_rank AND $8 > 1) THEN $7 ELSE title END,"
    " title_rank = CASE WHEN $8 > title_rank THEN $8 ELSE title_rank END,"
    " project = coalesce($9, project), repository = coalesce($10, repository), machine = coalesce($11, machine)"
    " WHERE ref = $1"
)
AUDIT = "INSERT INTO audit(org, at, user_id, token, act, target, detail) VALUES($1,$2,$3,$4,$5,$6,$7)"

Moved = tuple[int, str | None]
"""Bytes in the log after the append, and the last uuid in it."""


async def commit_appends(tx: Transaction, org: str, appends: list[Append], now: int) -> list[Moved | None]:
    """Carry out appends to different logs of one organisation; None for those whose log is elsewhere."""
    appends_by_log = {(session_ref(org, ask.session), ask.key): ask for ask in appends}
    in_order = sorted(appends_by_log)
    await _make_logs(tx, org, [(ref, appends_by_log[ref, key]) for ref, key in in_order], now)
    rows = await tx.many(_MOVE, [_move(ref, appends_by_log[ref, key], now) for ref, key in in_order])
    moved = {(bytes(row[0]), str(row[1])): (int(row[2]), row[3]) for row in rows}
    won = [(ref, appends_by_log[ref, key]) for ref, key in in_order if (ref, key) in moved]
    if won:
        await tx.many(_SEGMENT, [_segment(ref, ask, moved[ref, ask.key][0], now) for ref, ask in won])
        await tx.many(_SESSION, [_session(ref, ask, now) for ref, ask in won])
        await count_usage(tx, org, [ask for _, ask in won])
        await tx.add_texts([ask for _, ask in won if ask.prepared.texts])
        await tx.many(AUDIT, [_audit(ask, now) for _, ask in won])
    return [moved.get((session_ref(org, ask.session), ask.key)) for ask in appends]


async def _make_logs(tx: Transaction, org: str, asks: list[tuple[bytes, Append]], now: int) -> None:
    """Rows for logs that begin; the session's row is locked, so that no deletion comes between."""
    fresh = [(ref, ask) for ref, ask in asks if ask.expected.lines == 0 and not any(ask.expected.hash)]
    if not fresh:
        return
    rows = await tx.many(_NEW_SESSION, [_new_session(ref, ask, now) for ref, ask in fresh])
    live = {bytes(row[0]) for row in rows if row[1] == LIVE}
    logs = [(ref, ask.key, org, bytes(32), now) for ref, ask in fresh if ref in live]
    if logs:
        await tx.many(_NEW_LOG, logs)


def _new_session(ref: bytes, ask: Append, now: int) -> tuple[object, ...]:
    return (
        ref,
        ask.org,
        ask.session,
        ask.description.machine or ask.author.machine,
        ask.author.user,
        now,
        int(ask.description.encrypted),
    )


def _move(ref: bytes, ask: Append, now: int) -> tuple[object, ...]:
    new = ask.prepared
    before, after = ask.expected, new.after
    return ref, ask.key, before.lines, after.lines, len(new.data), after.hash, new.last_uuid, now, before.hash


def _segment(ref: bytes, ask: Append, end: int, now: int) -> tuple[object, ...]:
    new, before = ask.prepared, ask.expected
    codec, data = packed(new.data)
    size = len(new.data)
    place = (ref, ask.key, before.lines, ask.org, new.lines, end - size, size)
    return *place, before.hash, new.after.hash, now, ask.author.token, codec, data


def _session(ref: bytes, ask: Append, now: int) -> tuple[object, ...]:
    new, told = ask.prepared, ask.description
    # What a sub-agent was asked is not what the session is about.
    rank = new.title_rank if not ask.key else 0
    seen = (new.first_at, new.last_at, new.cwd, new.branch if not ask.key else None, new.title, rank)
    return ref, now, *seen, told.project, told.repository, told.machine


def _audit(ask: Append, now: int) -> tuple[object, ...]:
    target = f"{ask.session}/{ask.key}" if ask.key else ask.session
    detail = f"{ask.expected.lines}+{ask.prepared.lines}"
    return ask.org, now, ask.author.user, ask.author.token, "append", target, detail


def packed(data: bytes) -> tuple[int, bytes]:
    """Bytes as they are stored: compressed where that pays."""
    if len(data) < _WORTH_COMPRESSING:
        return RAW, data
    small = zstandard.ZstdCompressor(level=1).compress(data)
    return (ZSTD, small) if len(small) < len(data) * 9 // 10 else (RAW, data)


def unpacked(codec: int, data: bytes) -> bytes:
    """What ``packed`` was given."""
    return zstandard.ZstdDecompressor().decompress(data) if codec == ZSTD else data
