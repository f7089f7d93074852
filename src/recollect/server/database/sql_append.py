"""Many appends in one transaction: compare each log's head with the expected one and move it, in one
statement.

An append whose log is at another position changes nothing, and is told the position after the
transaction. The comparison is part of the update, and the primary key of ``segments`` would refuse a
second writer anyway. Each database batches the statements in its own way (``move``); usage is handled
here for both.
"""

from __future__ import annotations

from typing import NamedTuple

import zstandard

from recollect.server.database.records import AppendRequest, Moved, SessionAppend
from recollect.server.database.sql_usage import Transaction, count_usage
from recollect.server.database.tables.steps import session_ref

RAW, ZSTD = 0, 1
# A kilobyte of JSON compresses badly, and most appends are that small.
_WORTH_COMPRESSING = 4_096
# With this many appends in recent commits, the next one waits a moment for more; a single writer never waits.
BUSY, GATHER_SECONDS = 4, 0.003

AUDIT = "INSERT INTO audit(org, at, user_id, token, act, target, detail) VALUES($1,$2,$3,$4,$5,$6,$7)"


def in_order(appends: list[AppendRequest]) -> tuple[list[int], list[SessionAppend]]:
    """Appends sorted by log, so that two servers wait instead of deadlocking; with their original indexes."""
    asks = [SessionAppend(session_ref(ask.org, ask.session), ask) for ask in appends]
    order = sorted(range(len(asks)), key=lambda place: (asks[place].ref, asks[place].ask.key))
    return order, [asks[place] for place in order]


async def commit_appends(
    tx: Transaction, org: str, appends: list[AppendRequest], now: int
) -> list[Moved | None]:
    """Make appends to different logs of one organisation; None for those at another position."""
    order, asks = in_order(appends)
    moved = await tx.move(org, asks, now)
    stored = [asked.ask for asked, one in zip(asks, moved, strict=True) if one is not None]
    await count_usage(tx, org, [ask for ask in stored if ask.prepared.usage], now)
    return unordered(order, moved)


def unordered(order: list[int], moved: list[Moved | None]) -> list[Moved | None]:
    """Results in the original order of the appends."""
    results: list[Moved | None] = [None] * len(order)
    for place, result in zip(order, moved, strict=True):
        results[place] = result
    return results


def is_fresh(ask: AppendRequest) -> bool:
    """Whether the client expects a new log."""
    return ask.expected.lines == 0 and not any(ask.expected.hash)


class SessionUpdate(NamedTuple):
    """What an append changes in its session."""

    first_at: int | None
    last_at: int | None
    cwd: str | None
    branch: str | None
    custom_title: str | None
    ai_title: str | None
    last_prompt: str | None
    first_prompt: str | None
    project: str | None
    repository: str | None
    machine: str | None


def session_update(ask: AppendRequest) -> SessionUpdate:
    """The session's new title and times, from its own log only: a sub-agent's log does not change them."""
    new, told = ask.prepared, ask.description
    if ask.key:
        return SessionUpdate(*(None,) * 8, told.project, told.repository, told.machine)
    return SessionUpdate(
        new.first_at,
        new.last_at,
        new.cwd,
        new.branch,
        new.custom_title,
        new.ai_title,
        new.last_prompt,
        new.first_prompt,
        told.project,
        told.repository,
        told.machine,
    )


def packed(data: bytes) -> tuple[int, bytes]:
    """Bytes as stored: compressed where that pays."""
    if len(data) < _WORTH_COMPRESSING:
        return RAW, data
    small = zstandard.ZstdCompressor(level=1).compress(data)
    return (ZSTD, small) if len(small) < len(data) * 9 // 10 else (RAW, data)


def unpacked(codec: int, data: bytes) -> bytes:
    """The inverse of ``packed``."""
    return zstandard.ZstdDecompressor().decompress(data) if codec == ZSTD else data
