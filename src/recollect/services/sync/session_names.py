"""A session of the remote by its id or by the beginning of one, as people read it in a list."""

from __future__ import annotations

from itertools import islice

from recollect.errors import Ambiguous, NotFound, UsageError
from recollect.model.ids import is_uuid
from recollect.sync.remote import Remote

SHORTEST = 4
_NAMED = 5


def session_named(remote: Remote, name: str) -> str:
    """The id of the one session that ``name`` fits; a whole id is not looked up."""
    if is_uuid(name):
        return name
    if len(name) < SHORTEST:
        raise UsageError(f"session {name!a}: too short", hint=f"give {SHORTEST} or more characters of its id")
    # A folder does not filter.
    found = (one.id for one in remote.sessions(id=name) if one.id.startswith(name))
    some = list(islice(found, _NAMED))
    if not some:
        raise NotFound(
            f"session {name}: not on the server",
            hint="it may have been deleted there, or is not shared with you; `recollect team list` shows those you see",
        )
    if len(some) == 1:
        return some[0]
    if remote.session(name) is not None:
        return name  # the others only begin with it
    raise Ambiguous("session", name, tuple(some))
