"""Export a session to a file: its own bytes or the flat dialect, without its secrets.

``Redactor`` removes secrets unless the user asked for them. A file written here is complete or does not
exist: bytes go to a temporary name beside it, are synced, and are then renamed (P7). Only its owner can read
it, under any umask, because it holds a transcript. The session is not changed, and nothing is printed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import structs

from recollect.errors import StorageError, UsageError
from recollect.model.conversation.chain import entries_of
from recollect.model.convert import Conversion, claude_to_flat
from recollect.model.damage import Damage
from recollect.model.secrets.prefilter import suspects
from recollect.model.secrets.redaction import (
    RedactedBytes,
    Redaction,
    redacted,
    redacted_bytes,
    redacted_fragment,
    redacted_line,
)
from recollect.services.secrets.fingerprints import Fingerprints
from recollect.services.session import Session
from recollect.services.whole_session import whole_nodes
from recollect.storage.config.secret_settings import ignored_secrets
from recollect.storage.logs.reader import OpenLog
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
    conversation = session.conversation(whole=whole)
    nodes = whole_nodes(session, conversation) if whole else conversation.nodes
    entries = entries_of(nodes, session.load)
    # Damage comes first: it has no place in the chain, and its loss must be reported too.
    return claude_to_flat([*session.damage(), *entries])


def flat_bytes(conversion: Conversion) -> Iterator[bytes]:
    for line in conversion.lines:
        yield line + b"\n"


class Redactor:
    """Removes secrets from what passes through it, and counts them.

    The fingerprint key is loaded at the first secret.
    """

    def __init__(self, data: Path) -> None:
        self._fingerprints = Fingerprints(data)
        self._keep = ignored_secrets()
        self.found: list[Redaction] = []

    @property
    def notes(self) -> list[str]:
        """Notes about the fingerprints."""
        return self._fingerprints.notes

    def texts(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Pieces of text; no secret spans two of them."""
        return (self._taken(redacted_bytes(piece, self._fingerprints, self._keep)) for piece in pieces)

    def fragments(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Pieces of one JSON document, each cut between two strings."""
        return (self._taken(redacted_fragment(piece, self._fingerprints, self._keep)) for piece in pieces)

    def lines(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """A log in pieces of any size; lines without a secret are unchanged, byte for byte."""
        for block in _whole_lines(pieces):
            end = 0
            for start, stop in suspects(block):
                yield block[end:start]
                yield self._taken(redacted_line(block[start:stop], self._fingerprints, self._keep))
                end = stop
            yield block[end:]

    def text(self, text: str) -> str:
        clean = redacted(text, self._fingerprints, self._keep)
        self.found += clean.found
        return clean.text

    def line(self, data: bytes, *, count: bool = True) -> bytes:
        """One line of a log, without its newline; ``count`` says whether its secrets are counted."""
        if not suspects(data):
            return data
        clean = redacted_line(data, self._fingerprints, self._keep)
        self.found += clean.found if count else []
        return clean.data

    def discreet(self, damage: Iterable[Damage]) -> Iterator[Damage]:
        """Damage reports without quotes from lines that hold a secret."""
        for one in damage:
            if redacted_bytes(one.data, self._fingerprints, self._keep).found:
                yield structs.replace(one, detail=one.detail.partition(": ")[0])
            else:
                yield one

    def _taken(self, result: RedactedBytes) -> bytes:
        self.found += result.found
        return result.data


def _whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, cut only after newlines; an unterminated rest comes last."""
    rest: list[bytes] = []
    for piece in pieces:
        newline = piece.rfind(b"\n")
        if newline < 0:
            rest.append(piece)
            continue
        yield b"".join([*rest, piece[: newline + 1]])
        rest = [piece[newline + 1 :]]
    yield b"".join(rest)


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
    fd = fsops.open_append(temporary).fd
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
