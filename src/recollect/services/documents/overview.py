"""What is here: the document of ``overview --json``."""

from __future__ import annotations

from msgspec import Struct

from recollect.model.cost.money import exact
from recollect.model.findings import Finding
from recollect.services.archive.archive import ExpirySummary
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
    """Lines that could not be read, in what was looked at."""

    lines: int
    by_code: dict[str, int]
    logs: list[str]
    logs_checked: int
    bytes_checked: int
    bytes_total: int
    complete: bool


class OverviewDocument(Struct, frozen=True, kw_only=True):
    """What is here."""

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
    """An overview and what was spent."""
    damage = answer.damage
    return OverviewDocument(
        sample=is_sample,
        homes=answer.homes,
        projects=answer.projects,
        sessions=answer.sessions,
        agents=answer.agents,
        bytes=answer.bytes,
        cost=RecentCostsDocument(
            exact(spent.today),
            exact(spent.last_7_days),
            exact(spent.last_30_days),
            spent.unpriced,
            spent.uncertain,
        ),
        newest=answer.newest,
        damage=DamageSummaryDocument(
            lines=damage.lines,
            by_code=damage.by_code,
            logs=[str(log) for log in damage.logs],
            logs_checked=damage.logs_checked,
            bytes_checked=damage.bytes_checked,
            bytes_total=damage.bytes_total,
            complete=damage.complete,
        ),
        problems=answer.problems,
        expiring=answer.expiring,
        findings=answer.findings,
    )
