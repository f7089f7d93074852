"""The document of ``overview --json``."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct, structs

from recollect.model.cost.money import exact
from recollect.model.findings import Finding
from recollect.services.archive.expiry import ExpirySummary
from recollect.services.cost.recent import RecentCosts
from recollect.services.overview import HomeSummary, Overview, SessionSummary


class RecentCostsDocument(Struct, frozen=True):
    """Exact dollars of the last days."""

    today: str
    last_7_days: str
    last_30_days: str
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


class OverviewDocument(Struct, frozen=True, kw_only=True):
    """Homes, sessions, costs, damage."""

    sample: bool
    homes: tuple[HomeSummary, ...]
    projects: int
    sessions: int
    agents: int
    bytes: int
    cost: RecentCostsDocument
    newest: tuple[SessionSummary, ...]
    damage: DamageSummaryDocument
    problems: tuple[str, ...]
    expiring: ExpirySummary
    findings: tuple[Finding, ...]


def overview_document(answer: Overview, spent: RecentCosts, *, is_sample: bool) -> OverviewDocument:
    cost = RecentCostsDocument(
        exact(spent.today),
        exact(spent.last_7_days),
        exact(spent.last_30_days),
        spent.unpriced,
        spent.uncertain,
    )
    damage = msgspec.convert(answer.damage, DamageSummaryDocument, from_attributes=True)
    members = structs.asdict(answer) | {"damage": damage}
    return OverviewDocument(sample=is_sample, cost=cost, **members)
