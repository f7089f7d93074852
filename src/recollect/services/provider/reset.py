"""Move sessions of a store to its trash and back, each with its sub-agents and todos.

Every session is a batch of its own. Nothing is deleted (law 3).
"""

from __future__ import annotations

from recollect.storage.home import ClaudeHome
from recollect.storage.logs.session_writers import SessionWriters
from recollect.storage.store import Store, StoredSession, TrashedSession
from recollect.system import fsops
from recollect.system.refusals import as_storage_error


def to_trash(
    store: Store, home: ClaudeHome, writers: SessionWriters, session: StoredSession
) -> TrashedSession:
    """Close a session's logs and move it to the trash, then its todos."""
    side = store.paths.session_dir(session.key, session.id)
    writers.close(lambda path: path == session.path or side in path.parents)
    trashed = store.delete(session.id)
    for todo in [todo for todo in home.todos() if todo.session == session.id]:
        with as_storage_error("move to the trash", todo.path):
            fsops.move(todo.path, store.paths.trashed(todo.path, trashed.batch))
    return trashed


def from_trash(store: Store, home: ClaudeHome, batch: str) -> StoredSession:
    """Restore a session from the trash, then its todos."""
    found = store.restore(batch)
    trashed = store.paths.trashed(home.todos_dir, batch)
    for source in sorted(trashed.glob("*.json")):
        with as_storage_error("restore", source):
            fsops.move(source, home.todos_dir / source.name)
    return found
