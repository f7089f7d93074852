"""What the page learns about itself: user, homes, index, errors."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

IndexState = Literal["ready", "building", "none"]


class ErrorDocument(Struct, frozen=True):
    """What went wrong and what to do. ``sign_in``: signing in with a token would help."""

    error: str
    hint: str
    sign_in: bool | UnsetType = UNSET


class LoginDocument(Struct, frozen=True):
    """The token that every change must be sent with."""

    token: str


class SignInDocument(Struct, frozen=True):
    """Whether members can sign in at an identity provider. ``organisation``: where there is only one."""

    is_offered: bool
    organisation: str | None


class SignedOutDocument(Struct, frozen=True):
    """The session has ended, and its cookie was removed."""

    signed_out: bool


class ServedHomeDocument(Struct, frozen=True):
    """A home that the page shows."""

    path: str
    exists: bool


class IndexStateDocument(Struct, frozen=True):
    """Whether the index can be queried."""

    state: IndexState


class IndexProgressDocument(IndexStateDocument, frozen=True):
    """Whether the index can be queried, and the progress of a build."""

    done: int
    total: int
    refreshed_at: dt.datetime | None
    notes: list[str]


class MemberDocument(Struct, frozen=True, kw_only=True):
    """A member of a team. ``sealed`` and ``left_out`` count sessions that the page cannot show. ``ends``: of this session, in
    milliseconds; ``token_ends``: of the token it was opened with, where that is soon. ``not_current_since``: the server's database does
    not answer, and this is from when it last did."""

    name: str
    role: str
    organization: str
    sealed: int
    left_out: int
    not_current_since: dt.datetime | None
    ends: int | None
    token_ends: int | None


class MeDocument(Struct, frozen=True, kw_only=True):
    """What the page needs at start. ``is_remembered``: address and cookie outlive the server (``web --remember``)."""

    token: str
    version: str
    homes: list[ServedHomeDocument]
    is_sample: bool
    index: IndexProgressDocument
    exports: list[str]
    is_remembered: bool = False
    is_read_only: bool | UnsetType = UNSET
    member: MemberDocument | UnsetType = UNSET


class AddressDocument(Struct, frozen=True):
    """What ``web --json`` prints. The address works once."""

    url: str
    port: int
    host: str


class PinDocument(Struct, frozen=True):
    """A pinned message of a session, and how it begins."""

    session: str
    uuid: str
    at: dt.datetime
    text: str


class MarksDocument(Struct, frozen=True):
    """What was starred and pinned: recollect's own metadata, not the client's."""

    stars: list[str]
    pins: list[PinDocument]


# ---- files -----------------------------------------------------------------------------------------------


class DirectoryDocument(Struct, frozen=True, kw_only=True):
    """A directory of this machine and those in it, without hidden ones. ``parent`` is null at the root."""

    path: str
    parent: str | None
    directories: list[str]
    total: int
    is_writable: bool


class RecentEditDocument(Struct, frozen=True, kw_only=True):
    """One write or edit of a file. ``uuid`` is the line that reports it, as in the versions of the file."""

    session: str
    title: str
    project: str
    cwd: str
    agent: str | None
    path: str
    tool: str
    at: dt.datetime | None
    uuid: str | None
    added: int
    removed: int


class RecentEditsDocument(Struct, frozen=True, kw_only=True):
    """Edits of all sessions, newest first. ``next``: where to continue; null at the end.

    ``total`` counts all edits of the project; ``looked``: among how many of them a text was looked for.
    """

    edits: list[RecentEditDocument]
    total: int
    looked: int
    next: int | None
