"""Export a session to a file: its own bytes or the flat dialect, without its secrets.

``Redactor`` removes secrets unless the user asked for them. A file written here is complete or does not
exist: bytes go to a temporary name beside it, are synced, and are then renamed (P7). Only its owner can read
it, under any umask, because it holds a transcript. The session is not changed, and nothing is printed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType

from recollect.ask.conversation.documents import DamageDocument, damage_document
from recollect.ask.secrets.redactor import Redactor
from recollect.ask.sessions.messages import whole_story
from recollect.ask.sessions.session import Session
from recollect.errors import StorageError, UsageError
from recollect.model.conversation.chain import entries_of
from recollect.model.convert import Conversion, claude_to_flat
from recollect.model.convert.turns import Loss
from recollect.model.lines.damage import Damage
from recollect.store.logs.reader import OpenLog
from recollect.system import fsops

_CHUNK = 1 << 20


def log_bytes(path: Path) -> Iterator[bytes]:
    """The current bytes of a log, in pieces; what is appended meanwhile is left out."""
    with OpenLog(path) as log:
        position, end = 0, log.size()
        while position < end:
            piece = log.read(min(_CHUNK, end - position), position)
            if not piece:
                return  # the log was cut meanwhile; what was read before is valid
            yield piece
            position += len(piece)


def flat(session: Session, *, whole: bool = False) -> Conversion:
    """The conversation in the flat dialect, with its losses; damaged lines are losses too."""
    nodes = whole_story(session).nodes if whole else session.conversation().nodes
    entries = entries_of(nodes, session.load)
    # Damage comes first: it has no place in the chain, and its loss must be reported too.
    return claude_to_flat([*session.damage(), *entries])


def write_file(path: Path, pieces: Iterable[bytes], *, force: bool = False) -> int:
    """Write a file completely or not at all; returns its size. ``force`` replaces an existing one."""
    check_target(path, force=force)
    temporary = path.with_name(f".{path.name[:200]}.{os.urandom(6).hex()}.tmp")
    try:
        written = fill(temporary, pieces)
        if force:
            temporary.replace(path)
            fsops.sync_dir(path.parent)
        else:
            fsops.move(temporary, path)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as cause:
        raise StorageError(
            "write", path, cause, hint="nothing was left there; check the directory"
        ) from cause
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return written


def check_target(path: Path, *, force: bool) -> None:
    """Refuse a target that may not be written, before anything is read."""
    if path.is_dir():
        raise UsageError(f"{path}: is a directory", hint="name a file in it, as in --output notes/session.md")
    if not force and (path.exists() or path.is_symlink()):
        raise _exists(path)
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no directory {path.parent}", hint="create it first")


def fill(temporary: Path, pieces: Iterable[bytes]) -> int:
    """Write a new file that only its owner can read, sync it, and return its size."""
    fd = fsops.open_append(temporary)
    written = 0
    try:
        for piece in pieces:
            fsops.write_all(fd, piece)
            written += len(piece)
        fsops.sync_file(fd)
    finally:
        fsops.close(fd)
    return written


def _exists(path: Path) -> UsageError:
    return UsageError(f"{path}: already exists", hint="name another file, or replace it with --force")


class RedactedSecretDocument(Struct, frozen=True):
    """A secret that was replaced, without its value."""

    kind: str
    fingerprint: str


class ExportProblemDocument(Struct, frozen=True):
    """A session that was not exported, and why."""

    session: str
    problem: str


class ExportDocument(Struct, frozen=True, kw_only=True):
    """An export of a session, or of a project as pages."""

    session: str | UnsetType = UNSET
    project: str | UnsetType = UNSET
    format: str
    output: str
    bytes: int
    files: int | UnsetType = UNSET
    sessions: int | UnsetType = UNSET
    redacted: list[RedactedSecretDocument]
    losses: Sequence[Loss]
    findings: list[DamageDocument]
    problems: list[ExportProblemDocument] | UnsetType = UNSET


def redacted(redactor: Redactor | None) -> list[RedactedSecretDocument]:
    found = () if redactor is None else redactor.found
    return [RedactedSecretDocument(one.kind, one.fingerprint) for one in found]


def damages(found: Iterable[Damage]) -> list[DamageDocument]:
    return [damage_document(one) for one in found]
