"""The report of ``export --json``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import UNSET, Struct, UnsetType

from recollect.model.convert.loss import Loss
from recollect.model.damage import Damage
from recollect.services.documents.conversation import DamageDocument, damage_document
from recollect.services.export.export import Redactor
from recollect.services.foreign.convert import ConvertPlan


class RedactedSecretDocument(Struct, frozen=True):
    """A secret that was replaced, without its value."""

    kind: str
    fingerprint: str


class ExportProblemDocument(Struct, frozen=True):
    """A session that was not exported, and why."""

    session: str
    problem: str


class ExportDocument(Struct, frozen=True, kw_only=True):
    """An export of a session, or of a project as pages."""

    session: str | UnsetType = UNSET
    project: str | UnsetType = UNSET
    format: str
    output: str
    bytes: int
    files: int | UnsetType = UNSET
    sessions: int | UnsetType = UNSET
    redacted: list[RedactedSecretDocument]
    losses: Sequence[Loss]
    findings: list[DamageDocument]
    problems: list[ExportProblemDocument] | UnsetType = UNSET


class ConvertDocument(Struct, frozen=True, kw_only=True):
    """A session of another client made out of one; ``losses`` is what cannot be carried."""

    session: str
    from_agent: str
    to_agent: str
    new: str
    path: str
    lines: int
    bytes: int
    losses: Sequence[Loss]
    applied: bool
    undo: str | None


def convert_document(plan: ConvertPlan, *, applied: bool, undo: str | None) -> ConvertDocument:
    return ConvertDocument(
        session=plan.session,
        from_agent=plan.from_agent,
        to_agent=plan.to_agent,
        new=plan.new,
        path=str(plan.path),
        lines=len(plan.lines),
        bytes=plan.bytes,
        losses=plan.losses,
        applied=applied,
        undo=undo,
    )


def redacted(redactor: Redactor | None) -> list[RedactedSecretDocument]:
    found = () if redactor is None else redactor.found
    return [RedactedSecretDocument(one.kind, one.fingerprint) for one in found]


def damages(found: Iterable[Damage]) -> list[DamageDocument]:
    return [damage_document(one) for one in found]
