"""Live data as server-sent events: a growing conversation, a changing list.

An event says where something is new, not what; the page fetches it by the usual routes. Logs are
polled; a stream ends with its connection.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import AsyncIterator
from typing import Annotated, Literal

import anyio.to_thread
import msgspec
from msgspec import UNSET, Struct, UnsetType

from recollect.ask.conversation.content import IndexState
from recollect.ask.conversation.conversation import ConversationView, ViewMessages, talk_of
from recollect.ask.conversation.window import signature
from recollect.errors import NotFound, RecollectError
from recollect.share.typed_http import Media
from recollect.web.answers import COMMENT, event
from recollect.web.desk import mark_of
from recollect.web.page import AT, Page, Routes
from recollect.web.parameters import Name, Place

routes = Routes()
POLL_SECONDS = 0.1
LIST_SECONDS = 2.0
# Whether a log has grown is one look at its file; whether its client still runs takes more and changes seldom.
_STILL_SECONDS = 0.5
_COMMENT_SECONDS = 15.0
MOST_STREAMS = 32

EventStream = Annotated[AsyncIterator[bytes], Media("text/event-stream", {"type": "string"})]
# Marks of the sessions, those that are live, the state of the index, and since when all this is not current.
_ListState = tuple[dict[str, tuple[int, int]], list[str], IndexState, dt.datetime | msgspec.UnsetType | None]


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


EVENTS = (
    ConversationGrowthDocument,
    ConversationResetDocument,
    LiveStateDocument,
    SessionChangesDocument,
)


class _ConversationState(Struct):
    """A conversation at the last poll."""

    messages: ViewMessages | None = None
    signature: str = ""
    is_live: bool | None = None
    looked_at: float = 0.0

    def is_still(self) -> bool:
        """Whether nothing was written since, as far as one look at the file tells."""
        if self.messages is None or time.monotonic() - self.looked_at > _STILL_SECONDS:
            return False
        try:
            return signature(self.messages) == self.signature
        except RecollectError:
            return False


@routes.get(f"{AT}/events")
async def session_events(
    page: Page, session: Name, query: ConversationView, after: Place | None = None
) -> EventStream:
    """Changes of one conversation."""
    state, known = _ConversationState(), after
    async for pause in _ticks(page, POLL_SECONDS):
        if pause:
            yield COMMENT
        for one in await anyio.to_thread.run_sync(_poll, page, session, query, state, known):
            yield one
        known = None


def _poll(
    page: Page, name: str, view: ConversationView, state: _ConversationState, known: int | None
) -> list[bytes]:
    if state.is_still():
        return []
    state.looked_at = time.monotonic()
    try:
        mark = signature(talk_of(page.backend.reading(name), view))
        # Read after the mark was taken: a line that comes in between is then found twice, and not never.
        session = page.backend.reading(name)
        messages = talk_of(session, view)
    except NotFound:
        return _vanished(state)
    except RecollectError:
        return []
    found: list[bytes] = []
    is_first, live = state.messages is None, session.id in page.backend.home.live_ids()
    if is_first and known is not None and known < len(messages):
        found.append(_grown(known, messages, mark, live))
    elif not is_first and mark != state.signature:
        first = first_change(state.messages, messages)
        shrunk = (
            state.messages is not None and first < len(state.messages) and len(messages) < len(state.messages)
        )
        found.append(
            event("reset", ConversationResetDocument("truncated"))
            if shrunk
            else _grown(first, messages, mark, live)
        )
    if state.is_live != live:
        found.append(event("live", LiveStateDocument(live)))
    state.messages, state.signature, state.is_live = messages, mark, live
    return found


def _vanished(state: _ConversationState) -> list[bytes]:
    if state.messages is None:
        return []
    state.messages, state.signature = None, ""
    return [event("reset", ConversationResetDocument("vanished"))]


def _grown(first: int, messages: ViewMessages, mark: str, live: bool) -> bytes:
    size = int(mark.partition("-")[0])
    grown = ConversationGrowthDocument(
        from_=first, total=len(messages), bytes=size, signature=mark, live=live
    )
    return event("grown", grown)


def first_change(before: ViewMessages | None, after: ViewMessages) -> int:
    """The first changed message: a new one, or an earlier one whose call was answered."""
    if before is None:
        return 0
    common = 0
    for old, new in zip(before.groups, after.groups, strict=False):
        if old != new:
            break
        common += 1
    callers = [
        after.places[node.parent]
        for group in after.groups[common:]
        for node in group
        if node.result_ids and node.parent in after.places
    ]
    return min([common, *callers])


# ---- the list --------------------------------------------------------------------------------------------


@routes.get("/api/events")
async def list_events(page: Page) -> EventStream:
    """Changes of the list of sessions."""
    state: _ListState | None = None
    async for pause in _ticks(page, LIST_SECONDS):
        if pause:
            yield COMMENT
        now = await anyio.to_thread.run_sync(_list_state, page)
        if state is None or now != state:
            before = {} if state is None else state[0]
            changed = [name for name, mark in now[0].items() if before.get(name) != mark]
            gone = [name for name in before if name not in now[0]]
            changes = SessionChangesDocument([] if state is None else changed, gone, now[1], now[2], now[3])
            yield event("sessions", changes)
        state = now


def _list_state(page: Page) -> _ListState:
    sessions = {one.id: mark_of(one)[1:] for one in page.backend.sessions()}
    backend = page.backend
    return sessions, sorted(backend.home.live_ids()), backend.index.state, backend.not_current_since


async def _ticks(page: Page, seconds: float) -> AsyncIterator[bool]:
    """Ticks until the server stops; True when a keep-alive comment is due."""
    last_sent = time.monotonic()
    while not page.stopping.is_set():
        is_late = time.monotonic() - last_sent > _COMMENT_SECONDS
        if is_late:
            last_sent = time.monotonic()
        yield is_late
        await asyncio.sleep(seconds)
