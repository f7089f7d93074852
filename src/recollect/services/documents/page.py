"""What the page is told about itself: who may use it, what it serves, why it refuses."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

IndexState = Literal["ready", "building", "none"]


class ErrorDocument(Struct, frozen=True):
    """Why not, and what to do. ``sign_in``: a member's token would help."""

    error: str
    hint: str
    sign_in: bool | UnsetType = UNSET


class LoginDocument(Struct, frozen=True):
    """The token that changes have to be sent with."""

    token: str


class SignedOutDocument(Struct, frozen=True):
    """The cookie is forgotten."""

    signed_out: bool


class ServedHomeDocument(Struct, frozen=True):
    """A home that the page shows."""

    path: str
    exists: bool


class IndexStateDocument(Struct, frozen=True):
    """Whether the index can be asked."""

    state: IndexState


class IndexProgressDocument(IndexStateDocument, frozen=True):
    """Whether the index can be asked, and how far a build is."""

    done: int
    total: int
    refreshed_at: dt.datetime | None
    notes: list[str]


class ProgressDocument(Struct, frozen=True):
    """How much of something is done."""

    done: int
    total: int


class MemberDocument(Struct, frozen=True, kw_only=True):
    """A member of a team. ``sealed`` and ``left_out`` count sessions that the page cannot show."""

    name: str
    role: str
    organization: str
    sealed: int
    left_out: int
    filling: ProgressDocument | None


class MeDocument(Struct, frozen=True, kw_only=True):
    """What the page needs to know first."""

    token: str
    version: str
    homes: list[ServedHomeDocument]
    is_sample: bool
    index: IndexProgressDocument
    exports: list[str]
    is_read_only: bool | UnsetType = UNSET
    member: MemberDocument | UnsetType = UNSET
