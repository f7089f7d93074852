"""Write one version of a file into a directory. Checked before anything is promised; `recollect undo` takes it back.

Only the file's own name below that directory is written, never through a link. The bytes that were there are kept in
the journal.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType

from recollect.errors import NotFound, UsageError
from recollect.model.files.history import FileVersion
from recollect.services.documents.changes.change import RequestDocument
from recollect.services.documents.changes.files import FileRestorationDocument
from recollect.services.home_guard import refuse_agent_home
from recollect.services.undo import journal_at
from recollect.storage.changes.journal import ChangePlan
from recollect.storage.changes.plan import seen_or_none
from recollect.storage.file_backups import own_name, restorable
from recollect.system import fsops, openat
from recollect.system.peek import open_regular


class FileRestorePlan(Struct):
    """What a restoration would do. ``plan`` is None where the file is there with the same bytes."""

    target: Path
    bytes: int
    in_the_way: bool
    plan: ChangePlan | None


def planned_restoration(
    version: FileVersion, directory: Path, session: str, *, overwrite: bool
) -> FileRestorePlan:
    """Plan it; refused where it could not be carried out. ``in_the_way``: another file has the name."""
    data = restorable(version)
    if not directory.is_absolute():
        raise UsageError(
            f"directory {str(directory)!a}: not an absolute path",
            hint="write it from the root, for example /home/me/out",
        )
    refuse_agent_home(directory, "--to DIR")
    _require_writable(directory)
    (name,) = openat.components(own_name(version.path))
    target = Path(os.path.realpath(directory), name)
    found = seen_or_none(target)
    if found is not None and not stat.S_ISREG(found.mode):
        raise UsageError(
            f"{target}: there is a directory or a link of this name, which is never written through",
            hint="choose another directory; nothing was written",
        )
    if found is not None and found.size == len(data) and _bytes_at(target) == data:
        return FileRestorePlan(target, len(data), False, None)
    plan = ChangePlan("restore", session, target.parent)
    if found is None:
        plan.create(target, data, mode=fsops.usual_mode())
    elif overwrite:
        plan.replace(target, data, expected=found)
    return FileRestorePlan(target, len(data), found is not None, plan)


def restored(found: FileRestorePlan, data: Path) -> str | None:
    """Carry it out; gives the id of the change, None where there was nothing to do."""
    if found.plan is None:
        return None
    if not found.plan.steps:
        raise UsageError(
            f"{found.target}: a file is already there; it was not changed",
            hint="choose another place, or allow overwriting",
        )
    return journal_at(data).apply(found.plan).id


def restoration_document(
    found: FileRestorePlan,
    session: str,
    path: str,
    version: int,
    *,
    applied: bool,
    undo: str | None,
    undo_request: RequestDocument | UnsetType | None = UNSET,
) -> FileRestorationDocument:
    """The plan or what was done, for the command and the page."""
    return FileRestorationDocument(
        session=session,
        path=path,
        version=version,
        to=str(found.target),
        bytes=found.bytes,
        in_the_way=found.in_the_way,
        is_there=found.plan is None,
        applied=applied,
        undo=undo,
        undo_request=undo_request,
    )


def _require_writable(directory: Path) -> None:
    if not directory.is_dir():
        raise NotFound(f"no directory at {directory}", hint="create it first; nothing was written")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise UsageError(
            f"directory {directory}: you may not write there", hint="choose another one; nothing was written"
        )


def _bytes_at(path: Path) -> bytes:
    with open_regular(path) as opened:
        return opened.read()
