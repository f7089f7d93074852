"""What the page's streams say: where something is new, never what it is."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from recollect.services.documents.page import IndexState


class ConversationGrowthDocument(Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A conversation is another from one message on."""

    from_: int
    total: int
    bytes: int
    signature: str
    live: bool


class ConversationResetDocument(Struct, frozen=True):
    """Nothing that was fetched of a conversation is good any more."""

    reason: Literal["truncated", "vanished"]


class LiveStateDocument(Struct, frozen=True):
    """Whether a client has the session open."""

    live: bool


class SessionChangesDocument(Struct, frozen=True):
    """Sessions that changed, that are gone, and that are live; and the state of the index."""

    changed: list[str]
    gone: list[str]
    live: list[str]
    index: IndexState
