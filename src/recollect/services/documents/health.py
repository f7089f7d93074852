"""What needs attention, section by section, with a command to type and, if there is one, a button."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from msgspec import Struct

from recollect.model.findings import Finding
from recollect.services.documents.changes.change import RequestDocument
from recollect.services.documents.changes.undo import RecentChangeDocument

ScanState = Literal["unknown", "running", "done", "failed"]


class ExpiringSessionDocument(Struct, frozen=True):
    """A session that the client will soon delete."""

    session: str
    title: str
    expires_at: dt.datetime
    is_archived: bool


class ExpiringDocument(Struct, frozen=True, kw_only=True):
    """Sessions that the client will soon delete."""

    within_days: int
    sessions: list[ExpiringSessionDocument]
    total: int
    not_archived: int
    command: str | None
    action: RequestDocument | None


class NotArchivedDocument(Struct, frozen=True):
    """Sessions that are not in the archive."""

    total: int
    bytes: int
    command: str
    action: RequestDocument | None


class DamagedSessionDocument(Struct, frozen=True):
    """A session with damaged lines."""

    session: str
    title: str
    lines: int


class DamagedDocument(Struct, frozen=True, kw_only=True):
    """Sessions with damage; ``complete`` if all logs were read."""

    sessions: list[DamagedSessionDocument]
    total: int
    is_complete: bool
    command: str
    action: RequestDocument | None


class OldSessionsDocument(Struct, frozen=True, kw_only=True):
    """Sessions without recent activity."""

    before_days: int
    total: int
    bytes: int
    note: str
    command: str
    action: RequestDocument | None


class HomeFindingsDocument(Struct, frozen=True):
    """Findings about the homes themselves."""

    findings: list[Finding]


class SecretKindDocument(Struct, frozen=True):
    """Secrets of one kind: how many, in how many places, in which sessions."""

    kind: str
    secrets: int
    places: int
    sessions: list[str]


class SecretsDocument(Struct, frozen=True, kw_only=True):
    """Progress and result of the search for secrets, without values."""

    state: ScanState
    done: int
    total: int
    problem: str | None
    by_kind: list[SecretKindDocument]
    total_secrets: int | None
    command: str
    action: RequestDocument | None


class HealthDocument(Struct, frozen=True, kw_only=True):
    """What needs attention."""

    expiring: ExpiringDocument
    not_archived: NotArchivedDocument
    damaged: DamagedDocument
    old: OldSessionsDocument
    homes: HomeFindingsDocument
    secrets: SecretsDocument
    changes: list[RecentChangeDocument]
