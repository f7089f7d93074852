"""Findings about sessions, and what a repair does about them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from recollect.model.findings import Finding, Severity
from recollect.model.repair.draft import RepairAction, SetAsideBytes
from recollect.services.check.check import CheckSummary
from recollect.services.documents.changes.change import RequestDocument
from recollect.services.repair.repair import RepairPlan

_ACTIONS = 500


class CheckRuleDocument(Struct, frozen=True):
    """A rule of the check."""

    code: str
    severity: Severity
    meaning: str


class CheckRulesDocument(Struct, frozen=True):
    """What ``check --codes --json`` prints."""

    codes: list[CheckRuleDocument]


class RepairBytesDocument(Struct, frozen=True, kw_only=True):
    """Size of the log before and after; ``saved`` by --slim, per kind."""

    before: int
    kept: int
    set_aside: int
    after: int
    saved: dict[str, int]


class RepairProofDocument(Struct, frozen=True, kw_only=True):
    """The checks of the repaired log; passed if there are no problems."""

    holds: bool
    messages_before: int
    messages_sent: int
    history_before: int
    history_after: int
    gained: tuple[str, ...]
    problems: tuple[str, ...]


class RepairPlanDocument(Struct, frozen=True, kw_only=True):
    """A planned repair. ``refusal`` says why it is refused although there is something to repair."""

    session: str
    path: str
    open_in: int | None
    refusal: tuple[str, ...]
    actions: tuple[RepairAction, ...]
    set_aside: tuple[SetAsideBytes, ...]
    notes: tuple[str, ...]
    bytes: RepairBytesDocument
    proof: RepairProofDocument


class RepairDocument(RepairPlanDocument, frozen=True, kw_only=True):
    """What ``repair --json`` prints: the plan, the findings it fixes and leaves, and the result."""

    mends: tuple[Finding, ...]
    left: tuple[Finding, ...]
    in_place: bool
    applied: bool
    new: str | None
    result: str | None
    quarantine: str | None
    undo: str | None


class PageRepairPlanDocument(RepairPlanDocument, frozen=True, kw_only=True):
    """A planned repair for the page; of very many actions only the first."""

    is_needed: bool
    actions_total: int


class PageRepairDocument(PageRepairPlanDocument, frozen=True, kw_only=True):
    """A repair, planned or carried out."""

    in_place: bool
    slim: bool
    new: str | None = None
    result: str | None = None
    quarantine: str | None = None
    applied: bool = False
    undo: str | None = None
    undo_request: RequestDocument | None = None


class FindingsDocument(Struct, frozen=True):
    """Findings of a session; of very many only the first. ``repair`` is null if none can be made."""

    findings: list[Finding]
    total: int
    summary: CheckSummary
    repair: PageRepairPlanDocument | None


def repair_members(plan: RepairPlan) -> dict[str, Any]:
    """Members of a plan's document, with every action."""
    mending = plan.mending
    return {
        "session": plan.session,
        "path": str(plan.path),
        "open_in": plan.open_in,
        "refusal": plan.diagnosis.refusal,
        "actions": mending.actions,
        "set_aside": mending.set_aside,
        "notes": mending.notes,
        "bytes": RepairBytesDocument(
            before=mending.bytes_before,
            kept=mending.bytes_kept,
            set_aside=mending.bytes_set_aside,
            after=mending.bytes_after,
            saved=plan.saved,
        ),
        "proof": msgspec.convert(mending.proof, RepairProofDocument, from_attributes=True),
    }


def page_repair_members(plan: RepairPlan) -> dict[str, Any]:
    """Members of a plan's document for the page."""
    mending = plan.mending
    return repair_members(plan) | {
        "actions": mending.actions[:_ACTIONS],
        "set_aside": mending.set_aside[:_ACTIONS],
        "is_needed": plan.is_needed,
        "actions_total": len(mending.actions),
    }
