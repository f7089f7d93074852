"""The document of ``overview --json``."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from recollect.model.cost.money import exact
from recollect.model.findings import Finding
from recollect.services.archive.expiry import ExpirySummary
from recollect.services.archive.protection import Protection
from recollect.services.cost.recent import RecentCosts
from recollect.services.list import ListedSession
from recollect.services.overview import HomeSummary, Overview, ResumeSummary


class RecentCostsDocument(Struct, frozen=True):
    """Exact dollars of the last days."""

    today: str
    last_7_days: str
    last_30_days: str
    all_time: str | None  # null without an index
    unpriced: tuple[str, ...]
    uncertain: int


class DamageSummaryDocument(Struct, frozen=True, kw_only=True):
    """Damaged lines in the logs that were read."""

    lines: int
    by_code: dict[str, int]
    logs: tuple[Path, ...]
    logs_checked: int
    bytes_checked: int
    bytes_total: int
    complete: bool


class SessionSummaryDocument(Struct, frozen=True):
    """One of the newest sessions."""

    id: str
    title: str
    cwd: str
    last_at: dt.datetime | None
    modified_at: dt.datetime
    bytes: int
    live: bool
    archived: bool = False


class OverviewDocument(Struct, frozen=True, kw_only=True):
    """Homes, sessions, costs, damage."""

    sample: bool
    homes: tuple[HomeSummary, ...]
    projects: int
    sessions: int
    agents: int
    bytes: int
    cost: RecentCostsDocument
    newest: tuple[SessionSummaryDocument, ...]
    damage: DamageSummaryDocument
    problems: tuple[str, ...]
    expiring: ExpirySummary
    findings: tuple[Finding, ...]
    protection: Protection | None
    resume: ResumeSummary | None


def overview_document(answer: Overview, spent: RecentCosts, *, is_sample: bool) -> OverviewDocument:
    cost = RecentCostsDocument(
        exact(spent.today),
        exact(spent.last_7_days),
        exact(spent.last_30_days),
        None if spent.all_time is None else exact(spent.all_time),
        spent.unpriced,
        spent.uncertain,
    )
    damage = msgspec.convert(answer.damage, DamageSummaryDocument, from_attributes=True)
    newest = tuple(map(_summary, answer.newest))
    members = structs.asdict(answer) | {"damage": damage, "newest": newest}
    return OverviewDocument(sample=is_sample, cost=cost, **members)


def _summary(one: ListedSession) -> SessionSummaryDocument:
    return SessionSummaryDocument(
        id=one.id,
        title=one.title,
        cwd=one.cwd,
        last_at=one.last_at,
        modified_at=one.modified_at,
        bytes=one.bytes,
        live=one.is_live,
        archived=one.is_archived,
    )
