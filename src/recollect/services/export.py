"""Carry a session out of its home: as its own bytes, in the flat dialect, into a file.

A file that is written here is complete or not there at all: bytes go to a
temporary name beside it, are synced, and only then get the name that was asked
for (P7). It is readable by its owner only, whatever the umask, for it holds a
transcript. Nothing of the session is changed, and nothing is printed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from recollect.errors import StorageError, UsageError
from recollect.model.chain import entries_of
from recollect.model.convert import Conversion, claude_to_flat
from recollect.services.history import whole_nodes
from recollect.services.session import Session
from recollect.storage import fsops
from recollect.storage.reader import OpenLog

_CHUNK = 1 << 20


def log_bytes(path: Path) -> Iterator[bytes]:
    """The bytes of a log as it is now, in pieces; what is appended meanwhile is left out."""
    with OpenLog(path) as log:
        position, end = 0, log.stat().st_size
        while position < end:
            piece = log.read(min(_CHUNK, end - position), position)
            if not piece:
                return  # the log was cut under us; what was read before is sound
            yield piece
            position += len(piece)


def flat(session: Session, *, whole: bool = False) -> Conversion:
    """The conversation in the flat dialect, and what did not come along; damaged lines are losses too."""
    conversation = session.conversation(whole=whole)
    nodes = whole_nodes(session, conversation) if whole else conversation.nodes
    entries = entries_of(nodes, session.load)
    # Damage stands in front: it has no place in the chain, and its loss is told all the same.
    return claude_to_flat([*session.damage(), *entries])


def flat_bytes(conversion: Conversion) -> Iterator[bytes]:
    """The lines of a conversion, each with its newline."""
    for line in conversion.lines:
        yield line + b"\n"


def write_file(path: Path, pieces: Iterable[bytes], *, force: bool = False) -> int:
    """Write a file as a whole or not at all, and say how many bytes; ``force`` replaces one that is there."""
    check_target(path, force=force)
    temporary = path.with_name(f".{path.name[:200]}.{os.urandom(6).hex()}.tmp")
    try:
        written = _fill(temporary, pieces)
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
    """Refuse, before anything is read, a file that may not be written."""
    if path.is_dir():
        raise UsageError(f"{path}: is a directory", hint="name a file in it, as in --output notes/talk.md")
    if not force and (path.exists() or path.is_symlink()):
        raise _exists(path)
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no directory {path.parent}", hint="create it first")


def _fill(temporary: Path, pieces: Iterable[bytes]) -> int:
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
    return UsageError(f"{path}: is there already", hint="name another file, or replace it with --force")
