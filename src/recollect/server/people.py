"""All that the server holds of one person: a plan, its removal with a report, and an archive.

Removing: the member is disabled and every token revoked first; then sessions are purged one by one, and at last everything
that names the person. It may be repeated: what was done is skipped.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from typing import NamedTuple

import msgspec
from msgspec import Struct

from recollect.server.database.records import Author, Held, OrgUser, PersonCounts, PersonLog
from recollect.server.database.sql import Database
from recollect.server.database.sql_base import now_ms
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
    for token in await database.person_tokens(org, user.id):
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


def _report(counts: PersonCounts, erasure: str | None, *, is_applied: bool) -> ErasureReport:
    purged = "removed with their logs, words and side files"
    gone = [
        ErasedPart("sessions", counts.sessions - counts.held_sessions, purged),
        ErasedPart("lines", counts.lines, "of those sessions"),
        ErasedPart("bytes", counts.bytes, "of those lines"),
        ErasedPart("files", counts.files, "side files of those sessions"),
        ErasedPart("tokens", counts.tokens, "tokens and sessions of browsers"),
        ErasedPart("identities", counts.identities, "names at identity providers"),
        ErasedPart("teams", counts.teams, "memberships"),
        ErasedPart("audit_rows", counts.audit_rows, "ids of the person in the audit log"),
    ]
    kept = [
        ErasedPart(
            "responses", counts.responses, "counts of tokens, without person, session and branch: for totals"
        ),
        ErasedPart("audit_rows", counts.audit_rows, "what was done and when, without who"),
        ErasedPart(
            "lines_elsewhere",
            counts.lines_elsewhere,
            f"lines in {counts.sessions_elsewhere} sessions of others, without who added them: delete those sessions to remove them",
        ),
        ErasedPart(
            "files_elsewhere",
            counts.files_elsewhere,
            "side files in sessions of others, without who stored them",
        ),
        ErasedPart(
            "held_sessions",
            counts.held_sessions,
            "under legal hold, with the member, who is disabled: repeat this when the hold has ended",
        ),
    ]
    return ErasureReport(
        erasure,
        is_applied,
        counts.held_sessions == 0,
        now_ms(),
        [part for part in gone if part.count],
        [part for part in kept if part.count],
    )


# --- the archive ----------------------------------------------------------------------------------------


class _ArchiveMember(NamedTuple):
    """A file of the archive: its size is known before its bytes are read."""

    name: str
    size: int
    data: AsyncIterator[bytes]


async def person_archive(
    database: Database, user: OrgUser, room: Room | None = None
) -> AsyncGenerator[bytes, None]:
    """A .tar.gz with everything that is held of a person, in pieces. ``room``: waits for memory before bytes are read."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    async for entry in _entries(database, user, room):
        head = tarfile.TarInfo(entry.name)
        head.size, head.mode, head.mtime = entry.size, 0o600, now_ms() // 1_000
        yield packer.compress(head.tobuf(tarfile.PAX_FORMAT))
        written = 0
        async for piece in entry.data:
            written += len(piece)
            yield packer.compress(piece)
        # A log only grows: what it had when it was measured is there.
        yield packer.compress(bytes(entry.size - written + -entry.size % tarfile.BLOCKSIZE))
    yield packer.compress(bytes(2 * tarfile.BLOCKSIZE)) + packer.flush()


async def _entries(database: Database, user: OrgUser, room: Room | None) -> AsyncIterator[_ArchiveMember]:
    org, number = user.org, user.id
    teams = [team.name for team in await database.teams(org) if number in team.members]
    tokens = await database.person_tokens(org, number)
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
        place = f"sessions/{log.session}/logs/{log.key or 'main'}.jsonl"
        yield _ArchiveMember(place, log.bytes, _lines(database, org, log, room))
    for log in await database.person_lines_elsewhere(org, number):
        place = f"elsewhere/{log.session}/{log.key or 'main'}/from-line-{log.first_line + 1}.jsonl"
        yield _ArchiveMember(place, log.bytes, _lines(database, org, log, room))
    for file in await database.person_files(org, number):
        if room is not None:
            await room(file.bytes)
        data = await database.person_file(org, file.session, file.key)
        if data is not None:
            yield _document(f"sessions/{file.session}/files/{file.key}", data)


def _rows(rows: Iterable[object]) -> bytes:
    return msgspec.json.Encoder().encode_lines(rows)


def _document(name: str, data: bytes) -> _ArchiveMember:
    async def whole() -> AsyncIterator[bytes]:
        for start in range(0, len(data), _AT_ONCE):
            yield data[start : start + _AT_ONCE]

    return _ArchiveMember(name, len(data), whole())


async def _lines(database: Database, org: str, log: PersonLog, room: Room | None) -> AsyncIterator[bytes]:
    left, until = log.bytes, log.first_line + log.lines
    if room is not None:
        await room(min(left, _AT_ONCE * 4))
    async for segment in database.segments(org, log.session, log.key, log.first_line, until):
        data = segment.between(log.first_line, until)
        left -= len(data)
        yield data
        if room is not None:
            await room(min(left, _AT_ONCE * 4))
