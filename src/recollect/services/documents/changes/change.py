"""A plan, or what was done: the parts that the documents of all changes share."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType


class RequestDocument(Struct, frozen=True):
    """What a button of the page posts."""

    path: str
    body: dict[str, Any]


class ChangeDocument(Struct, frozen=True, kw_only=True):
    """A plan, or with ``applied`` what was done. ``undo`` is a command to type; the page also gets a request."""

    applied: bool
    undo: str | None
    undo_request: RequestDocument | UnsetType | None = UNSET


class ChangeStepDocument(Struct, frozen=True):
    """One file of a change."""

    kind: str
    path: str
