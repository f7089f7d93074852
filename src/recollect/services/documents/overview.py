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
    """Exact dollars of the last days; null where no usage was recorded, or without an index ``all_time``."""

    today: str | None
    last_7_days: str | None
    last_30_days: str | None
    all_time: str | None
    unpriced: tuple[str, ...]
    uncertain: int
    unrecorded_sessions: int


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
    only_archived: int
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
    amounts = (spent.today, spent.last_7_days, spent.last_30_days, spent.all_time)
    today, week, month, whole = (
        None if amount is None or spent.is_unknown else exact(amount) for amount in amounts
    )
    cost = RecentCostsDocument(
        today,
        week,
        month,
        whole,
        spent.unpriced,
        spent.uncertain,
        spent.unrecorded_sessions,
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
