"""Appends on PostgreSQL: a batch is one call of ``recollect_append`` (tables/append_function.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from recollect.model.search.terms import folded, indexed_text
from recollect.server.database.records import AppendRequest, Moved, SessionAppend, TextRow
from recollect.server.database.sql_append import is_fresh, packed, session_update
from recollect.server.database.tables.append_function import CALL

# A block is read again where it may match: small enough to be quick, large enough to share words.
_MOST_LINES, _MOST_CHARACTERS = 64, 64_000
LONGEST_WORD = 500  # bytes; PostgreSQL takes 2,046
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


class _BlockWords(Struct):
    """The words of a block of lines, each once, and the append it came with."""

    place: int
    ref: str
    key: str
    line: int
    lines: int
    oldest: int
    newest: int
    words: str


async def move(connection: Any, org: str, asks: Sequence[SessionAppend], now: int) -> list[Moved | None]:
    """Make appends to different logs; None for those at another position."""
    rows, data, texts = list[_AppendRow](), list[bytes](), list[_BlockWords]()
    for place, (ref, ask) in enumerate(asks, 1):
        codec, stored = packed(ask.prepared.data)
        name = "\\x" + ref.hex()
        rows.append(_row(name, ask, codec))
        data.append(stored)
        texts += _blocks(place, name, ask)
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


def _blocks(place: int, ref: str, ask: AppendRequest) -> Iterator[_BlockWords]:
    """The words of an append, some lines at a time. Which of them has a word is seen in the lines themselves."""
    block: list[TextRow] = []
    size = 0
    for row in ask.prepared.texts:
        if block and (len(block) == _MOST_LINES or size + len(row.text) > _MOST_CHARACTERS):
            yield _block(place, ref, ask.key, block)
            block, size = [], 0
        block.append(row)
        size += len(row.text)
    if block:
        yield _block(place, ref, ask.key, block)


def _block(place: int, ref: str, key: str, rows: list[TextRow]) -> _BlockWords:
    first, times = rows[0].line, [row.at or 0 for row in rows]
    words = {word for row in rows for word in words_of(row.text)}
    lines = rows[-1].line - first + 1
    return _BlockWords(place, ref, key, first, lines, min(times), max(times), " ".join(words))


def words_of(text: str) -> set[str]:
    """The words of a text as our tokenizer has them, so that both databases index the same ones."""
    return {word[:LONGEST_WORD].decode(errors="replace") for word in folded(indexed_text(text)).split()}
