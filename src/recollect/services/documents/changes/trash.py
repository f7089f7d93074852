"""Sessions that are removed, listed, restored, or deleted for good."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from recollect.services.documents.changes.change import ChangeDocument
from recollect.services.trash import RemovalPlan
from recollect.storage.trash import TrashBatch


class RemovalDocument(ChangeDocument, frozen=True, kw_only=True):
    """A session that moves to the trash."""

    session: str
    title: str
    items: list[str]
    bytes: int
    open_in: int | None
    batch: str | None


class TrashRestorationDocument(ChangeDocument, frozen=True, kw_only=True):
    """What is restored from the trash, and the existing files that prevent it."""

    batch: str
    session: str
    restored: list[str]
    obstacles: list[str]


class RemovedSessionDocument(Struct, frozen=True, kw_only=True):
    """A session of ``rm``: what moves to the trash, and the batch it became."""

    session: str
    title: str
    paths: Sequence[Path]
    bytes: int
    open_in: int | None
    batch: str | None


class RemovalsDocument(Struct, frozen=True):
    """What ``rm --json`` prints; ``undo`` holds commands."""

    sessions: list[RemovedSessionDocument]
    applied: bool
    undo: list[str]


class TrashBatchDocument(Struct, frozen=True, kw_only=True):
    """One removal in the trash."""

    batch: str
    session: str
    title: str
    home: str
    at: str
    bytes: int
    paths: Sequence[Path]


class TrashDocument(Struct, frozen=True):
    """What ``trash list --json`` and ``rm --list --json`` print."""

    batches: list[TrashBatchDocument]
    total: int


class RestoredBatchDocument(Struct, frozen=True, kw_only=True):
    """What ``trash restore --json`` prints; ``obstacles`` are existing files that prevent it."""

    batch: str
    session: str
    paths: Sequence[Path]
    obstacles: Sequence[Path]
    applied: bool
    undo: str


class EmptiedBatchDocument(Struct, frozen=True):
    """A batch that is deleted for good."""

    batch: str
    session: str
    bytes: int


class EmptiedTrashDocument(Struct, frozen=True):
    """What ``trash empty --json`` prints; ``kept`` are old batches whose session is not archived."""

    batches: list[EmptiedBatchDocument]
    kept: list[str]
    applied: bool


def removals_document(
    planned: Sequence[RemovalPlan], batches: Sequence[str], undo: list[str]
) -> RemovalsDocument:
    """``batches`` are the removals that were carried out, in the order of the plan."""
    names = [*batches, *[None] * (len(planned) - len(batches))]
    rows = [
        RemovedSessionDocument(
            session=plan.session,
            title=plan.title,
            paths=plan.items,
            bytes=plan.bytes,
            open_in=plan.open_in,
            batch=batch,
        )
        for plan, batch in zip(planned, names, strict=True)
    ]
    return RemovalsDocument(rows, len(batches) == len(planned), undo)


def trash_document(batches: Sequence[TrashBatch]) -> TrashDocument:
    rows = [
        TrashBatchDocument(
            batch=one.batch,
            session=one.session,
            title=one.title,
            home=one.home,
            at=one.at,
            bytes=one.bytes,
            paths=one.targets(),
        )
        for one in batches
    ]
    return TrashDocument(rows, len(rows))
