"""Step 1: a log in the flat or events dialect becomes a session that Claude Code resumes.

The log is rewritten where the client looks for it: named by a UUID, in the directory of the working
directory it is to be resumed in. Flat logs do not say where they were made; another session of the same
project directory does, or the caller.
"""

from __future__ import annotations

from recollect.errors import UsageError
from recollect.model.convert import flat_to_claude
from recollect.model.damage import Damage
from recollect.model.entry import Assistant, Dialect, Entry, ToolCallBody, ToolResultBody, User
from recollect.model.ids import SessionId
from recollect.model.made_ids import derived_uuid
from recollect.model.project_key import project_key
from recollect.storage.changes.plan import FileState
from recollect.storage.home import ClaudeHome, ProjectDir, SessionFile
from recollect.storage.logs.reader import LogReader
from recollect.storage.migrations.migration import Migration, change_for, told, whole_entries


def planned(home: ClaudeHome, log: SessionFile, cwd: str | None) -> Migration | None:
    """Rewrite a log whose conversation is in another dialect."""
    session = log.path.stem
    seen = FileState.at(log.path)
    items = whole_entries(log.path, session)
    dialects = {item.dialect for item in items if _is_spoken(item) and isinstance(item, Entry)}
    if not dialects or dialects == {Dialect.CLAUDE}:
        return None
    if Dialect.CLAUDE in dialects:
        raise UsageError(
            f"session {session}: it holds lines of several dialects",
            hint="nothing was changed; `recollect export` writes out what can be read",
        )
    where = cwd or _cwd_of(home, log)
    name = log.id if log.id is not None and log.is_uuid else SessionId(derived_uuid(session, 0))
    made = flat_to_claude(items, session_id=str(name), cwd=where)
    target = home.session_log(project_key(where), name)
    change = change_for(home, session)
    data = b"".join(line + b"\n" for line in made.lines)
    if target == log.path:
        change.replace(target, data, expected=seen, mtime_ns=seen.mtime_ns)
    else:
        change.create(target, data, mtime_ns=seen.mtime_ns)
        change.remove(log.path, expected=seen)
    notes = () if target == log.path else (f"the session becomes {target.parent.name}/{target.name}",)
    return Migration(
        session,
        log.path,
        change,
        told(items),
        lambda: told(LogReader(target)),
        target,
        made.losses,
        notes,
    )


def _is_spoken(item: Entry | Damage) -> bool:
    return isinstance(item, Entry) and isinstance(item.body, User | Assistant | ToolCallBody | ToolResultBody)


def _cwd_of(home: ClaudeHome, log: SessionFile) -> str:
    """The working directory by which the client finds this project directory."""
    directory = log.path.parent
    for other in home.sessions(ProjectDir(None, directory.name, directory)):
        cwd = other.first_cwd()
        if cwd is not None and project_key(cwd) == directory.name:
            return cwd
    raise UsageError(
        f"session {log.path.stem}: nothing says in which directory it worked",
        hint="nothing was changed; name the directory with --cwd DIR",
    )
