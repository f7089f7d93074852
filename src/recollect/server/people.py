"""All that the server holds of one person: a plan, its removal with a report, and an archive.

Removing: the member is disabled and every token revoked first; then sessions are purged one by one, and at last everything
that names the person. It may be repeated: what was done is skipped.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable

import msgspec
from msgspec import Struct

from recollect.server.database.records import Author, Held, OrgUser, Row, now_ms
from recollect.server.database.sql import Database
from recollect.server.tenancy import new_id

_AT_ONCE = 1 << 20
Room = Callable[[int], Awaitable[None]]


class ErasedPart(Struct, frozen=True):
    """Something that was, or would be, removed or kept, and why."""

    what: str
    count: int
    why: str


class ErasureReport(Struct, frozen=True):
    """What is erased of a person, and what is kept. ``erasure`` names it in the audit log; it names no person."""

    erasure: str | None
    applied: bool
    is_complete: bool
    at: int
    erased: list[ErasedPart]
    kept: list[ErasedPart]


async def planned_erasure(database: Database, user: OrgUser) -> ErasureReport:
    """What would be erased."""
    return _report(await database.person_counts(user.org, user.id), None, is_applied=False)


async def erased(database: Database, user: OrgUser, author: Author) -> ErasureReport:
    """Erase a person; the report counts what was there."""
    org = user.org
    counts = await database.person_counts(org, user.id)
    await database.change_user(org, user.id, None, True, author)
    for token in await database.tokens(org, user.id):
        await database.revoke_token(org, token.id, author)
    for session, is_held in await database.person_sessions(org, user.id):
        if not is_held:
            try:
                await database.delete(org, session, purge=True, only_own=False, author=author)
            except Held:  # since the list was made
                continue
    erasure = f"erasure-{new_id()}"
    await database.forget_person(org, user.id, author, erasure)
    return _report(counts, erasure, is_applied=True)


_PURGED = "removed with their logs, words and side files"
_ERASED = {
    "sessions": _PURGED,
    "lines": "of those sessions",
    "bytes": "of those lines",
    "files": "side files of those sessions",
    "tokens": "tokens and sessions of browsers",
    "identities": "names at identity providers",
    "teams": "memberships",
    "audit_rows": "ids of the person in the audit log",
}
_KEPT = {
    "responses": "counts of tokens, without person, session and branch: for totals",
    "audit_rows": "what was done and when, without who",
    "lines_elsewhere": "lines in {sessions_elsewhere} sessions of others, without who added them: delete those sessions to remove them",
    "files_elsewhere": "side files in sessions of others, without who stored them",
    "held_sessions": "under legal hold, with the member, who is disabled: repeat this when the hold has ended",
}


def _report(counts: dict[str, int], erasure: str | None, *, is_applied: bool) -> ErasureReport:
    gone = counts | {"sessions": counts["sessions"] - counts["held_sessions"]}
    return ErasureReport(
        erasure,
        is_applied,
        counts["held_sessions"] == 0,
        now_ms(),
        [ErasedPart(what, gone[what], why) for what, why in _ERASED.items() if gone[what]],
        [
            ErasedPart(what, counts[what], why.format_map(counts))
            for what, why in _KEPT.items()
            if counts[what]
        ],
    )


# --- the archive ----------------------------------------------------------------------------------------


# A file of the archive: its name, its size, which is known before its bytes are read, and these.
_Entry = tuple[str, int, AsyncIterator[bytes]]


async def person_archive(
    database: Database, user: OrgUser, room: Room | None = None
) -> AsyncGenerator[bytes, None]:
    """A .tar.gz with everything that is held of a person, in pieces. ``room``: waits for memory before bytes are read."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    async for name, size, data in _entries(database, user, room):
        head = tarfile.TarInfo(name)
        head.size, head.mode, head.mtime = size, 0o600, now_ms() // 1_000
        yield packer.compress(head.tobuf(tarfile.PAX_FORMAT))
        written = 0
        async for piece in data:
            written += len(piece)
            yield packer.compress(piece)
        # A log only grows: what it had when it was measured is there.
        yield packer.compress(bytes(size - written + -size % tarfile.BLOCKSIZE))
    yield packer.compress(bytes(2 * tarfile.BLOCKSIZE)) + packer.flush()


async def _entries(database: Database, user: OrgUser, room: Room | None) -> AsyncIterator[_Entry]:
    org, number = user.org, user.id
    teams = [team.name for team in await database.teams(org) if number in team.members]
    tokens = await database.tokens(org, number)
    identities = await database.person_identities(org, number)
    about = {
        "member": user,
        "teams": teams,
        "tokens": tokens,
        "identities": [{"issuer": issuer, "subject": subject} for issuer, subject in identities],
        "held": await database.person_counts(org, number),
    }
    yield _document("person.json", msgspec.json.format(msgspec.json.encode(about), indent=2))
    yield _document("usage.jsonl", _rows(await database.person_usage(org, number)))
    yield _document("audit.jsonl", _rows(await database.person_audit(org, number)))
    for session, _ in await database.person_sessions(org, number):
        detail = await database.session(org, session)
        if detail is not None:
            text = msgspec.json.format(msgspec.json.encode(detail), indent=2)
            yield _document(f"sessions/{session}/session.json", text)
    for log in await database.person_logs(org, number):
        yield f"sessions/{log[0]}/logs/{log[1] or 'main'}.jsonl", log[-1], _lines(database, org, log, room)
    for log in await database.person_lines_elsewhere(org, number):
        place = f"elsewhere/{log[0]}/{log[1] or 'main'}/from-line-{log[2] + 1}.jsonl"
        yield place, log[-1], _lines(database, org, log, room)
    for session, key, size in await database.person_files(org, number):
        if room is not None:
            await room(size)
        data = await database.person_file(org, session, key)
        if data is not None:
            yield _document(f"sessions/{session}/files/{key}", data)


def _rows(rows: Iterable[object]) -> bytes:
    return msgspec.json.Encoder().encode_lines(rows)


def _document(name: str, data: bytes) -> _Entry:
    async def whole() -> AsyncIterator[bytes]:
        for start in range(0, len(data), _AT_ONCE):
            yield data[start : start + _AT_ONCE]

    return name, len(data), whole()


async def _lines(database: Database, org: str, log: Row, room: Room | None) -> AsyncIterator[bytes]:
    session, key, first, lines, left = log
    if room is not None:
        await room(min(left, _AT_ONCE * 4))
    async for segment in database.segments(org, session, key, first, first + lines):
        data = segment.between(first, first + lines)
        left -= len(data)
        yield data
        if room is not None:
            await room(min(left, _AT_ONCE * 4))
