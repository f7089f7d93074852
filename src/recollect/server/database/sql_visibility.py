"""Who sees which session, as SQL: the only place that decides it."""

from __future__ import annotations

from recollect.server.database.records import ORGANISATION, PRIVATE, TEAM, SessionReader

_CHOSEN = "coalesce(sessions.visibility, (SELECT orgs.visibility FROM orgs WHERE orgs.id = sessions.org))"
_COLLEAGUE = (
    "EXISTS (SELECT 1 FROM team_members AS mine JOIN team_members AS theirs ON theirs.team = mine.team"
    " WHERE mine.user_id = {user} AND theirs.user_id = sessions.user_id)"
)


def seen_by(reader: SessionReader, user: str) -> str:
    """Whether a row of ``sessions`` is visible; ``user`` is the parameter with the reader's id."""
    own = f"sessions.user_id = {user}"
    if not reader.others:
        return own
    return (
        f"({own} OR {_CHOSEN} = '{ORGANISATION}'"
        f" OR ({_CHOSEN} = '{TEAM}' AND {_COLLEAGUE.format(user=user)}))"
    )


def named_to(user: str) -> str:
    """Whether the project and repository of a row of ``sessions`` may be told: all but those of private sessions."""
    return f"(sessions.user_id = {user} OR {_CHOSEN} <> '{PRIVATE}')"
