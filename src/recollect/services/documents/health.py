"""What needs looking after, part by part; each with a command to type and, where there is one, a button."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from msgspec import Struct

from recollect.model.findings import Finding
from recollect.services.documents.changes import RecentChangeDocument, RequestDocument

ScanState = Literal["unknown", "running", "done", "failed"]


class ExpiringSessionDocument(Struct, frozen=True):
    """A session that the client is about to delete."""

    session: str
    title: str
    expires_at: dt.datetime
    is_archived: bool


class ExpiringDocument(Struct, frozen=True, kw_only=True):
    """Sessions that the client deletes soon."""

    within_days: int
    sessions: list[ExpiringSessionDocument]
    total: int
    not_archived: int
    command: str | None
    action: RequestDocument | None


class NotArchivedDocument(Struct, frozen=True):
    """Sessions that only the client has."""

    total: int
    bytes: int
    command: str
    action: RequestDocument | None


class DamagedSessionDocument(Struct, frozen=True):
    """A session with lines that cannot be read."""

    session: str
    title: str
    lines: int


class DamagedDocument(Struct, frozen=True, kw_only=True):
    """Sessions with damage; complete where all of them were read."""

    sessions: list[DamagedSessionDocument]
    total: int
    is_complete: bool
    command: str
    action: RequestDocument | None


class OldSessionsDocument(Struct, frozen=True, kw_only=True):
    """Sessions that were not worked on for long."""

    before_days: int
    total: int
    bytes: int
    note: str
    command: str
    action: RequestDocument | None


class HomeFindingsDocument(Struct, frozen=True):
    """What is wrong with the homes as a whole."""

    findings: list[Finding]


class SecretKindDocument(Struct, frozen=True):
    """Secrets of one kind: how many, in how many places, in which sessions."""

    kind: str
    secrets: int
    places: int
    sessions: list[str]


class SecretsDocument(Struct, frozen=True, kw_only=True):
    """How far the search for secrets is, and what it found; never a value."""

    state: ScanState
    done: int
    total: int
    problem: str | None
    by_kind: list[SecretKindDocument]
    total_secrets: int | None
    command: str
    action: RequestDocument | None


class HealthDocument(Struct, frozen=True, kw_only=True):
    """What needs looking after."""

    expiring: ExpiringDocument
    not_archived: NotArchivedDocument
    damaged: DamagedDocument
    old: OldSessionsDocument
    homes: HomeFindingsDocument
    secrets: SecretsDocument
    changes: list[RecentChangeDocument]
