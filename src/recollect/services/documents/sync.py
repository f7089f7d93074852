"""What ``sync --json`` prints."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from recollect.services.sync.install import InstalledSession, InstallPlan
from recollect.services.sync.pull import PullResult


class SyncLoginDocument(Struct, frozen=True, kw_only=True):
    """A login that was saved; the person and the scopes are null for a directory."""

    address: str
    machine: str
    organization: str | None
    person: str | None
    scopes: Sequence[str] | None
    file: str


class RotatedTokenDocument(Struct, frozen=True, kw_only=True):
    """The token was replaced, and the new one saved. Times in milliseconds; null is never."""

    address: str
    expires: int | None
    old_until: int | None
    file: str


class PullDocument(Struct, frozen=True, kw_only=True):
    """What was fetched. ``into_home`` and ``left`` come with ``--into-home``: what goes there, and what cannot."""

    sessions: list[str]
    lines: int
    bytes: int
    files: int
    moved: list[tuple[str, str]]
    problems: list[tuple[str, str]]
    store: str
    into_home: list[InstalledSession] | None
    left: list[tuple[str, str]] | None
    applied: bool


class WaitingSessionDocument(Struct, frozen=True):
    """A session with bytes that were not sent yet."""

    session: str
    bytes: int


class SyncStatusDocument(Struct, frozen=True, kw_only=True):
    """Where sessions are sent to, and what waits."""

    address: str
    machine: str
    redact: bool
    encrypt: bool
    token_expires: int | None
    waiting: list[WaitingSessionDocument]
    sent_logs: int
    pulled_sessions: int
    problems: list[tuple[str, str]]


class OrganizationsDocument(Struct, frozen=True):
    """The organisations of a team server; ``clusters``: where each is, by its id, if there is more than one database."""

    orgs: Sequence[Struct]
    clusters: dict[str, str] = {}


class RetentionDocument(Struct, frozen=True):
    """How long an organisation keeps sessions, its audit log, and what is known of each response; null is forever."""

    org: str
    retention_days: int | None
    audit_days: int | None = None
    usage_days: int | None = None


class TeamsDocument(Struct, frozen=True):
    """The teams of an organisation, with the ids of their members."""

    teams: Sequence[Struct]


class MembersDocument(Struct, frozen=True):
    """The members of an organisation."""

    users: Sequence[Struct]


class PersonArchiveDocument(Struct, frozen=True):
    """Where all that is held of a person was written."""

    user: str
    file: str
    bytes: int


class ApiTokensDocument(Struct, frozen=True):
    """The tokens of an organisation, without their secrets."""

    tokens: Sequence[Struct]


class NewTokenDocument(Struct, frozen=True):
    """A new token; its secret is shown this once."""

    id: str
    token: str
    scopes: list[str]
    expires: int | None


class RevokedTokenDocument(Struct, frozen=True):
    """The id of a token that is no longer valid."""

    revoked: str


class AuditDocument(Struct, frozen=True):
    """What was done on the server, newest first."""

    acts: Sequence[Struct]


def pull_document(
    done: PullResult, store: str, planned: InstallPlan | None, *, applied: bool
) -> PullDocument:
    return PullDocument(
        sessions=done.sessions,
        lines=done.lines,
        bytes=done.bytes,
        files=done.files,
        moved=done.moved,
        problems=done.problems,
        store=store,
        into_home=None if planned is None else planned.sessions,
        left=None if planned is None else planned.left,
        applied=applied and planned is not None,
    )
