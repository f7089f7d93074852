"""What `history --by project --json` and `plans --json` print."""

from __future__ import annotations

from msgspec import Struct

from recollect.services.history import PlanDocument, TypedProject


class TypedProjectsDocument(Struct, frozen=True):
    """What ``history --by project --json`` prints."""

    projects: list[TypedProject]


class PlansDocument(Struct, frozen=True):
    """What ``plans --json`` prints."""

    plans: list[PlanDocument]
    total: int
