"""The life of a session in our own store, as a state machine without a clock.

    created ──first entry──► active ──reopened──► resumed ──entry──► active
                               └──────── 30 days inactive ─────────┐
                                                                   ▼
                                          active again ◄─entry── expired ──► deleted (in the trash)
                                                                   ▲            │
                                                                   └─ restored ─┘

Inactivity is measured from the last *entry's* own time, never from the file's: a
copy, a backup or a touch must not keep a session alive or kill it (S11). A
deleted session is in the trash with every byte; restoring is the way back.
"""

from __future__ import annotations

import datetime as dt
import enum

from recollect.errors import IllegalTransition

DEFAULT_LIFE = dt.timedelta(days=30)


class SessionState(enum.StrEnum):
    """The state of a session."""

    CREATED = "created"
    ACTIVE = "active"
    RESUMED = "resumed"
    EXPIRED = "expired"
    DELETED = "deleted"


_OPEN = (SessionState.ACTIVE, SessionState.RESUMED)
_NEXT: dict[SessionState, tuple[SessionState, ...]] = {
    SessionState.CREATED: (SessionState.ACTIVE, SessionState.DELETED),
    **dict.fromkeys(_OPEN, (*_OPEN, SessionState.EXPIRED, SessionState.DELETED)),
    SessionState.EXPIRED: (*_OPEN, SessionState.DELETED),
    SessionState.DELETED: (SessionState.RESUMED, SessionState.EXPIRED),
}


def moved(current: SessionState, wanted: SessionState, session: str) -> SessionState:
    """The new state, or ``IllegalTransition`` with the allowed steps."""
    allowed = _NEXT[current]
    if wanted not in allowed:
        raise IllegalTransition(f"session {session}", current, wanted, tuple(allowed))
    return wanted


def has_expired(
    last_entry_at: dt.datetime | None, now: dt.datetime, life: dt.timedelta = DEFAULT_LIFE
) -> bool:
    """Whether a session has been inactive for longer than its life; one without a time never has."""
    return last_entry_at is not None and now - last_entry_at > life
