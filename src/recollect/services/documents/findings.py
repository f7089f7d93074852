"""What is wrong with sessions, and what a repair does about it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from recollect.model.findings import Finding, Severity
from recollect.model.repair.draft import RepairAction, SetAsideBytes
from recollect.services.check.check import CheckSummary
from recollect.services.documents.changes import RequestDocument
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
    """How large the log is before and after; ``saved`` by slimming, by kind."""

    before: int
    kept: int
    set_aside: int
    after: int
    saved: dict[str, int]


class RepairProofDocument(Struct, frozen=True, kw_only=True):
    """What was shown of the result; it holds where there are no problems."""

    holds: bool
    messages_before: int
    messages_sent: int
    history_before: int
    history_after: int
    gained: tuple[str, ...]
    problems: tuple[str, ...]


class RepairPlanDocument(Struct, frozen=True, kw_only=True):
    """A repair to be made. ``refusal`` says why there is none although something could be mended."""

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
    """What ``repair --json`` prints: the plan, which findings it mends and leaves, and what came of it."""

    mends: tuple[Finding, ...]
    left: tuple[Finding, ...]
    in_place: bool
    applied: bool
    new: str | None
    result: str | None
    quarantine: str | None
    undo: str | None


class PageRepairPlanDocument(RepairPlanDocument, frozen=True, kw_only=True):
    """A repair to be made, for the page; of very many actions the first."""

    is_needed: bool
    actions_total: int


class PageRepairDocument(PageRepairPlanDocument, frozen=True, kw_only=True):
    """A repair, planned or made."""

    in_place: bool
    slim: bool
    new: str | None = None
    result: str | None = None
    quarantine: str | None = None
    applied: bool = False
    undo: str | None = None
    undo_request: RequestDocument | None = None


class FindingsDocument(Struct, frozen=True):
    """What is wrong with a session; of very many findings the first. ``repair`` is null where none can be made."""

    findings: list[Finding]
    total: int
    summary: CheckSummary
    repair: PageRepairPlanDocument | None


def repair_members(plan: RepairPlan) -> dict[str, Any]:
    """The members of a plan's document, with every action."""
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
    """The members of a plan's document for the page."""
    mending = plan.mending
    return repair_members(plan) | {
        "actions": mending.actions[:_ACTIONS],
        "set_aside": mending.set_aside[:_ACTIONS],
        "is_needed": plan.is_needed,
        "actions_total": len(mending.actions),
    }
