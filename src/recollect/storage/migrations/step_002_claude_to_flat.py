"""Step 2: a session of Claude Code becomes a log in the flat dialect, in the same place.

The dialect is one conversation in file order, so a session with several branches, or with
sub-agents among its lines, is refused rather than cut down. The client resumes no flat log.
"""

from __future__ import annotations

from recollect.errors import UsageError
from recollect.model.convert import claude_to_flat
from recollect.model.convert.loss import Loss, LossCode
from recollect.model.entry import Assistant, Dialect, Entry, ToolCallBody, ToolResultBody, User
from recollect.storage.changes.plan import FileState
from recollect.storage.home import ClaudeHome, SessionFile
from recollect.storage.logs.reader import LogReader
from recollect.storage.migrations.migration import Migration, change_for, told, whole_entries

_REFUSED = {
    LossCode.BRANCHES: ("it has several branches", "`recollect fork` makes a session of one of them"),
    LossCode.SIDECHAIN: ("sub-agents are among its lines", "migrate it to side-chains-to-agent-files first"),
}


def planned(home: ClaudeHome, log: SessionFile, cwd: str | None) -> Migration | None:
    """Rewrite a log; every loss is said."""
    del cwd  # the dialect has no place for it
    session = log.path.stem
    seen = FileState.at(log.path)
    items = whole_entries(log.path, session)
    spoken = (User, Assistant, ToolCallBody, ToolResultBody)
    dialects = {item.dialect for item in items if isinstance(item, Entry) and isinstance(item.body, spoken)}
    if Dialect.CLAUDE not in dialects:
        return None
    made = claude_to_flat(items)
    _refuse_cuts(session, made.losses)
    change = change_for(home, session)
    data = b"".join(line + b"\n" for line in made.lines)
    change.replace(log.path, data, expected=seen, mtime_ns=seen.mtime_ns)
    return Migration(
        session,
        log.path,
        change,
        told(items),
        lambda: told(LogReader(log.path)),
        log.path,
        made.losses,
        ("the client does not resume flat logs; roll back, or migrate to flat-to-claude",),
    )


def _refuse_cuts(session: str, losses: list[Loss]) -> None:
    for loss in losses:
        if loss.code in _REFUSED:
            why, hint = _REFUSED[loss.code]
            raise UsageError(f"session {session}: {why}", hint=f"nothing was changed; {hint}")
