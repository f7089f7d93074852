"""Live data as server-sent events: a conversation that grows, a list that changes.

An event says where something is new, never what it is; the page fetches it by the usual routes. Polled, like
everything that follows a log here; a stream that nobody reads ends with its connection.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio.to_thread
from msgspec import Struct

from recollect.errors import NotFound, RecollectError
from recollect.services.documents import events as documents
from recollect.services.documents.page import IndexState
from recollect.services.page.conversation import ViewMessages, talk_of
from recollect.services.page.listing import mark_of
from recollect.services.page.messages import signature
from recollect.web.answers import COMMENT, event
from recollect.web.page import Page, view_of

POLL_SECONDS = 0.5
LIST_SECONDS = 2.0
_COMMENT_SECONDS = 15.0
MOST_STREAMS = 32

Values = Mapping[str, Any]
EVENTS = (
    documents.ConversationGrowthDocument,
    documents.ConversationResetDocument,
    documents.LiveStateDocument,
    documents.SessionChangesDocument,
)


class _ConversationState(Struct):
    """A conversation as it was at the last look."""

    talk: ViewMessages | None = None
    signature: str = ""
    is_live: bool | None = None


async def session_events(page: Page, asked: Values) -> AsyncIterator[bytes]:
    """What becomes of one conversation."""
    seen = _ConversationState()
    known: int | None = asked["after"]
    async for pause in _ticks(page, POLL_SECONDS):
        if pause:
            yield COMMENT
        for one in await anyio.to_thread.run_sync(_looked, page, asked, seen, known):
            yield one
        known = None


def _looked(page: Page, asked: Values, seen: _ConversationState, known: int | None) -> list[bytes]:
    try:
        session = page.desk.reading(asked["session"])
        talk: ViewMessages | None = talk_of(session, view_of(asked))
    except NotFound:
        return _vanished(seen)
    except RecollectError:
        return []
    assert talk is not None  # noqa: S101 - for the type checker
    found: list[bytes] = []
    is_first, live = seen.talk is None, session.id in page.desk.home.live_ids()
    mark = signature(talk)
    if is_first and known is not None and known < len(talk):
        found.append(_grown(known, talk, mark, live))
    elif not is_first and mark != seen.signature:
        first = first_change(seen.talk, talk)
        shrunk = seen.talk is not None and first < len(seen.talk) and len(talk) < len(seen.talk)
        found.append(
            event("reset", documents.ConversationResetDocument("truncated"))
            if shrunk
            else _grown(first, talk, mark, live)
        )
    if seen.is_live != live:
        found.append(event("live", documents.LiveStateDocument(live)))
    seen.talk, seen.signature, seen.is_live = talk, mark, live
    return found


def _vanished(seen: _ConversationState) -> list[bytes]:
    if seen.talk is None:
        return []
    seen.talk, seen.signature = None, ""
    return [event("reset", documents.ConversationResetDocument("vanished"))]


def _grown(first: int, talk: ViewMessages, mark: str, live: bool) -> bytes:
    size = int(mark.partition("-")[0])
    grown = documents.ConversationGrowthDocument(
        from_=first, total=len(talk), bytes=size, signature=mark, live=live
    )
    return event("grown", grown)


def first_change(before: ViewMessages | None, after: ViewMessages) -> int:
    """The first message that is not as it was: a new one, or an earlier one whose call was answered."""
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


async def list_events(page: Page, _: Values) -> AsyncIterator[bytes]:
    """What changes among all sessions."""
    state: tuple[dict[str, tuple[int, int]], list[str], IndexState] | None = None
    async for pause in _ticks(page, LIST_SECONDS):
        if pause:
            yield COMMENT
        now = await anyio.to_thread.run_sync(_list_state, page)
        if state is None or now != state:
            before = {} if state is None else state[0]
            changed = [name for name, mark in now[0].items() if before.get(name) != mark]
            gone = [name for name in before if name not in now[0]]
            told = documents.SessionChangesDocument([] if state is None else changed, gone, now[1], now[2])
            yield event("sessions", told)
        state = now


def _list_state(page: Page) -> tuple[dict[str, tuple[int, int]], list[str], IndexState]:
    sessions = {one.id: mark_of(one)[1:] for one in page.desk.sessions()}
    return sessions, sorted(page.desk.home.live_ids()), page.desk.index.state


async def _ticks(page: Page, seconds: float) -> AsyncIterator[bool]:
    """Again and again until the server ends; True where it is time to say that we are still here."""
    spoken = time.monotonic()
    while not page.stopping.is_set():
        is_late = time.monotonic() - spoken > _COMMENT_SECONDS
        if is_late:
            spoken = time.monotonic()
        yield is_late
        await asyncio.sleep(seconds)
