"""Which messages of a conversation to return, and which parts of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection

from msgspec import Struct, structs

from recollect.services.provider.chat_message import CALLS, RESULTS, ChatMessage


class MessageFilter(Struct, frozen=True, kw_only=True):
    """Roles and times to return; tool calls can be left out of a message."""

    types: Collection[str] | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    skip_tools: bool = False
    skip_system: bool = False
    whole: bool = False

    def of(self, message: ChatMessage) -> ChatMessage | None:
        """The message, or the rest of it; None where it is filtered out."""
        if self.types is not None and message.role not in self.types:
            return None
        if self.skip_system and (message.role == "system" or message.is_meta):
            return None
        if not self._in_time(message.at):
            return None
        return _without_tools(message) if self.skip_tools else message

    def _in_time(self, at: dt.datetime | None) -> bool:
        if at is None:
            return self.since is None and self.until is None
        return (self.since is None or self.since <= at) and (self.until is None or at < self.until)


def _without_tools(message: ChatMessage) -> ChatMessage | None:
    kept = tuple(block for block in message.blocks if not isinstance(block, (*CALLS, *RESULTS)))
    if len(kept) == len(message.blocks):
        return message
    return structs.replace(message, content=kept) if kept else None
