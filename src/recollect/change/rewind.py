"""Undo the file changes of a whole turn: every file becomes what it was before a prompt.

Like the client's ``--rewind-files``, this undoes the turn of that prompt and every later one. Backups count
first; a file without one returns to the content that the session's own reads and writes report before its
first change. What a shell command changed is undone only where a backup or a later read shows it.

The changed files are those of the project, so paths from the log are only followed inside the session's
directory, and never through links. A file whose earlier bytes are not known exactly is left as it is, with
the reason. All of it is one change of the journal (``recollect undo`` takes it back).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from recollect.ask.sessions.home_guard import refuse_agent_home
from recollect.ask.sessions.session import Session
from recollect.change.undo import ChangeDocument, journal_at
from recollect.errors import Ambiguous, NotFound, UsageError
from recollect.model.files.history import FileVersion, VersionSource, file_versions, rewound
from recollect.model.lines.entry import Entry
from recollect.model.text.titles import typed_prompt
from recollect.store.changes.journal import ChangePlan
from recollect.store.changes.plan import FileState, seen_or_none
from recollect.store.file_backups import body_reader, own_name, restorable, session_entries
from recollect.system import fsops, openat
from recollect.system.peek import open_regular

_CHANGES = (VersionSource.WRITE, VersionSource.EDIT)
Action = Literal["write", "remove", "leave"]


class RewoundFile(Struct, frozen=True):
    """One file: what is done with it, and for ``leave`` the reason."""

    path: str
    action: Action
    bytes: int | None = None
    why: str = ""


class RewindReport(Struct, frozen=True, kw_only=True):
    """The file changes of a turn and all later ones, undone. ``prompt`` is the prompt of that turn, ``text`` what it says.

    ``undo`` is the change, in JSON a command; None for a plan, and where there was nothing to do.
    """

    applied: bool = False
    undo: str | None = None
    session: str
    prompt: str
    text: str
    files: tuple[RewoundFile, ...]


def planned_rewind(session: Session, prompt: str | None = None) -> tuple[RewindReport, ChangePlan | None]:
    """Plan the rewind to a prompt, by its id or the start of it; without one, the last that changed files.

    There is no change where the files are as they were.
    """
    entries = list(session_entries(session.home, session.file))
    root = Path(session.cwd)
    if not session.cwd or not root.is_dir():
        raise NotFound(
            f"session {session.id}: its directory {session.cwd or '(unknown)'} does not exist",
            hint="`recollect files S --restore PATH` writes one version elsewhere",
        )
    body_of = body_reader(session.home, session.file)
    versions = file_versions(entries, session.cwd, body_of=body_of)
    position = _position(session, entries, versions, prompt)
    since = {entry.uuid for entry in entries[position:]}
    states = {
        path: found[first - 1]
        for path, found in versions.items()
        if (first := _first_change(found, since)) > 0
    }
    states |= rewound(entries, entries[position].uuid or "", session.cwd, body_of=body_of)
    plan = ChangePlan("rewind", session.id, root)
    files = [_planned(plan, path, state) for path, state in sorted(states.items())]
    chosen = entries[position]
    shown = [one for one in files if one is not None]
    has_steps = any(one.action != "leave" for one in shown)
    report = RewindReport(
        session=session.id,
        prompt=chosen.uuid or "",
        text=typed_prompt(chosen) or "",
        files=tuple(shown),
    )
    return report, plan if has_steps else None


def rewind(session: Session, prompt: str | None, data: Path) -> RewindReport:
    """Rewind to a prompt; the journal in ``data`` keeps what the files were."""
    report, plan = planned_rewind(session, prompt)
    change = None if plan is None else journal_at(data).apply(plan)
    return report if change is None else structs.replace(report, applied=True, undo=change.id)


def _position(
    session: Session,
    entries: Sequence[Entry],
    versions: Mapping[str, Sequence[FileVersion]],
    prompt: str | None,
) -> int:
    """Where the prompt stands among the entries."""
    prompts = [at for at, entry in enumerate(entries) if _is_prompt(entry)]
    if prompt is not None:
        found = [at for at in prompts if prompt and (entries[at].uuid or "").startswith(prompt)]
        if len({entries[at].uuid for at in found}) > 1:
            raise Ambiguous("prompt", prompt, tuple(str(entries[at].uuid) for at in found))
    else:
        changing = {one.entry_uuid for found in versions.values() for one in found if one.source in _CHANGES}
        last = max((at for at, entry in enumerate(entries) if entry.uuid in changing - {None}), default=-1)
        found = [at for at in prompts if at < last][-1:]
    if not found:
        what = f"no prompt {prompt!a}" if prompt is not None else "no turn that changed files"
        raise NotFound(f"session {session.id}: {what}", hint="`recollect show S` shows the ids of prompts")
    return found[0]


def _is_prompt(entry: Entry) -> bool:
    chain = entry.chain
    return chain is not None and not chain.is_sidechain and typed_prompt(entry) is not None


def _first_change(versions: Sequence[FileVersion], since: set[str | None]) -> int:
    """The number of the first change since the prompt; 0 where there is none, or nothing before it is known."""
    changes: Iterator[int] = (
        number
        for number, version in enumerate(versions)
        if version.source in _CHANGES and version.entry_uuid in since
    )
    return next(changes, 0)


def _planned(plan: ChangePlan, path: str, state: FileVersion) -> RewoundFile | None:
    """Add what the file needs to the plan; None where it is already as it was."""
    file = Path(path)
    if not file.is_absolute() or plan.home not in file.parents or ".." in file.parts:
        return RewoundFile(path, "leave", why=f"not inside {plan.home}")
    try:
        now = _current(file)
        if not state.existed:
            return None if now is None else _removal(plan, file)
        if state.content is None:
            return RewoundFile(path, "leave", why="its earlier content is not recorded")
        data = state.content if isinstance(state.content, bytes) else _exact(state.content, now)
        if data is None:
            return RewoundFile(path, "leave", why="its line ends or encoding are not recorded")
        return None if data == now else _writing(plan, file, data, exists=now is not None)
    except UsageError as problem:
        return RewoundFile(path, "leave", why=problem.message)
    except OSError as problem:
        return RewoundFile(path, "leave", why=problem.strerror or "it cannot be read")


def _current(file: Path) -> bytes | None:
    try:
        with open_regular(file) as opened:
            return opened.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _exact(text: str, now: bytes | None) -> bytes | None:
    """The bytes of a reported text; None where the report may hide what they were (CRLF, byte-order mark)."""
    if now is not None and (b"\r\n" in now or now.startswith((b"\xef\xbb\xbf", b"\xff\xfe"))):
        return None
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None


def _removal(plan: ChangePlan, file: Path) -> RewoundFile:
    plan.remove(file)
    return RewoundFile(str(file), "remove")


def _writing(plan: ChangePlan, file: Path, data: bytes, *, exists: bool) -> RewoundFile:
    if exists:
        plan.replace(file, data, expected=FileState.at(file))
    else:
        plan.create(file, data, mode=0o644)
    return RewoundFile(str(file), "write", len(data))


class FileRestorationDocument(ChangeDocument, frozen=True, kw_only=True):
    """A version of a file, written into a directory.

    ``in_the_way``: another file has the name, and is replaced only if that is allowed. ``is_there``: the same bytes are.
    """

    session: str
    path: str
    version: int
    to: str
    bytes: int
    in_the_way: bool
    is_there: bool


def planned_restoration(
    version: FileVersion, directory: Path, session: str, number: int, *, overwrite: bool
) -> tuple[FileRestorationDocument, ChangePlan | None]:
    """Plan it; refused where it could not be carried out. There is no change where the same bytes are there."""
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
    document = FileRestorationDocument(
        session=session,
        path=version.path,
        version=number,
        to=str(target),
        bytes=len(data),
        in_the_way=False,
        is_there=False,
        applied=False,
        undo=None,
    )
    found = seen_or_none(target)
    if found is not None and not stat.S_ISREG(found.mode):
        raise UsageError(
            f"{target}: there is a directory or a link of this name, which is never written through",
            hint="choose another directory; nothing was written",
        )
    if found is not None and found.size == len(data) and _bytes_at(target) == data:
        return structs.replace(document, is_there=True), None
    plan = ChangePlan("restore", session, target.parent)
    if found is None:
        plan.create(target, data, mode=fsops.usual_mode())
    elif overwrite:
        plan.replace(target, data, expected=found)
    return structs.replace(document, in_the_way=found is not None), plan


def restore(found: FileRestorationDocument, plan: ChangePlan | None, data: Path) -> str | None:
    """Carry it out; gives the id of the change, None where there was nothing to do."""
    if plan is None:
        return None
    if not plan.steps:
        raise UsageError(
            f"{found.to}: a file is already there; it was not changed",
            hint="choose another place, or allow overwriting",
        )
    return journal_at(data).apply(plan).id


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
