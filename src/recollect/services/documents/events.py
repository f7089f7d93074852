"""Events of the page's streams. They say what changed, without its content."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from recollect.services.documents.page import IndexState


class ConversationGrowthDocument(Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A conversation changed from one message on."""

    from_: int
    total: int
    bytes: int
    signature: str
    live: bool


class ConversationResetDocument(Struct, frozen=True):
    """Everything fetched of a conversation is out of date."""

    reason: Literal["truncated", "vanished"]


class LiveStateDocument(Struct, frozen=True):
    """Whether a client has the session open."""

    live: bool


class SessionChangesDocument(Struct, frozen=True):
    """Sessions that changed, were deleted, or are live; and the state of the index.

    ``not_current_since``, on a team's page: the server's database does not answer, and this is from when it last did.
    """

    changed: list[str]
    gone: list[str]
    live: list[str]
    index: IndexState
    not_current_since: dt.datetime | UnsetType | None = UNSET
