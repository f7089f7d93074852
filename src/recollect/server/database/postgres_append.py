"""Appends on PostgreSQL: a batch is one call of ``recollect_append`` (postgres_function.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from recollect.model.search.terms import folded, indexed_text
from recollect.server.database.postgres_function import CALL
from recollect.server.database.records import AppendRequest, Moved, SessionAppend
from recollect.server.database.sql_append import is_fresh, packed, session_update

_encode = msgspec.json.Encoder().encode


class _AppendRow(Struct, omit_defaults=True):
    """One append without its bytes; hashes in PostgreSQL's notation."""

    ref: str
    key: str
    id: str
    fresh: bool
    before: int
    before_hash: str
    after: int
    after_hash: str
    size: int
    codec: int
    user_id: str
    token: str
    encrypted: int
    new_machine: str | None = None
    uuid: str | None = None
    first_at: int | None = None
    last_at: int | None = None
    cwd: str | None = None
    branch: str | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    last_prompt: str | None = None
    first_prompt: str | None = None
    project: str | None = None
    repository: str | None = None
    machine: str | None = None


class _LineWords(Struct, omit_defaults=True):
    """The words of one line, and the append it came with."""

    place: int
    ref: str
    key: str
    line: int
    type: str
    words: str
    at: int | None = None


async def move(connection: Any, org: str, asks: Sequence[SessionAppend], now: int) -> list[Moved | None]:
    """Make appends to different logs; None for those at another position."""
    rows, data, texts = list[_AppendRow](), list[bytes](), list[_LineWords]()
    for place, (ref, ask) in enumerate(asks, 1):
        codec, stored = packed(ask.prepared.data)
        name = "\\x" + ref.hex()
        rows.append(_row(name, ask, codec))
        data.append(stored)
        for row in ask.prepared.texts:
            texts.append(_LineWords(place, name, ask.key, row.line, row.type, words_of(row.text), row.at))
    found = await connection.fetch(
        CALL, org, now, _encode(rows).decode(), data, _encode(texts).decode() if texts else None
    )
    moved: list[Moved | None] = [None] * len(asks)
    for place, size, uuid in found:
        moved[place - 1] = size, uuid
    return moved


def _row(ref: str, ask: AppendRequest, codec: int) -> _AppendRow:
    new, before, author, description = ask.prepared, ask.expected, ask.author, ask.description
    return _AppendRow(
        ref,
        ask.key,
        ask.session,
        is_fresh(ask),
        before.lines,
        "\\x" + before.hash.hex(),
        new.after.lines,
        "\\x" + new.after.hash.hex(),
        len(new.data),
        codec,
        author.user,
        author.token,
        int(description.encrypted),
        description.machine or author.machine,
        new.last_uuid,
        *session_update(ask),
    )


def words_of(text: str) -> str:
    """A text in the letters of our tokenizer, so that both databases index the same words."""
    return folded(indexed_text(text)).decode(errors="replace")
